"""Awaitables run to their end from synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from inspect import isawaitable
from typing import Any, TypeVar

from laya._forks import in_forked_child
from laya.errors import HookError, OptionError
from laya.hooks._turns import in_turn

T = TypeVar("T")

_POLL_S = 0.5
"""How often a waiting thread looks whether the loop it waits for still runs."""


def run_coroutine_sync(coro: Awaitable[T], loop: asyncio.AbstractEventLoop | None = None) -> T:
    """Run `coro` to its end and return what it returns.

    Args:
        coro: A coroutine or any other awaitable. It sees the caller's contextvars.
        loop: The loop to run it on, in another thread. Without one it runs by `asyncio.run`, or on a
            background loop where this thread's own loop is running. A hook that runs alone
            (`hooks_concurrent=False`) gets a loop of its own there.

    Raises:
        ValueError: `loop` isn't running, or waits for this call, so that it would never get to `coro`.
            The coroutine is closed.
    """
    if not isawaitable(coro):
        raise HookError(f"coro must be awaitable, got {type(coro).__name__}; call the async function first")
    if asyncio.isfuture(coro):
        if coro.done():
            return coro.result()  # type: ignore[no-any-return]
        loop = loop or coro.get_loop()
    own = running_loop()
    with blocking(own):
        if loop is not None:
            _check_loop(loop, coro)
            return _run_on(loop, coro)
        if own is None:
            return _run_here(coro)
        # Whoever occupies the background loop may wait for the lock that is held here.
        if in_turn() or _is_blocked(_background.loop):
            return _run_in_new_thread(coro)
        with _closing(coro):
            background = _background.start()
        return _run_on(background, coro)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Wait:
    """A loop that can run nothing while `active`: its thread waits for a hook."""

    __slots__ = ("active", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.active = True


_waits: ContextVar[tuple[_Wait, ...]] = ContextVar("laya_waiting_loops", default=())


@contextmanager
def blocking(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Let code that runs elsewhere in a copy of this context know that `loop` waits for it."""
    if loop is None:
        yield
        return
    wait = _Wait(loop)
    token = _waits.set((*_waits.get(), wait))
    try:
        yield
    finally:
        # A task that outlives the block keeps its copy of the context: there, too, the wait is over.
        wait.active = False
        _waits.reset(token)


def _is_blocked(loop: asyncio.AbstractEventLoop | None) -> bool:
    return any(wait.loop is loop and wait.active for wait in _waits.get())


def _check_loop(loop: asyncio.AbstractEventLoop, coro: Awaitable[Any]) -> None:
    if _is_blocked(loop):
        problem = "is the calling thread's own, which waits here; leave loop out"
    elif not loop.is_running():
        problem = "is not running; start it in another thread first, or leave loop out"
    else:
        return
    with _closing(coro):
        raise OptionError(f"loop {problem}", option="loop")


@contextmanager
def _closing(coro: Awaitable[Any]) -> Iterator[None]:
    """Close a coroutine that won't run because the block failed."""
    try:
        yield
    except BaseException:
        if isinstance(coro, Coroutine):
            coro.close()
        raise


def _as_coroutine(awaitable: Awaitable[T]) -> Coroutine[Any, Any, T]:
    if isinstance(awaitable, Coroutine):
        return awaitable

    async def finish() -> T:
        return await awaitable

    return finish()


def _run_here(coro: Awaitable[T]) -> T:
    try:
        return asyncio.run(_as_coroutine(coro))
    except asyncio.CancelledError as error:
        # It's the coroutine's own end. Let loose in a task of the caller's, it would pass for that task's.
        raise CancelledError("coro was cancelled") from error


def _run_on(loop: asyncio.AbstractEventLoop, coro: Awaitable[T]) -> T:
    future = asyncio.run_coroutine_threadsafe(_as_coroutine(coro), loop)
    try:
        while True:
            try:
                return future.result(_POLL_S)
            except TimeoutError:
                if future.done():
                    return future.result()
                if not loop.is_running() and loop is not _background.loop:
                    raise OptionError("loop stopped before coro had ended", option="loop") from None
    except BaseException:
        if not loop.is_closed():
            future.cancel()
        raise


def _run_in_new_thread(coro: Awaitable[T]) -> T:
    """Run `coro` on a loop of its own: the background loop can't be waited for from its own thread."""
    future: Future[T] = Future()

    def serve() -> None:
        try:
            future.set_result(_run_here(coro))
        except BaseException as error:
            future.set_exception(error)

    with _closing(coro):
        _start_daemon(copy_context().run, serve, name="laya-hook-coroutine")
    return future.result()


class _BackgroundLoop:
    """One loop in one daemon thread, started at first use."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started."""
        with self._starting:
            if self.loop is None:
                loop = asyncio.new_event_loop()
                try:
                    _start_daemon(loop.run_forever, name="laya-hook-loop")
                except Exception:  # the process has too many threads; the next use tries again
                    loop.close()
                    raise
                self.loop = loop
            return self.loop

    def forget(self) -> None:
        """Start anew at the next use: a forked child has the loop but not its thread."""
        self.__init__()  # type: ignore[misc]


_background = _BackgroundLoop()
in_forked_child(_background.forget)


def _start_daemon(target: Callable[..., object], *args: object, name: str) -> None:
    threading.Thread(target=target, args=args, name=name, daemon=True).start()
