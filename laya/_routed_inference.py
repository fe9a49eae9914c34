"""Answers a Router's contexts with one agent: a call for each group that can share one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from laya._agent_calls import AsyncAgent, AsyncPredict, Predict
from laya._inference import Wait
from laya._lowering import lower_questions
from laya._requests import group_contexts
from laya.errors import StateError
from laya.hooks import PredictContext


@dataclass(frozen=True, slots=True)
class RoutedInference:
    """The contexts that a Router sends to one agent."""

    contexts: Sequence[PredictContext]
    agent: Any
    routings: Mapping[PredictContext, dict[str, Any]]
    """The decision behind each context."""
    languages: Mapping[PredictContext, str | None]
    predict: Predict
    apredict: AsyncPredict | None = None
    """For agents that can be awaited."""

    @classmethod
    def of(
        cls,
        contexts: Sequence[PredictContext],
        languages: Mapping[PredictContext, str | None],
        predict: Predict,
        apredict: AsyncPredict | None = None,
    ) -> RoutedInference:
        """Take down agent and decisions before hooks see the contexts, for they may write to every field."""
        routings = {ctx: dict(ctx.decision or {}) for ctx in contexts}
        return cls(contexts, contexts[0].agent, routings, languages, predict, apredict)

    def starting(self) -> Iterator[PredictContext]:
        """The contexts; each one's time begins when it is reached."""
        for ctx in self.contexts:
            ctx.started_at = perf_counter()
            yield ctx

    def infer(self, pending: list[PredictContext]) -> None:
        """Ask the agent about each group in turn."""
        for group in group_contexts(pending, self.languages):
            self._take(group, self.predict(*self._call(group)))
        self.answer()

    def ask(self, pending: list[PredictContext]) -> list[Wait]:
        """The calls of an agent that can be awaited; any other is asked at once."""
        if self.apredict is None or not isinstance(self.agent, AsyncAgent):
            self.infer(pending)
            return []
        return [partial(self._await, self.apredict, group) for group in group_contexts(pending, self.languages)]

    def answer(self) -> None:
        """Give the payloads of hooks their routing."""
        for ctx in self.contexts:
            _add_routing(ctx, self.routings[ctx])

    async def _await(self, apredict: AsyncPredict, group: list[PredictContext]) -> None:
        self._take(group, await apredict(*self._call(group)))

    def _call(self, group: list[PredictContext]) -> tuple[Any, list[Any], Any, tuple[int | None, int | None], Any]:
        first = group[0]
        states = [_first_state(ctx) for ctx in group]
        budgets = (first.max_len, first.head_max_len)
        return self.agent, states, lower_questions(first.questions), budgets, self.languages[first]

    def _take(self, group: list[PredictContext], results: Iterable[Any]) -> None:
        for ctx, result in zip(group, results, strict=True):
            ctx.results = [{**result, "run_id": ctx.run_id, "routing": dict(self.routings[ctx])}]


def _first_state(ctx: PredictContext) -> Any:
    if not isinstance(ctx.states, list | tuple):
        raise StateError(f"ctx.states must be a list or tuple of one state, got {type(ctx.states).__name__}")
    if not ctx.states:
        raise StateError("a start hook left a call without a state; give ctx.states one state")
    return ctx.states[0]


def _add_routing(ctx: PredictContext, routing: dict[str, Any]) -> None:
    """Give a hook's payload its routing, on a copy, unless it has one."""
    if ctx.results is not None:
        ctx.results = [
            result if "routing" in result else {**result, "routing": dict(routing)} for result in ctx.results
        ]
