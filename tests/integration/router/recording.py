"""Hooks and agents that note what reaches them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from laya import Agent, PredictContext

URGENT = {"urgent": {"type": "noul", "instructions": "Is the customer in a hurry?"}}
TEAM = {"team": {"type": "choice", "instructions": "Who should answer?", "criteria": ["billing", "shipping"]}}
PAYLOAD = {"model": "cached", "answers": {"urgent": {"type": "noul", "answer": 0.7, "confidence": 0.7}}}
"""An answer from a hook's cache."""

Handler = Callable[[PredictContext], Any]


class Recorder:
    """A hook that keeps a copy of each context as it was at each event, and then does what it was told to."""

    def __init__(self, name: str = "", journal: list[str] | None = None, **handlers: Handler) -> None:
        self.name = name
        self.journal = journal if journal is not None else []
        self.seen: list[tuple[str, PredictContext]] = []
        self.handlers = handlers

    @property
    def events(self) -> list[str]:
        """The events in order, those about one checkpoint with its name: `on_load english`."""
        return [f"{event} {ctx.model}" if event in ("on_load", "on_evict") else event for event, ctx in list(self.seen)]

    def at(self, event: str) -> list[PredictContext]:
        """The contexts as they were at an event."""
        return [ctx for seen, ctx in self.seen if seen == event]

    def _note(self, event: str, ctx: PredictContext) -> Any:
        self.seen.append((event, copy.copy(ctx)))
        self.journal.append(f"{self.name} {event}")
        handler = self.handlers.get(event)
        return handler(ctx) if handler else None

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """Note it."""
        return self._note("on_predict_start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """Note it."""
        return self._note("on_predict_end", ctx)

    def on_route(self, ctx: PredictContext) -> Any:
        """Note it."""
        return self._note("on_route", ctx)

    def on_load(self, ctx: PredictContext) -> Any:
        """Note it."""
        return self._note("on_load", ctx)

    def on_evict(self, ctx: PredictContext) -> Any:
        """Note it."""
        return self._note("on_evict", ctx)

    def on_error(self, ctx: PredictContext) -> Any:
        """Note it."""
        return self._note("on_error", ctx)


class NotingAgent(Agent):
    """An agent that notes its calls, and fails one where it is told to."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.calls: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self.fail: Callable[[Any], BaseException | None] = lambda states: None

    def reset(self) -> None:
        """Forget calls, hooks and failures."""
        self.calls = []
        self.fail = lambda states: None
        for hook in self.hooks:
            self.remove_hook(hook)

    def system_one(self, state: Any, questions: Any, *args: Any, **options: Any) -> Any:
        """Note a single call."""
        self._note("system_one", state, questions, options)
        return super().system_one(state, questions, *args, **options)

    def predict_batch(self, states: Any, questions: Any, *args: Any, **options: Any) -> Any:
        """Note a call over many states."""
        self._note("predict_batch", list(states), questions, options)
        return super().predict_batch(states, questions, *args, **options)

    def predict_long(self, state: Any, questions: Any, *args: Any, **options: Any) -> Any:
        """Note a scan."""
        self._note("predict_long", state, questions, options)
        return super().predict_long(state, questions, *args, **options)

    def _note(self, call: str, states: Any, questions: Any, options: dict[str, Any]) -> None:
        self.calls.append((call, states, copy.deepcopy(questions), options))
        error = self.fail(states)
        if error is not None:
            raise error


def plain(result: Any) -> Any:
    """A result without what belongs to one call or to the Router."""
    return {key: value for key, value in result.items() if key not in ("run_id", "routing")}


def raising(error: BaseException) -> Handler:
    """A handler that fails."""

    def handler(ctx: PredictContext) -> None:
        raise error

    return handler


def request(state: Any, questions: Any = URGENT, model: str | None = "english", **options: Any) -> dict[str, Any]:
    """One request."""
    return {"state": state, "questions": questions, "model": model, **options}


def for_state(state: Any, handler: Handler) -> Handler:
    """Do it only for the request with this state."""

    def handle(ctx: PredictContext) -> None:
        if ctx.states == [state]:
            handler(ctx)

    return handle


def events_by_state(hook: Recorder) -> list[str]:
    """Each event with the state it was for."""
    return [f"{event} {ctx.states[0]}" if ctx.states else f"{event} {ctx.model}" for event, ctx in hook.seen]
