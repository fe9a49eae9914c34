"""The steps from states and questions to results, in order. Knows neither hooks nor any framework."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from laya._checkpoints.config import CheckpointConfig
from laya._pipeline.answers import softmax
from laya._pipeline.batches import Batch, PassCost, pad_rows, plan_passes
from laya._pipeline.cache import BoundedCache
from laya._pipeline.calibration import Temperatures
from laya._pipeline.questions import Question, parse_questions
from laya._pipeline.rows import AskedQuestions, CallRows, Row, StateRows, empty_result, finished, result_of, row_length
from laya._pipeline.sequences import Budgets, Head, build_head, sequence_ids
from laya._pipeline.states import check_state_contents, check_states, cut_from_left, state_text
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import CheckpointError, OptionError

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
_JOINT_ROWS = 256
"""Rows of a call that may wait for others to share a pass with: a larger call fills its own."""


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
    before_pass: Callable[[], None] | None = None
    """Called before each pass; what it raises ends the call."""


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
        asked = self._ask(states, questions, budgets, temperatures)
        if asked is None:
            return [empty_result() for _ in states]
        results: list[dict[str, Any]] = []
        with _progress(len(states), options.show_progress) as bar:
            for window in _windows(tuple(states), len(asked.heads), options.batch_size):
                work = self._encode(window, asked)
                for rows in self._plan(work, options):
                    if options.before_pass is not None:
                        options.before_pass()
                    self._run(rows)
                    if bar is not None:
                        bar.update(finished(rows))
                results.extend(result_of(item) for item in work)
        return results

    def prepare(
        self,
        states: Any,
        questions: Any,
        budgets: tuple[int | None, int | None] = (None, None),
        temperatures: Temperatures | None = None,
    ) -> CallRows | None:
        """Check and tokenize a call for `run_together`; None for one that had better be inferred on its own.

        Raises as `infer` does, so that nothing of the call itself can fail in a pass that others share.
        """
        asked = self._ask(states, questions, budgets, temperatures)
        if asked is None or len(states) * len(asked.heads) > _JOINT_ROWS:
            return None
        first, *more = islice(_windows(tuple(states), len(asked.heads), None), 2)
        if more:
            return None
        work = self._encode(first, asked)
        return CallRows(work, sum(row_length(item, head) for item in work for head in range(len(asked.heads))))

    def run_together(self, calls: Sequence[CallRows]) -> Iterator[tuple[list[CallRows], Exception] | None]:
        """Run the rows of several calls as one set; yields after each pass, when calls may have been `answered`.

        A pass that fails yields the calls with rows in it and its error; the next ones run all the same. First come,
        first served: sorted by length, a long row would wait behind short ones that came after it.
        """
        for rows in self._plan([item for call in calls for item in call.states], BatchOptions(), in_turn=True):
            yield self._attempt(rows, calls)

    def _attempt(self, rows: Sequence[Row], calls: Sequence[CallRows]) -> tuple[list[CallRows], Exception] | None:
        try:
            self._run(rows)
        except Exception as error:
            states = {id(item) for item, _ in rows}
            return [call for call in calls if any(id(item) in states for item in call.states)], error
        return None

    def _ask(
        self,
        states: Any,
        questions: Any,
        budgets: tuple[int | None, int | None],
        temperatures: Temperatures | None,
    ) -> AskedQuestions | None:
        """Check states and questions; None where there is nothing to be asked."""
        check_states(states)
        heads = self.heads(questions, budgets, validate=bool(states))
        if not states or not heads:
            return None
        check_state_contents(states)
        chosen = temperatures or self.temperatures
        scales = [chosen.of(head.question.kind, len(head.question.options)) for head in heads]
        return AskedQuestions(heads, scales, self.budgets(*budgets).max_len)

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

    def _encode(self, window: Sequence[tuple[str, bool]], asked: AskedQuestions) -> list[StateRows]:
        room, count = max(head.room for head in asked.heads), len(asked.heads)
        work = []
        for start in range(0, len(window), _ENCODED_TOGETHER):
            together = window[start : start + _ENCODED_TOGETHER]
            for (_, from_left), ids in zip(together, self.tokenizer.encode([t for t, _ in together]), strict=True):
                kept = ids[max(0, len(ids) - room) :] if from_left else ids[:room]
                array = np.asarray(kept, dtype=np.int64)
                work.append(StateRows(asked, array, len(ids), from_left, [None] * count, waiting=count))
        return work

    def _plan(self, work: Sequence[StateRows], options: BatchOptions, in_turn: bool = False) -> Iterator[list[Row]]:
        """Yield the rows of each pass."""
        if options.batch_size is None:
            rows = [(item, head) for item in work for head in range(len(item.asked.heads))]
            lengths = [row_length(*row) for row in rows]
            for chosen in plan_passes(lengths, self.forward.cost, in_turn):
                yield [rows[index] for index in chosen]
            return
        order = list(work)
        if options.sort_by_length:
            order.sort(key=lambda item: item.tokens)
        for start in range(0, len(order), options.batch_size):
            together = order[start : start + options.batch_size]
            yield [(item, head) for item in together for head in range(len(item.asked.heads))]

    def _run(self, rows: Sequence[Row]) -> None:
        sep = self.tokenizer.special.sep
        heads = [item.asked.heads[index] for item, index in rows]
        batch = pad_rows(
            [
                sequence_ids(head, item.ids, item.from_left, sep, item.asked.max_len)
                for (item, _), head in zip(rows, heads, strict=True)
            ],
            [head.markers for head in heads],
            [head.type_id for head in heads],
            pad=self.tokenizer.special.pad,
            min_options=self.forward.min_options,
        )
        logits, act_logits = self.forward(batch)
        # Of NaN or infinity in an option's slot or in the action come probabilities that nothing equals.
        if not (np.isfinite(logits[batch.marker_mask]).all() and np.isfinite(act_logits).all()):
            raise CheckpointError(
                "the model computed NaN or infinity: its weights are damaged, or too large for the type it computes "
                "in; verify the checkpoint (expected_sha256), or load it with fast=False"
            )
        tokens = batch.attention_mask.sum(axis=1).tolist()
        for row, ((item, index), head) in enumerate(zip(rows, heads, strict=True)):
            act_probability = softmax(act_logits[row].tolist())[0]
            item.answers[index] = (logits[row, : len(head.markers)].tolist(), act_probability, tokens[row])


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


def _progress(total: int, shown: bool) -> Any:
    if not shown:
        return nullcontext()
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="state")
