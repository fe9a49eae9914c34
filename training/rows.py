"""Examples as the model reads them: token sequences of the runtime's own making, in batches of similar length."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from laya._checkpoints.config import load_tokenizer_names
from laya._pipeline.questions import parse_questions
from laya._pipeline.sequences import Budgets, IdArray, build_head, sequence_ids
from laya._pipeline.states import cut_from_left, state_text
from laya._pipeline.tokenizer import TextTokenizer
from training.example import Example

BUDGETS = Budgets(max_len=512, head_max_len=448)
"""Of the checkpoint: 77 options keep their words."""


@dataclass(frozen=True)
class Row:
    """One example in tokens; `target` follows the slots, not the caller's order."""

    ids: IdArray
    markers: IdArray
    type_id: int
    target: tuple[float, ...]
    source: str


@dataclass(frozen=True)
class TrainingBatch:
    """Padded rows: the network's five inputs, and `[n, K]` targets that are zero where there is no option."""

    inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    target: Tensor
    sources: tuple[str, ...]


class RowEncoder:
    """Tokenizes examples with a checkpoint's tokenizer; `folder` holds tokenizer.json and its configuration."""

    def __init__(self, folder: Path) -> None:
        names = load_tokenizer_names(folder / "tokenizer_config.json")
        self._tokenizer = TextTokenizer.from_file(folder / "tokenizer.json", names)

    @property
    def pad(self) -> int:
        """Id of the token that fills up a row."""
        return self._tokenizer.special.pad

    def encode(self, example: Example) -> Row:
        """Return the example in tokens, cut to the budgets as the runtime cuts it."""
        (question,) = parse_questions({"q": example.question})
        special = self._tokenizer.special
        head = build_head(question, self._tokenizer.encode, special, BUDGETS)
        (state,) = self._tokenizer.encode([state_text(example.state)])
        ids = sequence_ids(
            head, np.asarray(state, dtype=np.int64), cut_from_left(example.state), special.sep, BUDGETS.max_len
        )
        order = question.order or range(len(example.target))
        target = tuple(example.target[option] for option in order)
        return Row(ids, head.markers, head.type_id, target, example.source)


def plan(rows: Sequence[Row], tokens: int, most_rows: int, rng: random.Random) -> list[list[int]]:
    """Cut rows into batches of similar length under a token budget, in shuffled order."""
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), i))
    batches: list[list[int]] = [[]]
    for index in order:
        batch = batches[-1]
        if batch and ((len(batch) + 1) * len(rows[index].ids) > tokens or len(batch) == most_rows):
            batches.append([])
        batches[-1].append(index)
    rng.shuffle(batches)
    return batches


def collate(rows: Sequence[Row], pad: int) -> TrainingBatch:
    """Pad rows to one width of tokens and one of options."""
    n, length = len(rows), max(len(row.ids) for row in rows)
    options = max(2, *(len(row.markers) for row in rows))
    ids = torch.full((n, length), pad, dtype=torch.long)
    attention = torch.zeros((n, length), dtype=torch.long)
    markers = torch.zeros((n, options), dtype=torch.long)
    mask = torch.zeros((n, options), dtype=torch.bool)
    target = torch.zeros((n, options))
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.from_numpy(row.ids)
        attention[i, : len(row.ids)] = 1
        markers[i, : len(row.markers)] = torch.from_numpy(row.markers)
        mask[i, : len(row.markers)] = True
        target[i, : len(row.target)] = torch.tensor(row.target)
    types = torch.tensor([row.type_id for row in rows])
    return TrainingBatch((ids, attention, markers, mask, types), target, tuple(row.source for row in rows))
