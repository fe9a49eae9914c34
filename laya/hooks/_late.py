"""Hook calls that were given up on: what they set comes too late for their call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from laya.errors import HookError
from laya.hooks._context import PredictContext


class Attempt:
    """One hook call with a limited time, in a thread that runs on when the time is over."""

    __slots__ = ("ctx", "given_up", "name")

    def __init__(self, ctx: PredictContext, name: str) -> None:
        self.ctx = ctx
        self.name = name
        self.given_up = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Know what this thread, and what carries its contextvars, sets in the context for this attempt's doing."""
        token = _attempts.set((*_attempts.get(), self))
        try:
            yield
        finally:
            _attempts.reset(token)

    def give_up(self) -> None:
        """Let this attempt set nothing in its context any more; the call goes on, or fails, without it."""
        self.given_up = True
        # Only such a context pays for being looked after. It stays the object that hooks may have as a key.
        if type(self.ctx) is PredictContext:
            self.ctx.__class__ = _GuardedContext


_attempts: ContextVar[tuple[Attempt, ...]] = ContextVar("laya_hook_attempts", default=())


class _GuardedContext(PredictContext):
    """A context that hooks may still be running for without their call."""

    __qualname__ = PredictContext.__qualname__

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy, and what another process gets, is nobody's late hook's."""
        return _unguarded, (), self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        for attempt in _attempts.get():
            if attempt.given_up and attempt.ctx is self:
                hook, _, event = attempt.name.rpartition(".")
                raise HookError(
                    f"hook {hook} set ctx.{name} after its time for {event} was over: the call went on without it; "
                    "raise hooks_timeout or hand its work to a queue",
                    event=event,
                )
        super().__setattr__(name, value)


def _unguarded() -> PredictContext:
    return PredictContext.__new__(PredictContext)
