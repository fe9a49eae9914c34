"""The engine behind `laya.testing`: words for tokens, a hash for a model, and a script before both."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laya._checkpoints.config import CheckpointConfig
from laya._numbers import as_float
from laya._pipeline.answers import decode_answer
from laya._pipeline.batches import Batch, PassCost
from laya._pipeline.calibration import Temperatures
from laya._pipeline.engine import BatchOptions, Engine
from laya._pipeline.questions import Question, parse_questions
from laya._pipeline.sequences import SpecialIds
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import OptionError

SURE = 0.97
"""What a scripted label, level or truth gets; the other options share the rest."""

_SPECIAL = SpecialIds(cls=0, sep=1, mask=2, pad=3)


class FakeEngine(Engine):
    """Answers from `script`, by question id; what it leaves open follows from the words that a row holds."""

    def __init__(self, script: Mapping[str, Any], max_len: int, head_max_len: int) -> None:
        config = CheckpointConfig(
            max_len=max_len,
            head_max_len=head_max_len,
            head_layers=0,
            temperature=(1.0, 1.0, 1.0),
            temperature_by_options={},
            actions=1,
            amp_dtype="fp32",
            model_name=None,
            raw={},
        )
        super().__init__(_WordTokenizer(), _HashForward(), config)
        self.budgets(None, None)  # refuses budgets that are none
        self.script: dict[Any, Any] = dict(script)
        self.asked: list[tuple[list[Any], dict[str, Any]]] = []
        """States and questions of each call that got here, as they were then."""

    def infer(
        self,
        states: Any,
        questions: Any,
        budgets: tuple[int | None, int | None] = (None, None),
        options: BatchOptions = BatchOptions(),  # noqa: B008 - frozen
        temperatures: Temperatures | None = None,
    ) -> list[dict[str, Any]]:
        """Check and answer as `Engine.infer` does, then put the script's answers over the computed ones."""
        results = super().infer(states, questions, budgets, options, temperatures)
        self.asked.append(([copied(state) for state in states], copied(dict(questions))))
        script = self.script
        scripted = [question for question in parse_questions(questions) if question.id in script]
        for state, result in zip(states, results, strict=True):
            for question in scripted:
                value = script[question.id]
                result["answers"][question.id] = _answer(question, value(state) if _is_function(value) else value)
        return results


def copied(value: Any) -> Any:
    """A deep copy, or the value itself where it has something in it that can't be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


class _WordTokenizer(TextTokenizer):
    """One token a word; an id is a hash of its word, the same in every process."""

    def __init__(self) -> None:
        self.special = _SPECIAL
        self._words: dict[int, str] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._id(word) for word in text.split()] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._words[int(token)] for token in ids)

    def _id(self, word: str) -> int:
        token = len(_SPECIAL.__slots__) + _hash(word.encode("utf-8", "surrogatepass"))
        self._words[token] = word
        return token


class _HashForward:
    """Logits in [-2, 2] that depend on a row's tokens alone, not on its neighbours or the padding."""

    cost = PassCost(overhead=0, budget=1 << 20)
    max_positions = None
    min_options = 1

    def __call__(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        rows, options = batch.marker_pos.shape
        logits = np.zeros((rows, options), dtype=np.float32)
        for row in range(rows):
            tokens = batch.input_ids[row][batch.attention_mask[row] == 1].tobytes()
            for option in range(options):
                logits[row, option] = _hash(tokens + bytes([option % 256])) / 2**54 - 2.0
        return logits, np.zeros((rows, 2), dtype=np.float32)


def _hash(data: bytes) -> int:
    """A number below 2**56."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=7).digest(), "big")


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _answer(question: Question, value: Any) -> dict[str, Any]:
    if isinstance(value, BaseException):
        raise value
    shares = _shares(question, value)
    logits = [math.log(max(share, 1e-12)) for share in shares]
    return decode_answer(replace(question, order=None), logits, 0.5, 1.0)


def _shares(question: Question, value: Any) -> list[float]:
    """The probability of each option, in the caller's order."""
    if question.kind == "noul":
        return _noul_shares(question, value)
    if isinstance(value, Mapping):
        return _given_shares(question, value)
    label = str(value) if question.kind == "score" and type(value) is int else value
    if label not in question.labels:
        raise _error(question, value, f"one of {', '.join(map(repr, question.labels))}")
    chosen, others = question.labels.index(label), len(question.labels) - 1
    if not others:
        return [1.0]
    return [SURE if index == chosen else (1.0 - SURE) / others for index in range(others + 1)]


def _noul_shares(question: Question, value: Any) -> list[float]:
    if isinstance(value, bool):
        value = SURE if value else 1.0 - SURE
    if not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise _error(question, value, "a bool, or P(true) from 0 to 1")
    return [1.0 - float(value), float(value)]


def _given_shares(question: Question, given: Mapping[Any, Any]) -> list[float]:
    numbers = {str(key) if question.kind == "score" else key: as_float(share) for key, share in given.items()}
    shares = {key: share for key, share in numbers.items() if share is not None and 0.0 <= share < math.inf}
    total = sum(shares.values())
    if len(shares) < len(numbers) or not set(shares) <= set(question.labels) or not 0.0 < total < math.inf:
        labels = ", ".join(map(repr, question.labels))
        raise _error(question, given, f"shares of {labels}, each a finite number from 0 up, together more than 0")
    return [shares.get(label, 0.0) / total for label in question.labels]


def _error(question: Question, value: Any, allowed: str) -> OptionError:
    got = type(value).__name__ if isinstance(value, str | Mapping) else repr(value)
    got = f"{value!r}" if isinstance(value, str) and len(value) <= 80 else got
    return OptionError(
        f"the scripted answer of {question.kind} question {question.id!r} is {got}; it must be {allowed}",
        option="answers",
    )
