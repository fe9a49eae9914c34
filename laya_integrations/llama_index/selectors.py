"""Select among query engines, retrievers or other choices by one laya call.

selector = LayaSingleSelector.from_defaults(model="laya-mini")
RouterQueryEngine(selector=selector, query_engine_tools=tools, llm=MockLLM())

LlamaIndex's routers ask for the OpenAI package where no `llm` is set, whichever selector they have; any LLM will do.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from llama_index.core.base.base_selector import BaseSelector, MetadataType
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle, QueryType
from llama_index.core.tools.types import ToolMetadata
from llama_index_instrumentation import get_dispatcher
from pydantic import ConfigDict, Field, PrivateAttr

from laya_integrations._decisions import Decision
from laya_integrations._fields import RunnerFields
from laya_integrations.llama_index._asking import Asking
from laya_integrations.llama_index._choices import Choices, Standing, read_the_same
from laya_integrations.llama_index.selections import LayaSelection, LayaSelectorResult, NoChoiceFits

_dispatcher = get_dispatcher(__name__)
_logger = logging.getLogger(__name__)

_MOST_CROWDED = 64
"""Sets of choices that a selector remembers as too long to compare."""
_NONE_TEXT = "no other option fits"

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


@dataclass(frozen=True)
class _Asked:
    """Texts to ask about."""

    asking: Asking
    texts: list[str]

    def decisions(self) -> list[Decision]:
        return [self.asking.one(self.texts[0])] if len(self.texts) == 1 else self.asking.many(self.texts)

    async def adecisions(self) -> list[Decision]:
        return [await self.asking.aone(self.texts[0])] if len(self.texts) == 1 else await self.asking.amany(self.texts)


_Asks = Generator[_Asked, list[Decision], list[Standing]]
"""Yields what to ask, gets the decisions, and returns how the choices stand for each text."""


class _LayaSelector(RunnerFields, BaseSelector):
    """The fields and the calls that both selectors have."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    default_index: Annotated[int, Field(ge=0)] | None = None
    """Index of the choice to take where none is sure enough; None raises `NoChoiceFits` then."""

    @classmethod
    def from_defaults(cls, runner: Any = None, model: str | None = None, **fields: Any) -> Self:
        """A selector: with an Agent or Router, or a checkpoint's name, or with neither for the default Router."""
        return cls(runner=runner, model=model, **fields)

    @_dispatcher.span
    def select_many(self, choices: Sequence[MetadataType], queries: Sequence[QueryType]) -> list[LayaSelectorResult]:
        """Select for each query, in order, in shared passes: one laya call for all of them."""
        read = self._read([_metadata(choice) for choice in choices])
        asks = self._asks(read, [_text(query) for query in queries])
        return [self._result(read, standing) for standing in _run(asks)]

    @_dispatcher.span
    async def aselect_many(
        self, choices: Sequence[MetadataType], queries: Sequence[QueryType]
    ) -> list[LayaSelectorResult]:
        """`select_many`, off the event loop."""
        read = self._read([_metadata(choice) for choice in choices])
        asks = self._asks(read, [_text(query) for query in queries])
        return [self._result(read, standing) for standing in await _arun(asks)]

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> LayaSelectorResult:
        read = self._read(choices)
        [standing] = _run(self._asks(read, [query.query_str]))
        return self._result(read, standing)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> LayaSelectorResult:
        read = self._read(choices)
        [standing] = await _arun(self._asks(read, [query.query_str]))
        return self._result(read, standing)

    @abstractmethod
    def _asks(self, choices: Choices, texts: list[str]) -> _Asks:
        """What to ask, in one round or two."""

    @abstractmethod
    def _result(self, choices: Choices, standing: Standing) -> LayaSelectorResult:
        """What to take."""

    def _read(self, choices: Sequence[ToolMetadata]) -> Choices:
        read = Choices.read(choices)
        if self.default_index is not None and self.default_index >= len(read):
            raise ValueError(f"default_index {self.default_index} names none of the {len(read)} choices, from 0")
        return read

    def _ask_each(self, choices: Choices, texts: list[str], instructions: str) -> _Asks:
        decisions = yield self._asked(choices.each(instructions), texts)
        return [choices.judged(decision) for decision in decisions]

    def _asked(self, questions: dict[str, Any], texts: list[str]) -> _Asked:
        return _Asked(Asking(self._loaded_runner, questions, self.options), texts)

    def _fallback(self, standing: Standing, reason: str) -> LayaSelectorResult:
        index = self.default_index
        if index is None:
            raise NoChoiceFits(
                f"{reason}; give default_index=, or lower threshold=", standing.probabilities, standing.run_id
            )
        selection = LayaSelection(
            index=index,
            reason=f"{reason}, so the default is taken",
            confidence=standing.probabilities[index],
            run_id=standing.run_id,
            fell_back=True,
        )
        return LayaSelectorResult(selections=[selection], probabilities=standing.probabilities)

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        """Nothing to do: laya is asked by the fields' instructions."""


