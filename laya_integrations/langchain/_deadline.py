"""Ask laya with a deadline: what is late is a TimeoutError inside the run of the call."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, Self, TypeVar

from langchain_core.decisions import ClassifierRequest

from laya_integrations._decisions import Decision, Decisions, Offload, RunCapture
from laya_integrations._fields import RunnerFields
from laya_integrations._options import CallOptions
from laya_integrations.langchain.decision_model import LayaDecisionModel
from laya_integrations.langchain.questions import lower_questions

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class TimedDecisions(Decisions):
    """Decisions that are given up at a point in time; loading the model counts."""

    load: Callable[[], Decisions]
    """Makes the decisions that are asked."""
    deadline: float
    """On the clock of `time.monotonic`."""

    def one(self, state: Any, capture: RunCapture | None = None) -> Decision:
        """Answer about one state, or raise TimeoutError."""
        return _until(self.deadline, lambda: self.load().one(state, capture))

    def one_unhooked(self, state: Any) -> Decision:
        """`one`, with hooks of its own: what is loaded here may have some too."""
        return self.one(state)

    def many(self, states: Sequence[Any], capture: RunCapture | None = None) -> list[Decision]:
        """Answer about each state, or raise TimeoutError."""
        return _until(self.deadline, lambda: self.load().many(states, capture))

    # Never awaited: a runner's own `apredict` knows no deadline.

    async def aone(
        self, state: Any, capture: RunCapture | None = None, *, offload: Offload = asyncio.to_thread
    ) -> Decision:
        """`one`, off the event loop."""
        decision: Decision = await offload(self.one, state, capture)
        return decision

    async def amany(
        self, states: Sequence[Any], capture: RunCapture | None = None, *, offload: Offload = asyncio.to_thread
    ) -> list[Decision]:
        """`many`, off the event loop."""
        decisions: list[Decision] = await offload(self.many, states, capture)
        return decisions


class TimedDecisionModel(LayaDecisionModel):
    """A LayaDecisionModel whose answers are due at a deadline."""

    deadline: float | None = None
    """On the clock of `time.monotonic`; None waits as long as it takes."""

    @classmethod
    def of(cls, fields: RunnerFields, options: CallOptions, timeout: float | None) -> Self:
        """One for a single call: the runner of `fields`, and `timeout` seconds from now."""
        fields._check_kept()
        deadline = None if timeout is None else time.monotonic() + timeout
        name = LayaDecisionModel.__name__
        return cls(runner=fields.runner, model=fields.model, options=options, deadline=deadline, name=name)

    def _decisions(self, request: ClassifierRequest, overrides: dict[str, Any]) -> Decisions:
        if self.deadline is None:
            return super()._decisions(request, overrides)
        ask = partial(super()._decisions, request, overrides)
        if self.model is None:
            asked = ask()
            return _timed(asked, lambda: asked, self.deadline)
        # Loading counts as well, so the runner isn't there yet; hooks know the call by its questions.
        return _timed(Decisions(None, lower_questions(request["questions"])), ask, self.deadline)


def _timed(known: Decisions, load: Callable[[], Decisions], deadline: float) -> TimedDecisions:
    return TimedDecisions(known.runner, known.questions, known.options, load=load, deadline=deadline)


def _until(deadline: float, call: Callable[[], Result]) -> Result:
    """The call's result, or a TimeoutError; laya can't be stopped, so a late call runs on and is forgotten."""
    future: Future[Result] = Future()
    context = contextvars.copy_context()  # else what runs inside starts traces of its own
    seconds = deadline - time.monotonic()
    if seconds > 0:
        # A daemon: a call that is forgotten does not keep the process alive.
        Thread(target=context.run, args=(_settle, future, call), name="laya-deadline", daemon=True).start()
        wait([future], seconds)
    if not future.done():
        raise TimeoutError("laya gave no answer before the timeout; raise timeout=, or load the model beforehand")
    return future.result()


def _settle(future: Future[Result], call: Callable[[], Result]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
