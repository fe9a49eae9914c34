"""A padded batch laid end to end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from laya._pipeline.batches import Batch

Ints = NDArray[np.int64]


class PackedBatch(NamedTuple):
    """The `n` rows of a batch as `T` tokens, of which `R` are read: each row's CLS, then its options' markers."""

    ids: Ints
    """`[T]`"""
    positions: Ints
    """`[T]`, each token's place in its row."""
    kinds: Ints
    """`[T]`, the question type of each token's row."""
    where: Ints
    """`[R]`, the tokens that are read, row after row."""
    cls: Ints
    """`[n]`, which of the R are a CLS."""
    options: Ints
    """`[R - n]`, which of the R are an option's marker."""
    slots: Ints
    """`[R - n]`, each option's place in the flattened `[n, K]` logits."""
    marker_mask: NDArray[np.bool_]
    """`[n, K]`"""
    lengths: Ints
    """`[n]`, tokens of each row."""
    reads: Ints
    """`[n]`, how many of the R each row has."""


def lay_out(batch: Batch, filler: int = 0) -> PackedBatch:
    """Drop the padding, which comes after each row's tokens; `filler` tokens that belong to no row follow the last."""
    lengths = batch.attention_mask.sum(axis=1)
    starts = lengths.cumsum() - lengths
    read = np.pad(batch.marker_mask, ((0, 0), (1, 0)), constant_values=True)
    reads = read.sum(axis=1)
    where = np.pad(batch.marker_pos, ((0, 0), (1, 0))) + starts[:, None]
    cls = reads.cumsum() - reads
    return PackedBatch(
        ids=np.pad(batch.input_ids[batch.attention_mask.astype(np.bool_)], (0, filler)),
        positions=np.pad(np.arange(lengths.sum()) - starts.repeat(lengths), (0, filler)),
        kinds=np.pad(batch.qtype.repeat(lengths), (0, filler)),
        where=where[read],
        cls=cls,
        options=np.delete(np.arange(reads.sum()), cls),
        slots=np.flatnonzero(batch.marker_mask),
        marker_mask=batch.marker_mask,
        lengths=lengths,
        reads=reads,
    )
