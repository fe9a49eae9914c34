"""The rows of a call, a state with a question each: what goes into passes, what came out, and the results of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from laya._pipeline.answers import decode_answer
from laya._pipeline.sequences import Head, IdArray

RESULT_MODEL = "laya-rl-agent"
"""The `model` of every result."""


@dataclass(frozen=True, slots=True)
class AskedQuestions:
    """The questions of one call, checked."""

    heads: list[Head]
    scales: list[float]
    """For each question the temperature that its logits are divided by."""
    max_len: int


@dataclass(slots=True)
class StateRows:
    """One state on its way through a call."""

    asked: AskedQuestions
    ids: IdArray
    """The tokens that may fit beside a question."""
    tokens: int
    """How many tokens the whole state has."""
    from_left: bool
    answers: list[tuple[list[float], float, int] | None]
    """For each question its option logits, its act probability and the tokens of its row."""
    waiting: int = 0
    """Questions that `finished` has not counted yet."""


Row = tuple[StateRows, int]
"""A state, and the index of a question of its call."""


@dataclass(frozen=True, slots=True)
class CallRows:
    """The rows of one call, ready for passes that it may share with other calls."""

    states: list[StateRows]
    tokens: int
    """Of all rows together."""

    @property
    def answered(self) -> bool:
        """Whether all of its rows have been through a pass."""
        return all(None not in item.answers for item in self.states)

    def results(self) -> list[dict[str, Any]]:
        """One result a state, in input order, once the call is `answered`."""
        return [result_of(item) for item in self.states]


def empty_result() -> dict[str, Any]:
    """The result of a state that was asked nothing."""
    return {"model": RESULT_MODEL, "answers": {}, "usage": {"input_tokens": 0, "output_tokens": 0}}


def row_length(item: StateRows, index: int) -> int:
    """Tokens of one row."""
    head = item.asked.heads[index]
    return min(item.asked.max_len, len(head.ids) + min(head.room, len(item.ids)) + 1)


def finished(rows: Sequence[Row]) -> int:
    """States of which this pass answered the last question."""
    done = 0
    for item, _ in rows:
        item.waiting -= 1
        done += item.waiting == 0
    return done


def result_of(item: StateRows) -> dict[str, Any]:
    """The result of a state all of whose rows have been through a pass."""
    answers = {}
    input_tokens = 0
    for head, scale, output in zip(item.asked.heads, item.asked.scales, item.answers, strict=True):
        assert output is not None  # every planned pass has run
        logits, act_probability, tokens = output
        answers[head.question.id] = decode_answer(head.question, logits, act_probability, scale)
        input_tokens += tokens
    return {"model": RESULT_MODEL, "answers": answers, "usage": _usage(item, input_tokens)}


def _usage(item: StateRows, input_tokens: int) -> dict[str, Any]:
    heads = item.asked.heads
    count = item.tokens
    dropped = {head.question.id: max(0, count - head.room) for head in heads}
    usage: dict[str, Any] = {
        "input_tokens": input_tokens,
        "output_tokens": 0,
        "state_tokens": count,
        "state_tokens_dropped": max(dropped.values()),
        "truncated": any(dropped.values()),
        "truncated_questions": [qid for qid, tokens in dropped.items() if tokens],
    }
    collisions = {
        head.question.id: {
            "total": len(head.question.options),
            "distinct": head.distinct_options,
            "tokens_per_option": head.tokens_per_option,
        }
        for head in heads
        if head.distinct_options < len(head.question.options)
    }
    if collisions:
        usage["options"] = collisions
    return usage
