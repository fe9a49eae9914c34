"""The steps from states and questions to results, in order. Knows neither hooks nor any framework."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from laya._checkpoints.config import CheckpointConfig
from laya._pipeline.answers import decode_answer, softmax
from laya._pipeline.batches import Batch, PassCost, pad_rows, plan_passes
from laya._pipeline.cache import BoundedCache
from laya._pipeline.calibration import Temperatures
from laya._pipeline.questions import Question, parse_questions
from laya._pipeline.sequences import Budgets, Head, IdArray, build_head, sequence_ids
from laya._pipeline.states import check_state_contents, check_states, cut_from_left, state_text
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import CheckpointError, OptionError

RESULT_MODEL = "laya-rl-agent"
"""The `model` of every result."""

_MARSHAL_WITHOUT_REFERENCES = 2
"""A format in which equal values have equal bytes, whether or not they are one object."""
_WINDOW_ROWS = 2048
"""Rows that are encoded, sorted and answered together; bounds the memory of a call."""
_WINDOW_CHARACTERS = 400_000
"""Text that is encoded together: bounds the memory of a call over long states."""
_ENCODED_TOGETHER = 64
"""Texts that the tokenizer works on at once: what it keeps beside the ids is many times as large."""
_HEAD_CACHE = 512
"""Question heads kept across calls."""
_SET_CACHE = 64
"""Whole question sets kept across calls, so that the next call needn't check them again."""


