"""Decide inside router runs that are already open, and run the branches under them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_executor_for_config
from langchain_core.runnables.utils import gather_with_concurrency

from laya_integrations.langchain._groups import Group, grouped, in_order
from laya_integrations.langchain._interrupts import steers_graph
from laya_integrations.langchain._routes import RoutingRule, Taken
from laya_integrations.langchain._traced import reraise_interruption
from laya_integrations.langchain.decision_model import LayaDecisionModel


@dataclass(frozen=True)
class RoutedCall:
    """One call of a router: who decides, by which question and rule, and what comes out."""

    classifier: LayaDecisionModel
    options: dict[str, Any]
    questions: dict[str, Any]
    rule: RoutingRule
    output: Callable[[Taken, Any], Any]
    """Makes what comes out from the way taken and what the branch gave."""
    streams: bool = True
    """Whether a stream has the branch's chunks rather than one output."""
    keep_errors: bool = False
    """Whether an item that can't be decided leaves the others of its batch alone."""

    def one(self, input: Any, run_manager: Any, config: RunnableConfig) -> Any:
        """Route one input."""
        return self._followed(self._taken(input, config), input, run_manager, config)

    async def aone(self, input: Any, run_manager: Any, config: RunnableConfig) -> Any:
        """`one`, off the event loop."""
        return await self._afollowed(await self._ataken(input, config), input, run_manager, config)

    def stream(self, inputs: Iterator[Any], run_manager: Any, config: RunnableConfig) -> Iterator[Any]:
        """The chunks for each input."""
        for input in inputs:
            taken = self._taken(input, config)
            if taken.branch is None or not self.streams:
                yield self._followed(taken, input, run_manager, config)
            else:
                yield from taken.branch.stream(input, taken.config(config, run_manager))

    async def astream(self, inputs: AsyncIterator[Any], run_manager: Any, config: RunnableConfig) -> AsyncIterator[Any]:
        """`stream`, off the event loop."""
        async for input in inputs:
            taken = await self._ataken(input, config)
            if taken.branch is None or not self.streams:
                yield await self._afollowed(taken, input, run_manager, config)
            else:
                async for chunk in taken.branch.astream(input, taken.config(config, run_manager)):
                    yield chunk

    def many(self, inputs: list[Any], run_manager: list[Any], config: list[RunnableConfig]) -> list[Any]:
        """Route each input; decisions share passes, and each branch gets its inputs as one batch."""
        requests = [self._request(input) for input in inputs]
        found = self.classifier.batch(requests, config, return_exceptions=self.keep_errors, **self.options)
        ways = [self._way(response) for response in found]
        groups = _by_branch(ways, inputs, config, run_manager)
        calls = [partial(branch.batch, *group.asked, return_exceptions=True) for branch, group in groups]
        with get_executor_for_config(config[0]) as executor:
            run = executor.map if _side_by_side(config) else map
            outputs = [*run(_called, calls)]
        return self._outputs(ways, groups, outputs)

    async def amany(self, inputs: list[Any], run_manager: list[Any], config: list[RunnableConfig]) -> list[Any]:
        """`many`, off the event loop."""
        requests = [self._request(input) for input in inputs]
        found = await self.classifier.abatch(requests, config, return_exceptions=self.keep_errors, **self.options)
        ways = [self._way(response) for response in found]
        groups = _by_branch(ways, inputs, config, run_manager)
        calls = [branch.abatch(*group.asked, return_exceptions=True) for branch, group in groups]
        outputs = await gather_with_concurrency(None if _side_by_side(config) else 1, *calls)
        return self._outputs(ways, groups, outputs)

    def _request(self, input: Any) -> Any:
        return {"state": input, "questions": self.questions}

    def _taken(self, input: Any, config: RunnableConfig) -> Taken:
        return self.rule.take(self.classifier.invoke(self._request(input), config, **self.options))

    async def _ataken(self, input: Any, config: RunnableConfig) -> Taken:
        return self.rule.take(await self.classifier.ainvoke(self._request(input), config, **self.options))

    def _followed(self, taken: Taken, input: Any, run_manager: Any, config: RunnableConfig) -> Any:
        output = taken.branch.invoke(input, taken.config(config, run_manager)) if taken.branch is not None else None
        return self.output(taken, output)

    async def _afollowed(self, taken: Taken, input: Any, run_manager: Any, config: RunnableConfig) -> Any:
        if taken.branch is None:
            return self.output(taken, None)
        return self.output(taken, await taken.branch.ainvoke(input, taken.config(config, run_manager)))

    def _way(self, response: Any) -> Taken | Exception:
        """What to do for a batch's response; an item's error stays in its place."""
        if isinstance(response, Exception):
            return response
        try:
            return self.rule.take(response)
        except Exception as error:
            if steers_graph(error):
                raise
            return error

    def _outputs(
        self, ways: list[Taken | Exception], groups: list[tuple[Runnable[Any, Any], Group]], found: list[list[Any]]
    ) -> list[Any]:
        for items in found:
            reraise_interruption(items)
        followed = in_order([group for _, group in groups], found, len(ways))
        return [self._output(*item) for item in zip(ways, followed, strict=True)]

    def _output(self, way: Taken | Exception, followed: Any) -> Any:
        if isinstance(way, Exception):
            return way
        return followed if isinstance(followed, Exception) else self.output(way, followed)


def _by_branch(
    ways: list[Taken | Exception], inputs: list[Any], configs: list[RunnableConfig], run_managers: list[Any]
) -> list[tuple[Runnable[Any, Any], Group]]:
    """Each branch with its inputs and their configs."""
    branches = {id(way.branch): way.branch for way in ways if isinstance(way, Taken) and way.branch is not None}
    keys = [id(way.branch) if isinstance(way, Taken) and way.branch is not None else None for way in ways]
    branch_configs = [
        way.config(config, run_manager) if isinstance(way, Taken) else config
        for way, config, run_manager in zip(ways, configs, run_managers, strict=True)
    ]
    return [(branches[key], group) for key, group in grouped(keys, inputs, branch_configs).items()]


def _side_by_side(configs: list[RunnableConfig]) -> bool:
    """Whether branches may run at once; each is a batch of its own, so a bound holds only one after the other."""
    return not configs[0].get("max_concurrency")


def _called(call: Callable[[], Any]) -> Any:
    return call()
