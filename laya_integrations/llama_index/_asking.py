"""Put questions to a runner from LlamaIndex code, where the runner may not be loaded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from laya_integrations._decisions import Decision, Decisions
from laya_integrations._options import CallOptions
from laya_integrations.llama_index.hook import traced_decisions

T = TypeVar("T")


@dataclass(frozen=True)
class Asking:
    """Questions for a runner, which is loaded when they are first asked.

    The asynchronous calls keep the caller's context variables wherever they work, so what laya's hooks open lies
    under the caller's span. The load is in a thread.
    """

    load: Callable[[], Any]
    questions: Any
    options: CallOptions
    callback_manager: Any = None
    """The component's own, whose handlers hear of the call."""

    def one(self, state: Any) -> Decision:
        """Ask about one state."""
        return self._decisions().one(state)

    def many(self, states: Sequence[Any]) -> list[Decision]:
        """Ask about each state, in order, in one laya call; nothing is loaded for no states."""
        if not states:
            return []
        return self._decisions().many(states)

    async def aone(self, state: Any) -> Decision:
        """`one`, off the event loop."""
        return await (await asyncio.to_thread(self._decisions)).aone(state)

    async def amany(self, states: Sequence[Any]) -> list[Decision]:
        """`many`, off the event loop."""
        if not states:
            return []
        return await (await asyncio.to_thread(self._decisions)).amany(states)

    def _decisions(self) -> Decisions:
        return traced_decisions(self.load(), self.questions, self.options, self.callback_manager)


@dataclass(frozen=True)
class Asked:
    """States to ask about now."""

    asking: Asking
    states: Sequence[Any]

    def decisions(self) -> list[Decision]:
        """A decision for each state, in order."""
        return [self.asking.one(self.states[0])] if len(self.states) == 1 else self.asking.many(self.states)

    async def adecisions(self) -> list[Decision]:
        """`decisions`, off the event loop."""
        if len(self.states) == 1:
            return [await self.asking.aone(self.states[0])]
        return await self.asking.amany(self.states)


Asks: TypeAlias = Generator[Asked, list[Decision], T]
"""Yields what to ask, gets the decisions or the error of asking, and returns what it makes of them."""


def run(asks: Asks[T]) -> T:
    """Ask, round by round, to the end."""
    try:
        asked = next(asks)
        while True:
            try:
                decisions = asked.decisions()
            except Exception as error:
                asked = asks.throw(error)
            else:
                asked = asks.send(decisions)
    except StopIteration as done:
        made: T = done.value
        return made


async def arun(asks: Asks[T]) -> T:
    """`run`, off the event loop; a task that is cancelled asks nothing further."""
    try:
        asked = next(asks)
        while True:
            try:
                decisions = await asked.adecisions()
            except Exception as error:
                asked = asks.throw(error)
            else:
                asked = asks.send(decisions)
    except StopIteration as done:
        made: T = done.value
        return made
