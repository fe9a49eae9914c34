"""Rows laid end to end, and attention within each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

_BLOCKED_FROM = 4
"""Windows that make a row long: from there on, looking only around each query costs less than masking the whole square.

Measured on a CPU, as is the size of a block.
"""


class Rows(Protocol):
    """Where rows lie in the tokens of a pass, and attention within each of them."""

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        """Attention of `[T, H, h]` queries over their own row -> `[T, H * h]`.

        With a window a token sees the tokens at most that many places away.
        """

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of a few queries `[R, H, h]` of each row over all its tokens -> `[R, H * h]`."""


class Run(NamedTuple):
    """Neighbouring rows that are alike, which are looked at in one call."""

    rows: int
    tokens: slice
    """Of all rows' tokens, theirs."""
    reads: slice
    """Of all tokens that are read, theirs."""


@dataclass(frozen=True)
class ProcessorRows:
    """Rows of known lengths, for processors: a call for each run of rows of one length."""

    lengths: Sequence[int]
    reads: Sequence[int]
    """How many of each row's tokens are read."""
    filler: int = 0
    """Tokens after the last row that belong to none; they are computed, attend to nothing, and nothing reads them."""
    _masks: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """As `Rows` says."""
        return max(self.lengths)

    @cached_property
    def _alike(self) -> list[Run]:
        """Runs of rows of one length."""
        return list(_runs(self.lengths, self.reads, self.lengths))

    @cached_property
    def _read_alike(self) -> list[Run]:
        """Runs of rows of one length with as many tokens that are read."""
        return list(_runs(self.lengths, self.reads, list(zip(self.lengths, self.reads, strict=True))))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        """As `Rows` says; the filler gets zeros."""
        mixed = torch.empty(v.shape, dtype=v.dtype)
        if self.filler:
            mixed[-self.filler :] = 0
        for run in self._alike:
            out, qs, ks, vs = (_by_row(x[run.tokens], run.rows) for x in (mixed, q, k, v))
            length = qs.shape[2]
            if window is not None and length >= _BLOCKED_FROM * window:
                for row in range(run.rows):
                    out[row] = self._attend_nearby(qs[row], ks[row], vs[row], window)
            else:
                mask = None if window is None or length <= window + 1 else self._band(length, window)
                out.copy_(scaled_dot_product_attention(qs, ks, vs, attn_mask=mask))
        return mixed.flatten(1)

    def read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """As `Rows` says."""
        mixed = torch.empty(q.shape, dtype=q.dtype)
        for run in self._read_alike:
            out, qs = (_by_row(x[run.reads], run.rows) for x in (mixed, q))
            ks, vs = (_by_row(x[run.tokens], run.rows) for x in (k, v))
            out.copy_(scaled_dot_product_attention(qs, ks, vs))
        return mixed.flatten(1)

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


def _by_row(x: Tensor, rows: int) -> Tensor:
    """`[rows * L, H, h]` -> `[rows, H, L, h]`, the same memory."""
    split: Tensor = x.unflatten(0, (rows, -1))
    return split.transpose(1, 2)


def _runs(lengths: Sequence[int], reads: Sequence[int], keys: Sequence[object]) -> Iterator[Run]:
    """Runs of neighbours with equal keys."""
    token = read = 0
    for _, group in groupby(range(len(keys)), key=keys.__getitem__):
        rows = list(group)
        tokens, readings = sum(lengths[row] for row in rows), sum(reads[row] for row in rows)
        yield Run(len(rows), slice(token, token + tokens), slice(read, read + readings))
        token, read = token + tokens, read + readings
