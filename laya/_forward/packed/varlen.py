"""Attention within rows that lie end to end, all rows in one kernel: for CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laya._forward.packed.layout import Ints, PackedBatch
from laya._forward.packed.rows import ProcessorRows

_ROUNDING = 0.03
"""How far two attentions over values around 1 in a narrow type may lie apart."""


@dataclass(frozen=True, slots=True)
class VarlenRows:
    """Rows whose bounds are on the device, which never waits for the host."""

    bounds: Tensor
    """`[n + 1]` int32: each row's first token, and the end of the last row."""
    readings: Tensor
    """`[n + 1]` int32: the same in the tokens that are read."""
    longest: int
    most_read: int
    """Tokens that are read of the row with the most."""

    @classmethod
    def of(cls, packed: PackedBatch, device: torch.device) -> VarlenRows:
        """The rows of a batch without filler: the kernel leaves tokens unwritten that are in no row."""
        lengths, reads = packed.lengths, packed.reads
        return cls(_bounds(lengths, device), _bounds(reads, device), int(lengths.max()), int(reads.max()))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        """As `Rows` says."""
        reach = -1 if window is None else window
        mixed: Tensor = _kernel()(
            q, k, v, self.bounds, self.bounds, self.longest, self.longest, window_size=(reach, reach)
        )
        return mixed.flatten(1)

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """As `Rows` says."""
        mixed: Tensor = _kernel()(q, k, v, self.readings, self.bounds, self.most_read, self.longest)
        return mixed.flatten(1)


@cache
def varlen_works(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Whether this PyTorch has the kernel for heads of a width on a device, and computes with it what it should.

    It is young and takes only some types, widths and devices, so it is tried: on rows longer and shorter than the
    window, and with fewer queries than keys.
    """
    lengths, reads, window = [300, 7], [2, 1], 20
    plain = ProcessorRows(lengths, reads)
    rows = VarlenRows(_bounds(lengths, device), _bounds(reads, device), max(lengths), max(reads))
    generator = torch.Generator().manual_seed(0)
    packed = torch.randn(sum(lengths), 3, 2, width, generator=generator).to(dtype)
    q, k, v = packed.float().unbind(1)
    wanted = plain.attend(q, k, v, window), plain.attend(q, k, v), plain.read(q[: sum(reads)], k, v)
    q, k, v = packed.to(device).unbind(1)
    try:
        computed = rows.attend(q, k, v, window), rows.attend(q, k, v), rows.read(q[: sum(reads)], k, v)
        # A kernel's error shows when its result is waited for.
        found = [result.float().cpu() for result in computed]
    except torch.cuda.OutOfMemoryError:
        raise
    except (ImportError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    return all(
        torch.allclose(mine, right, atol=_ROUNDING, rtol=_ROUNDING) for mine, right in zip(found, wanted, strict=True)
    )


def _bounds(counts: Sequence[int] | Ints, device: torch.device) -> Tensor:
    return torch.from_numpy(np.cumsum([0, *counts], dtype=np.int32)).to(device)


def _kernel() -> Any:
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn
