"""Decide which rows share a forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """Input of one forward pass over `n` rows of length `L` with up to `K` options."""

    input_ids: NDArray[np.int64]
    """`[n, L]`"""
    attention_mask: NDArray[np.int64]
    """`[n, L]`, 1 for a token and 0 for padding"""
    marker_pos: NDArray[np.int64]
    """`[n, K]`, positions of the MASK tokens, 0 where there is no option"""
    marker_mask: NDArray[np.bool_]
    """`[n, K]`, True where there is an option"""
    qtype: NDArray[np.int64]
    """`[n]`, 0 choice, 1 score, 2 noul"""


@dataclass(frozen=True, slots=True)
class PassCost:
    """What one forward pass costs, in units of one token's work."""

    overhead: int
    """Fixed cost of a pass, as a number of tokens."""
    budget: int
    """Most tokens of one pass, padding counted where it is computed; a single longer row gets a pass of its own."""
    padded: bool = True
    """Whether each row costs as much as the longest of its pass."""


def plan_passes(lengths: Sequence[int], cost: PassCost, in_turn: bool = False) -> list[list[int]]:
    """Split rows into passes so that their cost is least: `overhead + rows * longest`, or as few passes as fit.

    Rows are sorted by length, so that a pass is a run of neighbours. Returns row indices, shortest pass first; rows of
    one pass are in rising length. Deterministic: equal lengths keep their order.

    With `in_turn` rows go into passes in the order given, where padding doesn't make that dear.
    """
    if len(lengths) < 2:
        return [[row] for row in range(len(lengths))]
    if in_turn and not cost.padded:
        # Rows of one length side by side are looked at in one call.
        return [sorted(rows, key=lengths.__getitem__) for rows in _filled(range(len(lengths)), lengths, cost.budget)]
    order = np.argsort(np.asarray(lengths), kind="stable")
    longest = np.asarray(lengths)[order]
    if cost.padded:
        return _cut(order, longest, cost)
    return _filled(order.tolist(), longest.tolist(), cost.budget)


def _filled(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Take rows into a pass until the next one doesn't fit."""
    passes: list[list[int]] = [[]]
    used = 0
    for row, length in zip(order, lengths, strict=True):
        if passes[-1] and used + length > budget:
            passes.append([])
            used = 0
        passes[-1].append(row)
        used += length
    return passes


def _cut(order: NDArray[np.int64], longest: NDArray[np.int64], cost: PassCost) -> list[list[int]]:
    """Dynamic programming over where passes end."""
    count = len(order)
    best = np.zeros(count + 1)
    cut = np.zeros(count + 1, dtype=np.int64)
    positions = np.arange(count)
    for end in range(1, count + 1):
        width = int(longest[end - 1])
        start = max(0, end - max(1, cost.budget // width))
        totals = best[start:end] + (end - positions[start:end]) * width
        choice = int(totals.argmin())
        best[end] = totals[choice] + cost.overhead
        cut[end] = start + choice
    passes = []
    end = count
    while end:
        passes.append(order[cut[end] : end].tolist())
        end = int(cut[end])
    return passes[::-1]


def pad_rows(
    rows: Sequence[NDArray[np.int64]],
    markers: Sequence[NDArray[np.int64]],
    type_ids: Sequence[int],
    pad: int,
    min_options: int = 1,
) -> Batch:
    """Pad rows of ids and of marker positions to common widths."""
    count, width = len(rows), max(map(len, rows))
    options = max(min_options, *map(len, markers))
    input_ids = np.full((count, width), pad, dtype=np.int64)
    attention_mask = np.zeros((count, width), dtype=np.int64)
    marker_pos = np.zeros((count, options), dtype=np.int64)
    marker_mask = np.zeros((count, options), dtype=np.bool_)
    for index, (row, positions) in enumerate(zip(rows, markers, strict=True)):
        input_ids[index, : len(row)] = row
        attention_mask[index, : len(row)] = 1
        marker_pos[index, : len(positions)] = positions
        marker_mask[index, : len(positions)] = True
    return Batch(input_ids, attention_mask, marker_pos, marker_mask, np.asarray(type_ids, dtype=np.int64))