class Forward(Protocol):
    """Computes one pass. Safe to call from many threads."""

    @property
    def cost(self) -> PassCost:
        """What a pass costs on this device."""

    @property
    def max_positions(self) -> int | None:
        """Tokens that the encoder has positions for; None where positions are rotary and have no end."""

    @property
    def min_options(self) -> int:
        """The narrowest option axis that the model takes."""

    def __call__(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Option logits `[n, K]` (any value where there is no option) and action logits `[n, A]`."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How the rows of one call are split into passes, and what is shown meanwhile."""

    batch_size: int | None = None
    """States in one pass; None lets the runtime choose."""
    sort_by_length: bool = False
    show_progress: bool = False


@dataclass(slots=True)
class _StateWork:
    """One state on its way through a call."""

    ids: IdArray
    """The tokens that may fit beside a question."""
    tokens: int
    """How many tokens the whole state has."""
    from_left: bool
    answers: list[tuple[list[float], float] | None]
    """For each question its option logits and its act probability."""
    input_tokens: int = 0
    waiting: int = field(default=0)


class Engine:
    """A tokenizer, a forward and a checkpoint's configuration, put together."""

    def __init__(self, tokenizer: TextTokenizer, forward: Forward, config: CheckpointConfig) -> None:
        self.tokenizer = tokenizer
        self.forward = forward
        self.config = config
        self.temperatures = Temperatures.of_checkpoint(config)
        self._heads: BoundedCache[Head] = BoundedCache(_HEAD_CACHE)
        self._sets: BoundedCache[list[Head]] = BoundedCache(_SET_CACHE)

    def budgets(self, max_len: int | None, head_max_len: int | None) -> Budgets:
        """Budgets of a call: what it asks for, else the checkpoint's own."""
        budgets = Budgets(
            self.config.max_len if max_len is None else max_len,
            self.config.head_max_len if head_max_len is None else head_max_len,
        )
        positions = self.forward.max_positions
        if positions is not None and budgets.max_len > positions:
            raise OptionError(
                f"max_len={budgets.max_len} is more than the {positions} positions that this encoder has; lower it",
                option="max_len",
            )
        return budgets

    def infer(
        self,
        states: Any,
        questions: Any,
        budgets: tuple[int | None, int | None] = (None, None),
        options: BatchOptions = BatchOptions(),
        temperatures: Temperatures | None = None,
    ) -> list[dict[str, Any]]:
        """Answer every question about every state; results keep the order of `states`.

        `budgets` are the call's `(max_len, head_max_len)`. Raises `StateError` and `QuestionError` before
        anything is tokenized.
        """
        check_states(states)
        heads = self.heads(questions, budgets, validate=bool(states))
        if not states or not heads:
            return [empty_result() for _ in states]
        check_state_contents(states)
        chosen = temperatures or self.temperatures
        scales = [chosen.of(head.question.kind, len(head.question.options)) for head in heads]
        max_len = self.budgets(*budgets).max_len
        results: list[dict[str, Any]] = []
        with _progress(len(states), options.show_progress) as bar:
            for window in _windows(tuple(states), len(heads), options.batch_size):
                work = self._encode(window, heads)
                for rows in self._plan(work, heads, max_len, options):
                    self._run(rows, work, heads, max_len)
                    if bar is not None:
                        bar.update(_finished(rows, work))
                results.extend(_result(item, heads, scales) for item in work)
        return results

    def heads(
        self, questions: Any, budgets: tuple[int | None, int | None] = (None, None), validate: bool = True
    ) -> list[Head]:
        """Check and tokenize a question set; heads of earlier calls are reused."""
        if not validate and isinstance(questions, Mapping):
            return []
        key = _fingerprint(questions, budgets)
        known = None if key is None else self._sets.get(key)
        if known is not None:
            return known
        parsed = parse_questions(questions)
        if not parsed:
            return []
        resolved = self.budgets(*budgets)
        heads = [self._head(question, resolved) for question in parsed]
        if key is not None:
            self._sets.put(key, heads)
        return heads

    def _head(self, question: Question, budgets: Budgets) -> Head:
        known = self._heads.get((question, budgets))
        if known is not None:
            # Equal ids and labels (1 and True) differ as keys of a JSON answer: the caller's own come back.
            return replace(known, question=question)
        head = build_head(question, self.tokenizer.encode, self.tokenizer.special, budgets)
        self._heads.put((question, budgets), head)
        return head

    def _encode(self, window: Sequence[tuple[str, bool]], heads: Sequence[Head]) -> list[_StateWork]:
        room = max(head.room for head in heads)
        work = []
        for start in range(0, len(window), _ENCODED_TOGETHER):
            together = window[start : start + _ENCODED_TOGETHER]
            for (_, from_left), ids in zip(together, self.tokenizer.encode([t for t, _ in together]), strict=True):
                kept = ids[max(0, len(ids) - room) :] if from_left else ids[:room]
                array = np.asarray(kept, dtype=np.int64)
                work.append(_StateWork(array, len(ids), from_left, [None] * len(heads), waiting=len(heads)))
        return work

    def _plan(
        self, work: Sequence[_StateWork], heads: Sequence[Head], max_len: int, options: BatchOptions
    ) -> Iterator[list[tuple[int, int]]]:
        """Yield the (state, head) pairs of each pass."""
        if options.batch_size is None:
            pairs = [(state, head) for state in range(len(work)) for head in range(len(heads))]
            lengths = [_row_length(work[state], heads[head], max_len) for state, head in pairs]
            for chosen in plan_passes(lengths, self.forward.cost):
                yield [pairs[index] for index in chosen]
            return
        order = list(range(len(work)))
        if options.sort_by_length:
            order.sort(key=lambda state: work[state].tokens)
        for start in range(0, len(order), options.batch_size):
            together = order[start : start + options.batch_size]
            yield [(state, head) for state in together for head in range(len(heads))]

    def _run(
        self, rows: Sequence[tuple[int, int]], work: Sequence[_StateWork], heads: Sequence[Head], max_len: int
    ) -> None:
        sep = self.tokenizer.special.sep
        batch = pad_rows(
            [sequence_ids(heads[h], work[s].ids, work[s].from_left, sep, max_len) for s, h in rows],
            [heads[h].markers for _, h in rows],
            [heads[h].type_id for _, h in rows],
            pad=self.tokenizer.special.pad,
            min_options=self.forward.min_options,
        )
        logits, act_logits = self.forward(batch)
        # NaN in an option's slot or in the action would come out as an answer that nothing equals.
        if np.isnan(logits[batch.marker_mask]).any() or np.isnan(act_logits).any():
            raise CheckpointError(
                "the model computed NaN: its weights are damaged, or too large for the type it computes in; verify the "
                "checkpoint (expected_sha256), or load it with fast=False"
            )
        tokens = batch.attention_mask.sum(axis=1).tolist()
        for index, (s, h) in enumerate(rows):
            shown = len(heads[h].markers)
            act_probability = softmax(act_logits[index].tolist())[0]
            work[s].answers[h] = (logits[index, :shown].tolist(), act_probability)
            work[s].input_tokens += tokens[index]


def empty_result() -> dict[str, Any]:
    """The result of a state that was asked nothing."""
    return {"model": RESULT_MODEL, "answers": {}, "usage": {"input_tokens": 0, "output_tokens": 0}}


def _windows(states: Sequence[Any], heads: int, batch_size: int | None) -> Iterator[list[tuple[str, bool]]]:
    """Yield the states' texts, and whether they are cut from the left, in bounded runs of whole passes."""
    rows, multiple = max(1, _WINDOW_ROWS // heads), batch_size or 1
    window: list[tuple[str, bool]] = []
    characters = 0
    for index, state in enumerate(states):
        text = state_text(state, index)
        window.append((text, cut_from_left(state)))
        characters += len(text)
        if len(window) % multiple == 0 and (len(window) >= rows or characters >= _WINDOW_CHARACTERS):
            yield window
            window, characters = [], 0
    if window:
        yield window


def _fingerprint(questions: Any, budgets: tuple[int | None, int | None]) -> bytes | None:
    """Bytes that only the same questions in the same order have; None where a value is of no built-in type.

    Unlike `==` and `hash`, they tell 1 from True and from 1.0.
    """
    try:
        return marshal.dumps((questions, budgets), _MARSHAL_WITHOUT_REFERENCES)
    except ValueError:
        return None


def _row_length(item: _StateWork, head: Head, max_len: int) -> int:
    return min(max_len, len(head.ids) + min(head.room, len(item.ids)) + 1)


def _finished(rows: Sequence[tuple[int, int]], work: Sequence[_StateWork]) -> int:
    """States of which this pass answered the last question."""
    done = 0
    for state, _ in rows:
        work[state].waiting -= 1
        done += work[state].waiting == 0
    return done


def _result(item: _StateWork, heads: Sequence[Head], scales: Sequence[float]) -> dict[str, Any]:
    answers = {}
    for head, scale, output in zip(heads, scales, item.answers, strict=True):
        assert output is not None  # every planned pass has run
        answers[head.question.id] = decode_answer(head.question, *output, scale)
    return {"model": RESULT_MODEL, "answers": answers, "usage": _usage(item, heads)}


def _usage(item: _StateWork, heads: Sequence[Head]) -> dict[str, Any]:
    count = item.tokens
    dropped = {head.question.id: max(0, count - head.room) for head in heads}
    usage: dict[str, Any] = {
        "input_tokens": item.input_tokens,
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


def _progress(total: int, shown: bool) -> Any:
    if not shown:
        return nullcontext()
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="state")
