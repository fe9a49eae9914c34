"""Tell a laya call that a run stands for already from one that needs a run of its own.

A runnable opens a run and then calls laya, whose hooks see that call, and may make further ones inside it.
`Covering` marks the runnable's own call for them; the mark follows the context into threads.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from laya.hooks import HookRegistry, PredictContext
from laya_integrations._calls import parts_of
from laya_integrations._decisions import Decisions, RequestsRunner, RunCapture, StatesRunner

_current: ContextVar[Cover | None] = ContextVar("laya_langchain_cover", default=None)


class Cover:
    """One laya call made inside runs that stand for it. Thread-safe."""

    def __init__(self, decisions: Decisions, calls: int, capture: RunCapture) -> None:
        self._runner = decisions.runner
        self._questions = decisions.questions
        self._capture = capture
        self._left = calls
        self._own: set[str] = set()
        self._parted: set[str] = set()
        """The Router calls whose agent was seen."""
        self._lock = threading.Lock()

    def covers(self, ctx: PredictContext) -> bool | None:
        """Whether `ctx` is the call itself, or the part of it that an agent does for a Router.

        None where that shows at the call's end only: it asks the same runner something else, which an earlier
        hook may have written into the call, or may be asking by itself.
        """
        with self._lock:
            if ctx.run_id in self._own or ctx.run_id in self._capture.contexts:
                return True
            if not isinstance(self._runner, HookRegistry):
                # Whatever it wraps, its answer stands for.
                return bool(ctx.questions == self._questions)
            if (ctx.agent if ctx.router is None else ctx.router) is self._runner:
                return self._takes(ctx)
            outer = parts_of([o for o in self._capture.contexts.values() if o.run_id not in self._parted], ctx)
            if outer:
                self._own.add(ctx.run_id)
                self._parted.update(router_ctx.run_id for router_ctx in outer)
            return bool(outer)

    def covered(self, ctx: PredictContext) -> bool:
        """At the end of a call for which `covers` said None."""
        return ctx.run_id in self._capture.contexts or (ctx.error is not None and self._left > 0)

    def _takes(self, ctx: PredictContext) -> bool | None:
        if not self._left:
            return False
        if ctx.questions != self._questions:
            return None
        self._left -= 1
        self._own.add(ctx.run_id)
        return True


class Covering:
    """Mark the laya call inside the block, with its `calls` hook contexts, as one that has its runs."""

    def __init__(self, decisions: Decisions, calls: int, capture: RunCapture) -> None:
        self._cover = Cover(decisions, calls, capture)

    def __enter__(self) -> None:
        self._token = _current.set(self._cover)

    def __exit__(self, *exc_info: object) -> None:
        # A coroutine that nobody awaits any more is closed in another context, which the mark never reached.
        with suppress(ValueError):
            _current.reset(self._token)


def uncover() -> None:
    """Take the mark off this context: the laya call made in it is not the one that a cover further out is for."""
    _current.set(None)


def hook_contexts(runner: Any, states: list[Any]) -> int:
    """How many contexts the hooks see of a call about many states: one where they are one batch."""
    match runner:
        case RequestsRunner():
            return len(states)
        case StatesRunner():
            return 1
        case _:
            return len(states)


def current_cover() -> Cover | None:
    """The cover of this context, if a runnable's laya call is running in it."""
    return _current.get()
