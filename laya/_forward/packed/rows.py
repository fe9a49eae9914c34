"""Rows laid end to end, and attention within each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

_BLOCKED_FROM = 4
"""Windows that make a row long: from there on, looking only around each query costs less than masking the whole square.

Measured on a CPU, as is the size of a block.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring rows of one length."""

    start: int
    """First token, counted over all rows."""
    first: int
    """First row."""
    rows: int
    length: int


@dataclass(frozen=True)
class Rows:
    """Where each row lies in the tokens of a pass."""

    lengths: Sequence[int]
    filler: int = 0
    """Tokens after the last row that belong to none; they are computed, attend to nothing, and nothing reads them."""
    runs: list[Run] = field(init=False)
    positions: Tensor = field(init=False)
    """`[T]`, each token's place in its row, 0 in the filler."""
    starts: Tensor = field(init=False)
    """`[n]`, each row's first token."""
    _masks: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = torch.tensor(self.lengths)
        starts = lengths.cumsum(0) - lengths
        object.__setattr__(self, "runs", list(_runs(self.lengths)))
        object.__setattr__(self, "starts", starts)
        positions = torch.arange(int(lengths.sum())) - starts.repeat_interleave(lengths)
        object.__setattr__(self, "positions", pad(positions, (0, self.filler)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        """Attention of `[T, H, h]` queries over their own row -> `[T, H * h]`.

        With a window a token sees the tokens at most that many places away.
        """
        mixed = torch.empty(v.shape, dtype=v.dtype)
        if self.filler:
            mixed[-self.filler :] = 0
        for run in self.runs:
            part = slice(run.start, run.start + run.rows * run.length)
            shape = (run.rows, run.length)
            out, qs, ks, vs = (x[part].unflatten(0, shape).transpose(1, 2) for x in (mixed, q, k, v))
            if window is not None and run.length >= _BLOCKED_FROM * window:
                for row in range(run.rows):
                    out[row] = self._attend_nearby(qs[row], ks[row], vs[row], window)
            else:
                mask = None if window is None or run.length <= window + 1 else self._band(run.length, window)
                out.copy_(scaled_dot_product_attention(qs, ks, vs, attn_mask=mask))
        return mixed.flatten(1)

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of a few queries `[n, P, H, h]` of each row over all its tokens -> `[n, P, H * h]`."""
        mixed = torch.empty(q.shape, dtype=q.dtype)
        for run in self.runs:
            rows = slice(run.first, run.first + run.rows)
            part = slice(run.start, run.start + run.rows * run.length)
            keys, values = (x[part].unflatten(0, (run.rows, run.length)).transpose(1, 2) for x in (k, v))
            mixed[rows] = scaled_dot_product_attention(q[rows].transpose(1, 2), keys, values).transpose(1, 2)
        return mixed.flatten(2)

    def _attend_nearby(self, q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
        """Attention `[H, L, h]` in which a block of queries looks at its surroundings only, all blocks in one call."""
        heads, length, width = q.shape
        block = _block(window)
        blocks, span = -(-length // block), block + 2 * window
        beyond = blocks * block - length
        queries = pad(q, (0, 0, 0, beyond)).unflatten(1, (blocks, block)).transpose(0, 1)
        keys, values = (
            padded.as_strided((blocks, heads, span, width), (block * width, padded.stride(0), width, 1))
            for padded in (pad(x, (0, 0, window, window + beyond)) for x in (k, v))
        )
        mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=self._surroundings(length, window))
        return mixed.transpose(0, 1).flatten(1, 2)[:, :length]

    def _band(self, length: int, window: int) -> Tensor:
        """`[L, L]`, 0 where a query may look and minus infinity elsewhere."""
        places = torch.arange(length)
        return self._mask(("band", length, window), lambda: (places.unsqueeze(1) - places).abs() <= window)

    def _surroundings(self, length: int, window: int) -> Tensor:
        """The same for blocks of queries and the keys around each, `[blocks, 1, block, span]`."""
        block = _block(window)

        def visible() -> Tensor:
            first = torch.arange(0, length, block)[:, None, None]
            query = first + torch.arange(block)[:, None]
            key = first - window + torch.arange(block + 2 * window)
            near = ((query - key).abs() <= window) & (key >= 0) & (key < length)
            # What lies beyond the row is thrown away; it looks at everything, so that no softmax is over nothing.
            return (near | (query >= length)).unsqueeze(1)

        return self._mask(("surroundings", length, window), visible)

    def _mask(self, key: tuple[str, int, int], visible: Callable[[], Tensor]) -> Tensor:
        known = self._masks.get(key)
        if known is None:
            seen = visible()
            known = self._masks[key] = torch.zeros(seen.shape).masked_fill_(~seen, -torch.inf)
        return known


def _block(window: int) -> int:
    return max(16, window // 2)


def _runs(lengths: Sequence[int]) -> Iterator[Run]:
    start = first = 0
    for length, group in groupby(lengths):
        rows = len(list(group))
        yield Run(start, first, rows, length)
        start, first = start + rows * length, first + rows
