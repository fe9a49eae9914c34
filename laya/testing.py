"""Test code that asks laya, without a model: a runner that plays a script, and a hook that remembers.

    runner = FakeRunner({"urgent": True, "team": "billing"})
    assert team_of(runner, "Where is my refund?") == "billing"     # your code
    assert runner.calls[0].states == ["Where is my refund?"]

Everything but the model is the runtime's own: questions are checked, budgets cut states, hooks fire, gates mark
answers, and a Router takes a `FakeRunner` by `attach`. No torch is loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from laya._base_agent import BaseAgent
from laya._fake_engine import FakeEngine, copied
from laya._lifecycle import CallHooks
from laya.errors import OptionError
from laya.hooks import HOOK_EVENTS, BaseHook, PredictContext

__all__ = ["FakeCall", "FakeRunner", "RecordedEvent", "RecordingHook"]


@dataclass(frozen=True)
class FakeCall:
    """What a `FakeRunner` inferred in one call."""

    states: list[Any]
    questions: dict[str, Any]


class FakeRunner(BaseAgent):
    """Answer like an `Agent`, from a script; what the script leaves open follows from the state's words.

    Args:
        answers: By question id: a label of a choice, a bool or P(true) of a noul, a level of a score, or
            `{label or level: share}` of a choice or score. An exception is raised instead of answering. A function
            gets the state and returns any of these. Ids that no call asks do nothing.
        model_id: What `ctx.model` says.
        max_len, head_max_len: The budgets; a token is a word here.
        hooks, on_predict_start, on_predict_end, hooks_raise, hooks_concurrent, hooks_timeout: As for `Agent`.

    A scripted label, level or truth gets a probability of 0.97. The same state, questions and budgets give the same
    answers in every process, alone or in a batch. Raises `OptionError` (a `ValueError`) at the call for a scripted
    answer that its question doesn't have.
    """

    def __init__(  # noqa: PLR0913 - the hook arguments that every runtime takes
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        model_id: str = "fake",
        max_len: int = 512,
        head_max_len: int = 192,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
    ) -> None:
        installed = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        self._fake = FakeEngine(answers or {}, max_len, head_max_len)
        super().__init__(self._fake, model_id, installed, hooks_concurrent)

    @property
    def calls(self) -> list[FakeCall]:
        """What was inferred, oldest first; what a hook answered isn't in it."""
        return [FakeCall(*asked) for asked in list(self._fake.asked)]

    def script(self, answers: Mapping[str, Any]) -> None:
        """Add or replace scripted answers, by question id."""
        self._fake.script = {**self._fake.script, **answers}

    def __repr__(self) -> str:
        return f"FakeRunner({self.model_id!r}, calls={len(self._fake.asked)}, hooks={len(self.hooks)})"


@dataclass(frozen=True)
class RecordedEvent:
    """One event, with the context as it was then."""

    name: str
    """One of `laya.hooks.HOOK_EVENTS`."""
    context: PredictContext
    """A copy: what happened to the context later isn't in it. `agent`, `router` and `error` are the real ones."""


class RecordingHook(BaseHook):
    """Remember every event of every call, in order. Safe to share between threads.

    `handlers` are callables by event. Each gets the real context after it was recorded, and may change it or raise:
    `RecordingHook(on_predict_start=lambda ctx: ctx.skip(payload))`. Raises `OptionError` (a `ValueError`) for a
    handler of an event that there isn't.
    """

    def __init__(self, **handlers: Callable[[PredictContext], Any]) -> None:
        unknown = [name for name in handlers if name not in HOOK_EVENTS]
        if unknown:
            raise OptionError(f"{unknown[0]!r} is no event; use {', '.join(HOOK_EVENTS)}", option=unknown[0])
        self._handlers = handlers
        self._events: list[RecordedEvent] = []

    @property
    def events(self) -> list[RecordedEvent]:
        """All events so far."""
        return list(self._events)

    @property
    def names(self) -> list[str]:
        """The names of all events so far."""
        return [event.name for event in self.events]

    def at(self, name: str) -> list[PredictContext]:
        """The contexts as they were at one event, such as `on_predict_end`."""
        return [event.context for event in self.events if event.name == name]

    def clear(self) -> None:
        """Forget what was recorded."""
        self._events.clear()

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """Record the start of a call."""
        return self._record("on_predict_start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """Record the end of a call, failed or not."""
        return self._record("on_predict_end", ctx)

    def on_route(self, ctx: PredictContext) -> Any:
        """Record a Router's decision."""
        return self._record("on_route", ctx)

    def on_load(self, ctx: PredictContext) -> Any:
        """Record a checkpoint that was built."""
        return self._record("on_load", ctx)

    def on_evict(self, ctx: PredictContext) -> Any:
        """Record a checkpoint that was freed."""
        return self._record("on_evict", ctx)

    def on_error(self, ctx: PredictContext) -> Any:
        """Record a failure."""
        return self._record("on_error", ctx)

    def _record(self, event: str, ctx: PredictContext) -> Any:
        self._events.append(RecordedEvent(event, _snapshot(ctx)))
        handler = self._handlers.get(event)
        return None if handler is None else handler(ctx)


_CONTENT = ("states", "questions", "results", "decision", "usage")


def _snapshot(ctx: PredictContext) -> PredictContext:
    taken = copy.copy(ctx)
    for name in _CONTENT:
        setattr(taken, name, copied(getattr(ctx, name)))
    return taken
