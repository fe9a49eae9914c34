"""What both selectors have: their fields, their calls, and the rounds in which they ask."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from llama_index.core.base.base_selector import BaseSelector, MetadataType
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle, QueryType
from llama_index.core.tools.types import ToolMetadata
from llama_index_instrumentation import get_dispatcher
from pydantic import ConfigDict, Field

from laya_integrations._decisions import Decision
from laya_integrations._fields import RunnerFields
from laya_integrations.llama_index._asking import Asking
from laya_integrations.llama_index._choices import Choices, Standing
from laya_integrations.llama_index.selections import LayaSelection, LayaSelectorResult, NoChoiceFits

_dispatcher = get_dispatcher(__name__)


@dataclass(frozen=True)
class Asked:
    """Texts to ask about."""

    asking: Asking
    texts: list[str]

    def decisions(self) -> list[Decision]:
        return [self.asking.one(self.texts[0])] if len(self.texts) == 1 else self.asking.many(self.texts)

    async def adecisions(self) -> list[Decision]:
        return [await self.asking.aone(self.texts[0])] if len(self.texts) == 1 else await self.asking.amany(self.texts)


Asks = Generator[Asked, list[Decision], list[Standing]]
"""Yields what to ask, gets the decisions, and returns how the choices stand for each text."""


class BaseLayaSelector(RunnerFields, BaseSelector):
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
        """Select for each query, in order, in shared passes: one laya call for all of them.

        Raises `NoChoiceFits` where one of them fits no choice and there is no `default_index`.
        """
        read, asks = self._asks_about(choices, queries)
        return [self._result(read, standing) for standing in _run(asks)]

    @_dispatcher.span
    async def aselect_many(
        self, choices: Sequence[MetadataType], queries: Sequence[QueryType]
    ) -> list[LayaSelectorResult]:
        """`select_many`, off the event loop."""
        read, asks = self._asks_about(choices, queries)
        return [self._result(read, standing) for standing in await _arun(asks)]

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> LayaSelectorResult:
        read = self._read(choices)
        [standing] = _run(self._asks(read, [query.query_str]))
        return self._result(read, standing)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> LayaSelectorResult:
        read = self._read(choices)
        [standing] = await _arun(self._asks(read, [query.query_str]))
        return self._result(read, standing)

    # No abstract methods: LlamaIndex would make a span of each call of them.
    def _asks(self, choices: Choices, texts: list[str]) -> Asks:
        """What to ask, in one round or two."""
        raise NotImplementedError

    def _result(self, choices: Choices, standing: Standing) -> LayaSelectorResult:
        """What to take."""
        raise NotImplementedError

    def _read(self, choices: Sequence[ToolMetadata]) -> Choices:
        read = Choices.read(choices)
        if self.default_index is not None and self.default_index >= len(read):
            raise ValueError(f"default_index {self.default_index} names none of the {len(read)} choices, from 0")
        return read

    def _asks_about(self, choices: Sequence[MetadataType], queries: Sequence[QueryType]) -> tuple[Choices, Asks]:
        read = self._read([_metadata(choice) for choice in _many(choices, "choices")])
        return read, self._asks(read, [_text(query) for query in _many(queries, "queries")])

    def _ask_each(self, choices: Choices, texts: list[str], instructions: str) -> Asks:
        decisions = yield self._asked(choices.each(instructions), texts)
        return [choices.judged(decision) for decision in decisions]

    def _asked(self, questions: dict[str, Any], texts: list[str]) -> Asked:
        return Asked(Asking(self._loaded_runner, questions, self.options), texts)

    def _fallback(self, standing: Standing, reason: str, advice: str = "") -> LayaSelectorResult:
        index = self.default_index
        if index is None:
            raise NoChoiceFits(f"{reason}; give default_index={advice}", standing.probabilities, standing.run_id)
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


def _run(asks: Asks) -> list[Standing]:
    try:
        asked = next(asks)
        while True:
            asked = asks.send(asked.decisions())
    except StopIteration as done:
        standings: list[Standing] = done.value
        return standings


async def _arun(asks: Asks) -> list[Standing]:
    try:
        asked = next(asks)
        while True:
            asked = asks.send(await asked.adecisions())
    except StopIteration as done:
        standings: list[Standing] = done.value
        return standings


def _many(items: Sequence[Any], argument: str) -> Sequence[Any]:
    if isinstance(items, str | QueryBundle | ToolMetadata):
        raise TypeError(f"{argument} must be a sequence, got one {type(items).__name__}; put it into a list")
    return items


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
