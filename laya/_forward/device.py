"""Choose a device, and how precise the arithmetic on it is."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import cache

import torch

from laya._pipeline.batches import PassCost
from laya.errors import OptionError

_PREFERENCE = ("cuda", "mps", "xpu", "cpu")
# Measured on this kind of device with a base-size encoder: where one more pass costs as much as that many
# tokens of padding. The budgets bound a pass' activations.
_CPU_COST = PassCost(overhead=40, budget=4096)
_PACKED_CPU_COST = PassCost(overhead=40, budget=2048, padded=False)
_ACCELERATOR_COST = PassCost(overhead=2048, budget=65536)
_PACKED_ACCELERATOR_COST = PassCost(overhead=2048, budget=16384, padded=False)


@dataclass(frozen=True, slots=True)
class Precision:
    """Types of the weights and of the arithmetic."""

    weights: torch.dtype = torch.float32
    autocast: torch.dtype | None = None

    def __str__(self) -> str:
        weights, autocast = (str(dtype).removeprefix("torch.") for dtype in (self.weights, self.autocast))
        return weights if self.autocast is None else f"{weights} with {autocast} autocast"


def choose_device(requested: str | torch.device | None) -> torch.device:
    """The device asked for, or the best there is: CUDA, MPS, XPU, then CPU.

    A device that this machine doesn't have is a `RuntimeWarning`, and the best there is takes its place. Raises
    `OptionError` for what names no device.
    """
    best = next(torch.device(kind) for kind in _PREFERENCE if _available(kind, None))
    if requested is None:
        return best
    try:
        device = torch.device(requested)
    except (RuntimeError, TypeError) as error:
        raise OptionError(
            f"device must be a torch device such as 'cpu' or 'cuda:0', got {requested!r}", option="device"
        ) from error
    if device.type not in _PREFERENCE:
        raise OptionError(f"device must be one of {', '.join(_PREFERENCE)}, got {requested!r}", option="device")
    if _available(device.type, device.index):
        return device
    warnings.warn(f"device {str(device)!r} is not available here; using {str(best)!r}", RuntimeWarning, stacklevel=4)
    return best


def choose_precision(device: torch.device, amp_dtype: str) -> Precision:
    """F32 weights; CUDA and XPU run matrix products in the narrow type that the checkpoint was trained in."""
    if device.type in ("cpu", "mps"):
        return Precision()
    return Precision(torch.float32, _narrow_types(device, amp_dtype)[0])


def narrow_precisions(device: torch.device, amp_dtype: str) -> list[Precision]:
    """Types that weights may be stored in to halve the memory traffic, the one to try first in front.

    On a CPU those in which a product is measured to be faster: emulation is several times slower than F32.
    """
    if device.type == "cpu":
        return [Precision(dtype) for dtype in (torch.bfloat16, torch.float16) if _pays_on_cpu(dtype)]
    if device.type == "mps":
        return [Precision(torch.float16)]
    return [Precision(dtype) for dtype in _narrow_types(device, amp_dtype)]


def _narrow_types(device: torch.device, amp_dtype: str) -> list[torch.dtype]:
    """The checkpoint's own first. F16 rounds eight times as finely as BF16, whose values may be larger."""
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return [torch.float16]
    types = [torch.bfloat16, torch.float16]
    return types[::-1] if amp_dtype in ("fp16", "float16") else types


def pass_cost(device: torch.device, packed: bool) -> PassCost:
    """What a forward pass costs on a device, over rows that lie end to end or over padded ones."""
    if device.type == "cpu":
        return _PACKED_CPU_COST if packed else _CPU_COST
    return _PACKED_ACCELERATOR_COST if packed else _ACCELERATOR_COST


def _available(kind: str, index: int | None) -> bool:
    if kind == "cpu":
        return True
    if kind == "mps":
        return torch.backends.mps.is_available()
    backend = getattr(torch, kind)
    return bool(backend.is_available()) and (index is None or index < backend.device_count())


@cache
def _pays_on_cpu(dtype: torch.dtype) -> bool:
    """Whether this processor multiplies matrices of a type clearly faster than F32 ones; milliseconds, once."""
    wide = [torch.ones(256, 768), torch.ones(768, 768)]
    narrow = [matrix.to(dtype) for matrix in wide]
    return _product_seconds(*narrow) < 0.8 * _product_seconds(*wide)


def _product_seconds(x: torch.Tensor, weight: torch.Tensor) -> float:
    """The fastest of a few products, the first not counted, which may compile a kernel."""
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        torch.nn.functional.linear(x, weight)
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])