class LayaSingleSelector(_LayaSelector):
    """Select the choice that fits a query best; never more than one, never none.

    One laya call. Up to `compare_up_to` choices are compared in one choice question, by their names and
    descriptions. More are asked about one by one in the same call, and so is a single choice, which a comparison
    with nothing would always take. In a comparison all the choices share the budget `head_max_len`; where they are
    so long that some read the same to the model once cut, they are asked about one by one in a second call, and from
    then on at once. `options=CallOptions(head_max_len=...)` gives them more room.
    """

    threshold: Probability = 0.0
    """Least probability of a choice that is taken."""
    none_choice: bool | str = False
    """Whether "none of these" is an option, or its description; it leads to `default_index`."""
    compare_up_to: Annotated[int, Field(ge=1)] = 12
    """Most choices in one question."""
    instructions: str = "Which option fits the query best?"
    """The question that compares the choices."""
    each_instructions: str = "Does this option fit the query?"
    """The question about one choice, which follows."""

    _crowded: set[Choices] = PrivateAttr(default_factory=set)

    def _asks(self, choices: Choices, texts: list[str]) -> _Asks:
        if not 1 < len(choices) <= self.compare_up_to or choices in self._crowded:
            return (yield from self._ask_each(choices, texts, self.each_instructions))
        decisions = yield self._asked(choices.compare(self.instructions, self._none_text), texts)
        blurred = [index for index, decision in enumerate(decisions) if read_the_same(decision)]
        standings = [choices.compared(decision) for decision in decisions]
        if blurred:
            self._remember(choices)
            again = yield from self._ask_each(choices, [texts[index] for index in blurred], self.each_instructions)
            for index, standing in zip(blurred, again, strict=True):
                standings[index] = standing
        return standings

    def _result(self, choices: Choices, standing: Standing) -> LayaSelectorResult:
        best = standing.ranked()[0]
        called, probability = choices.called(best), standing.probabilities[best]
        # Asked about one by one, the choices leave "none" no answer of its own.
        floor = max(self.threshold, 0.5) if self.none_choice and not standing.none else self.threshold
        if standing.none > probability:
            return self._fallback(standing, f"none of the choices fits (probability {standing.none:.2f})")
        if best in standing.unsure or probability < floor:
            return self._fallback(standing, f"no choice is sure enough: the best, {called}, has {probability:.2f}")
        selection = LayaSelection(
            index=best,
            reason=f"{called} fits best (probability {probability:.2f})",
            confidence=probability,
            run_id=standing.run_id,
        )
        return LayaSelectorResult(selections=[selection], probabilities=standing.probabilities)

    @property
    def _none_text(self) -> str | None:
        return self.none_choice if isinstance(self.none_choice, str) else _NONE_TEXT if self.none_choice else None

    def _remember(self, choices: Choices) -> None:
        _logger.warning(
            "Some of %d choices read the same once cut to head_max_len; they are asked about one by one. "
            "Shorten their descriptions, or set options=CallOptions(head_max_len=...).",
            len(choices),
        )
        if len(self._crowded) >= _MOST_CROWDED:
            self._crowded.clear()
        self._crowded.add(choices)


class LayaMultiSelector(_LayaSelector):
    """Select every choice that fits a query, the most probable first; never none.

    One laya call with a question for each choice, so the probabilities don't depend on the other choices and don't
    sum to 1.
    """

    threshold: Probability = 0.5
    """Least probability of a choice that is taken."""
    max_outputs: Annotated[int, Field(ge=1)] | None = None
    """Most choices taken."""
    instructions: str = "Does this option fit the query?"
    """The question about one choice, which follows."""

    def _asks(self, choices: Choices, texts: list[str]) -> _Asks:
        return self._ask_each(choices, texts, self.instructions)

    def _result(self, choices: Choices, standing: Standing) -> LayaSelectorResult:
        ranked = standing.ranked()
        probabilities = standing.probabilities
        taken = [index for index in ranked if probabilities[index] >= self.threshold and index not in standing.unsure]
        if not taken:
            best = ranked[0]
            reason = f"no choice is sure enough: the best, {choices.called(best)}, has {probabilities[best]:.2f}"
            return self._fallback(standing, reason)
        selections = [
            LayaSelection(
                index=index,
                reason=f"{choices.called(index)} fits (probability {probabilities[index]:.2f})",
                confidence=probabilities[index],
                run_id=standing.run_id,
            )
            for index in taken[: self.max_outputs]
        ]
        return LayaSelectorResult(selections=selections, probabilities=probabilities)


def _run(asks: _Asks) -> list[Standing]:
    try:
        asked = next(asks)
        while True:
            asked = asks.send(asked.decisions())
    except StopIteration as done:
        standings: list[Standing] = done.value
        return standings


async def _arun(asks: _Asks) -> list[Standing]:
    try:
        asked = next(asks)
        while True:
            asked = asks.send(await asked.adecisions())
    except StopIteration as done:
        standings: list[Standing] = done.value
        return standings


def _metadata(choice: MetadataType) -> ToolMetadata:
    if isinstance(choice, ToolMetadata):
        return choice
    if isinstance(choice, str):
        return ToolMetadata(description=choice)
    raise TypeError(f"a choice must be a text or a ToolMetadata, got {type(choice).__name__}")


def _text(query: QueryType) -> str:
    if isinstance(query, QueryBundle):
        return query.query_str
    if isinstance(query, str):
        return query
    raise TypeError(f"a query must be a text or a QueryBundle, got {type(query).__name__}")
