"""What both selectors have: their fields, their calls, and the rounds in which they ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self, cast

from llama_index.core.base.base_selector import BaseSelector, MetadataType
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle, QueryType
from llama_index.core.tools.types import ToolMetadata
from llama_index_instrumentation import get_dispatcher
from pydantic import ConfigDict, Field

from laya_integrations._fields import RunnerFields
from laya_integrations.llama_index._arguments import listed_of, of_kind
from laya_integrations.llama_index._asking import Asked, Asking, Asks, arun, run
from laya_integrations.llama_index._choices import Choices, Standing
from laya_integrations.llama_index.selections import LayaSelection, LayaSelectorResult, NoChoiceFits

_dispatcher = get_dispatcher(__name__)


class BaseLayaSelector(RunnerFields, BaseSelector):
    """The fields and the calls that both selectors have."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    default_index: Annotated[int, Field(ge=0)] | None = None
    """Index of the choice to take where none is sure enough; None raises `NoChoiceFits` then."""

    @classmethod
    def from_defaults(cls, runner: Any = None, model: str | None = None, **fields: Any) -> Self:
        """A selector: with an Agent or Router, or a checkpoint's name, or with neither for the default Router."""
        return cls(runner=runner, model=model, **fields)

    def select(self, choices: Sequence[MetadataType], query: QueryType) -> LayaSelectorResult:
        """Select for one query.

        Raises `NoChoiceFits` where it fits no choice and there is no `default_index`.
        """
        return cast("LayaSelectorResult", super().select(_metadatas(choices), _query(query)))

    async def aselect(self, choices: Sequence[MetadataType], query: QueryType) -> LayaSelectorResult:
        """`select`, off the event loop."""
        return cast("LayaSelectorResult", await super().aselect(_metadatas(choices), _query(query)))

    @_dispatcher.span
    def select_many(self, choices: Sequence[MetadataType], queries: Sequence[QueryType]) -> list[LayaSelectorResult]:
        """Select for each query, in order, in shared passes: one laya call for all of them.

        Raises `NoChoiceFits`, with the query's index, where one of them fits no choice and there is no
        `default_index`.
        """
        read, asks = self._asks_about(choices, queries)
        return self._results(read, run(asks))

    @_dispatcher.span
    async def aselect_many(
        self, choices: Sequence[MetadataType], queries: Sequence[QueryType]
    ) -> list[LayaSelectorResult]:
        """`select_many`, off the event loop."""
        read, asks = self._asks_about(choices, queries)
        return self._results(read, await arun(asks))

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> LayaSelectorResult:
        read = self._read(choices)
        [standing] = run(self._asks(read, [query.query_str]))
        return self._result(read, standing)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> LayaSelectorResult:
        read = self._read(choices)
        [standing] = await arun(self._asks(read, [query.query_str]))
        return self._result(read, standing)

    # No abstract methods: LlamaIndex would make a span of each call of them.
    def _asks(self, choices: Choices, texts: list[str]) -> Asks[list[Standing]]:
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

    def _asks_about(
        self, choices: Sequence[MetadataType], queries: Sequence[QueryType]
    ) -> tuple[Choices, Asks[list[Standing]]]:
        read = self._read(_metadatas(choices))
        texts = [_text(query) for query in listed_of((str, QueryBundle), queries, "queries", "a text or a QueryBundle")]
        return read, self._asks(read, texts)

    def _results(self, choices: Choices, standings: list[Standing]) -> list[LayaSelectorResult]:
        results = []
        for index, standing in enumerate(standings):
            try:
                results.append(self._result(choices, standing))
            except NoChoiceFits as error:
                raise NoChoiceFits(
                    f"queries[{index}]: {error}", error.probabilities, error.run_id, index=index
                ) from None
        return results

    def _ask_each(self, choices: Choices, texts: list[str], instructions: str) -> Asks[list[Standing]]:
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


def _metadatas(choices: Any) -> list[ToolMetadata]:
    given = listed_of((str, ToolMetadata), choices, "choices", "a text or a ToolMetadata")
    return [ToolMetadata(description=choice) if isinstance(choice, str) else choice for choice in given]


def _query(query: Any) -> QueryType:
    checked: QueryType = of_kind((str, QueryBundle), query, "query", "a text or a QueryBundle")
    return checked


def _text(query: QueryType) -> str:
    return query.query_str if isinstance(query, QueryBundle) else query
