"""Put questions to a runner from LlamaIndex code, where the runner may not be loaded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from laya_integrations._decisions import Decision, Decisions
from laya_integrations._options import CallOptions
from laya_integrations._runners import offline_hint
from laya_integrations.llama_index.hook import traced_decisions


@dataclass(frozen=True)
class Asking:
    """Questions for a runner, which is loaded when they are first asked.

    The asynchronous calls work in a thread with the caller's context variables, so what laya's hooks open lies
    under the caller's span. The load is in that thread as well.
    """

    load: Callable[[], Any]
    questions: Any
    options: CallOptions
    callback_manager: Any = None
    """The component's own, whose handlers hear of the call."""

    def one(self, state: Any) -> Decision:
        """Ask about one state."""
        decisions = self._decisions()
        with offline_hint(decisions.runner):
            return decisions.one(state)

    def many(self, states: Sequence[Any]) -> list[Decision]:
        """Ask about each state, in order, in one laya call; nothing is loaded for no states."""
        if not states:
            return []
        decisions = self._decisions()
        with offline_hint(decisions.runner):
            return decisions.many(states)

    async def aone(self, state: Any) -> Decision:
        """`one`, off the event loop."""
        return await asyncio.to_thread(self.one, state)

    async def amany(self, states: Sequence[Any]) -> list[Decision]:
        """`many`, off the event loop."""
        return await asyncio.to_thread(self.many, states)

    def _decisions(self) -> Decisions:
        return traced_decisions(self.load(), self.questions, self.options, self.callback_manager)
