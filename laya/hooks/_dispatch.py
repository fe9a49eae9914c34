"""One event, run on every hook that implements it."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from contextvars import copy_context
from inspect import isawaitable
from typing import Any

from laya._numbers import as_float
from laya.errors import HookTimeoutError, OptionError
from laya.hooks._context import HOOK_EVENTS, PredictContext
from laya.hooks._coroutines import blocking, run_coroutine_sync, running_loop
from laya.hooks._hook import hook_name
from laya.hooks._late import Attempt
from laya.hooks._turns import Lock, TurnTimeout, take_turn

logger = logging.getLogger("laya.hooks")


def dispatch(
    hooks: Sequence[Any],
    event: str,
    ctx: PredictContext,
    *,
    raise_errors: bool = True,
    lock: Lock | None = None,
    timeout: float | None = None,
) -> None:
    """Run `event` on each of `hooks` that implements it, in order.

    An awaitable that a hook returns is run to its end.

    Args:
        hooks: Hook objects; the list is read once, at the start.
        event: One of `HOOK_EVENTS`.
        ctx: The context of the call.
        raise_errors: Raise the first failure. Otherwise a failing hook becomes a `RuntimeWarning` and the
            next one runs; only what isn't an `Exception`, such as `KeyboardInterrupt`, still gets out.
        lock: Held for each hook call. A hook may dispatch again under the same lock; what it dispatches at once, from
            several threads, runs one after the other as well. A thread of its own is known by the contextvars: one
            that doesn't carry them (`contextvars.copy_context().run`) waits for the lock like any stranger, and for
            ever if the hook waits for it.
        timeout: Seconds for each hook. The hook then runs in a thread, in a copy of the caller's
            contextvars: it sees what the caller set, and the caller doesn't see what it sets.

    Raises:
        TimeoutError: A hook overran. It can't be interrupted: it runs on, and keeps the lock until its end. But it
            can set nothing in `ctx` any more; there, that is a `HookError`.
        ValueError: The event is unknown, or the timeout isn't a positive finite number.
    """
    if timeout is not None:
        timeout = check_timeout(timeout)
    if event not in HOOK_EVENTS:
        raise OptionError(f"event {event!r} is unknown; use one of {', '.join(HOOK_EVENTS)}", option="event")
    for hook in tuple(hooks):
        try:
            method = getattr(hook, event, None)
            if method is None:
                continue
            if timeout is not None:
                _TimedCall(method, ctx, lock, timeout, f"{hook_name(hook)}.{event}").run()
            elif lock is not None:
                with take_turn(lock):
                    _call(method, ctx)
            else:
                _call(method, ctx)
        # Nobody can cancel this synchronous call: a cancelled task in a hook is that hook's failure.
        except (Exception, asyncio.CancelledError) as error:
            if raise_errors:
                raise
            warn_of_failure(hook, event, error)


def check_timeout(timeout: object, option: str = "timeout") -> float:
    """Return `timeout` as seconds, or refuse what isn't a positive finite number."""
    seconds = as_float(timeout)
    if seconds is not None and 0 < seconds < math.inf:
        return min(seconds, threading.TIMEOUT_MAX)
    got = type(timeout).__name__ if seconds is None else repr(seconds)
    raise OptionError(f"{option} must be a positive finite number of seconds, got {got}", option=option)


def _call(method: Callable[[PredictContext], Any], ctx: PredictContext) -> None:
    outcome = method(ctx)
    if outcome is not None and isawaitable(outcome):
        run_coroutine_sync(outcome)


class _TimedCall:
    """One hook call in a thread of its own, which takes the lock there and gives it back when it ends."""

    def __init__(
        self,
        method: Callable[[PredictContext], Any],
        ctx: PredictContext,
        lock: Lock | None,
        timeout: float,
        name: str,
    ) -> None:
        self.method = method
        self.ctx = ctx
        self.lock = lock
        self.timeout = timeout
        self.name = name
        self.attempt = Attempt(ctx, name)
        self.error: BaseException | None = None
        self.began = threading.Event()
        self.ended = threading.Event()

    def run(self) -> None:
        """Run the hook; raise what it raises, or `HookTimeoutError`."""
        with blocking(running_loop()):
            run = copy_context().run
            threading.Thread(target=run, args=(self._serve,), name="laya-hook", daemon=True).start()
            try:
                # The wait for the lock has a timeout of its own: behind a slow hook, the next gets its full time.
                self.began.wait()
                if not self.ended.wait(self.timeout):
                    raise self._timeout_error("took longer than")
            except BaseException:
                self.attempt.give_up()
                raise
        if isinstance(self.error, TurnTimeout):
            raise self._timeout_error("did not run: another hook call held the lock for")
        try:
            if self.error is not None:
                raise self.error
        finally:
            self.error = None  # its traceback holds this call; without the cycle both go at once

    def _serve(self) -> None:
        try:
            with take_turn(self.lock, self.timeout), self.attempt.running():
                self.began.set()
                _call(self.method, self.ctx)
        except BaseException as error:
            self.error = error
        finally:
            self.began.set()
            self.ended.set()

    def _timeout_error(self, problem: str) -> HookTimeoutError:
        hook, _, event = self.name.rpartition(".")
        return HookTimeoutError(
            f"hook {self.name} {problem} {self.timeout:g} s; raise hooks_timeout or hand its work to a queue",
            hook=hook,
            event=event,
            timeout=self.timeout,
        )


def warn_of_failure(hook: object, event: str, error: BaseException) -> None:
    """Tell of a failure that fails no request; `hook` is None where nobody knows which one it was."""
    try:
        what = "hook" if hook is None else f"hook {hook_name(hook)}.{event}"
        warnings.warn(f"{what} failed: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)
    except Exception:
        # Where warnings are errors, or the error can't be shown, the request still goes on.
        logger.warning("hook %s failed on %s", type(hook).__name__, event, exc_info=error)
