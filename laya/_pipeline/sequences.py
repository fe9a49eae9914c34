"""Token sequences: `CLS prompt SEP (MASK option)* SEP state SEP`, within the two budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laya._checkpoints.config import KINDS
from laya._pipeline.questions import Question
from laya.errors import OptionError, QuestionError

IdArray = NDArray[np.int64]
EncodeTexts = Callable[[Sequence[str]], list[list[int]]]

OPTION_TOKENS = 48
"""Tokens that one option may keep, its MASK not counted."""
MIN_OPTION_TOKENS = 4
"""Tokens that an option keeps however many there are, its MASK included."""
PROMPT_RESERVE = 16
"""Tokens that the options leave to the prompt before they are cut themselves."""
MIN_PROMPT_TOKENS = 8


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of the four tokens that frame a sequence."""

    cls: int
    sep: int
    mask: int
    pad: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """Tokens of a whole sequence, and of its question part."""

    max_len: int
    head_max_len: int

    def __post_init__(self) -> None:
        for name in ("max_len", "head_max_len"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise OptionError(f"{name} must be a positive whole number of tokens, got {value!r}", option=name)
            # What is counted with NumPy's integers is one of them, and no JSON.
            object.__setattr__(self, name, int(value))


@dataclass(frozen=True, slots=True)
class Head:
    """The tokens of one question, the same for every state."""

    question: Question
    ids: IdArray
    """Everything before the state."""
    markers: IdArray
    """Positions of the MASK tokens, in slot order."""
    room: int
    """Tokens left to the state."""
    distinct_options: int
    """Fewer than there are options where two read the same to the model."""
    tokens_per_option: int | None
    """Tokens that each option was cut to, its MASK included; None if the budget left them whole."""

    @property
    def type_id(self) -> int:
        return KINDS.index(self.question.kind)


def build_head(question: Question, encode: EncodeTexts, special: SpecialIds, budgets: Budgets) -> Head:
    """Tokenize one question within the budgets.

    `encode` maps texts to ids without special tokens, the mask token already blanked out. Raises
    `QuestionError` if a MASK would fall at or beyond `max_len`: its option could not be answered.
    """
    shown = question.shown
    prompt, *full = encode([question.prompt, *(" " + text for text in shown)])
    options = [ids[:OPTION_TOKENS] for ids in full]
    left = budgets.head_max_len - sum(len(ids) + 1 for ids in options)
    keep = None
    if left < PROMPT_RESERVE:
        keep = max(MIN_OPTION_TOKENS, (budgets.head_max_len - PROMPT_RESERVE) // len(options))
        options = [ids[: keep - 1] for ids in options]
        left = budgets.head_max_len - sum(len(ids) + 1 for ids in options)
    ids = [special.cls, *prompt[: max(MIN_PROMPT_TOKENS, left)], special.sep]
    markers = []
    for option in options:
        markers.append(len(ids))
        ids += [special.mask, *option]
    ids.append(special.sep)
    fitting = sum(position < budgets.max_len for position in markers)
    if fitting < len(markers):
        raise QuestionError(
            f"question {question.id!r}: only {fitting} of its {len(markers)} options fit into max_len="
            f"{budgets.max_len} with head_max_len={budgets.head_max_len}; lower head_max_len, raise max_len or "
            "use fewer options",
            question_id=question.id,
        )
    return Head(
        question=question,
        ids=np.asarray(ids[: budgets.max_len], dtype=np.int64),
        markers=np.asarray(markers, dtype=np.int64),
        room=max(0, budgets.max_len - len(ids) - 1),
        distinct_options=len({tuple(option) for option in options}),
        tokens_per_option=keep,
    )


def sequence_ids(head: Head, state: IdArray, from_left: bool, sep: int, max_len: int) -> IdArray:
    """Join a head and a state's tokens: the first ones that fit, or the last ones `from_left`."""
    dropped = max(0, len(state) - head.room)
    kept = state[dropped:] if from_left else state[: len(state) - dropped]
    return np.concatenate((head.ids, kept, (sep,)))[:max_len]
