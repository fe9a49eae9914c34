"""Run the blocking parts of an async call in threads, and end it properly when its task is cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from laya._forks import in_forked_child

T = TypeVar("T")

_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Threads for all async calls of the process together; a call that waits for a shared pass holds none."""
_GRACE_S = 0.1
"""How long a cancelled task waits for its contexts to be closed; after that they are closed behind its back."""


class Aside:
    """The threads of one async call: they run one after the other, in one copy of the caller's context.

    What a start hook sets in a context variable, its end hook finds there.
    """

    def __init__(self) -> None:
        self.context = copy_context()
        self.cancelled = False
        """Whether the call's task was cancelled; a part that runs on may look."""
        outer = _turn.get()
        # A hook that waits for this call holds a thread of the pool: with one more for itself it can't be starved.
        self._nested = outer is not None and outer.running
        self._turn = _Turn()
        self.context.run(_turn.set, self._turn)

    async def __call__(self, function: Callable[[], T]) -> T:
        """Run `function`. Cancelled before its thread is there, it never runs; after that, its end is waited for."""
        return await self._run(function, skippable=True)

    async def surely(self, function: Callable[[], T]) -> T:
        """Run `function`, also for a task that is cancelled meanwhile, and here where no thread can be started."""
        return await self._run(function, skippable=False)

    def check(self) -> None:
        """Raise `CancelledError` if the call's task was cancelled."""
        if self.cancelled:
            raise asyncio.CancelledError

    async def _run(self, function: Callable[[], T], skippable: bool) -> T:
        future = self._submit(partial(self.context.run, _outcome, function, self._turn), skippable)
        ended = asyncio.wrap_future(future)
        interrupted: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait((ended,))
            except asyncio.CancelledError as error:
                self.cancelled = True
                interrupted = error
                if skippable and future.cancel():
                    raise
        failure = interrupted or ended.result().error
        try:
            if failure is not None:
                raise failure
            return ended.result().value
        finally:
            del failure, interrupted, ended  # a traceback holds this frame; without the cycle both go at once

    def _submit(self, part: Callable[[], T], skippable: bool) -> Future[T]:
        try:
            return (_in_new_thread if self._nested else _pool.submit)(part)
        except RuntimeError:  # the process ends, or has too many threads
            if skippable:
                raise
            here: Future[T] = Future()
            _serve(here, part)
            return here


class _Turn:
    """Whether a thread runs a part of a call just now."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running = False


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """What became of a part: an asyncio future takes no `StopIteration`, and reports an error that nobody reads."""

    value: T
    error: BaseException | None = None


def _outcome(function: Callable[[], T], turn: _Turn) -> _Outcome[T]:
    turn.running = True
    try:
        return _Outcome(function())
    except BaseException as error:
        return _Outcome(cast("T", None), error)
    finally:
        turn.running = False


async def detached(call: Coroutine[Any, Any, T]) -> T:
    """Await a call in a task of its own, so that its end isn't hurried when the awaiting task is cancelled.

    That task gets its `CancelledError` once the call has closed its contexts, but after a tenth of a second at most:
    a hook in a thread can't be interrupted.
    """
    task = asyncio.get_running_loop().create_task(call)
    try:
        await asyncio.wait((task,))
    except BaseException as error:
        task.cancel()
        _closing.add(task)
        task.add_done_callback(_closed)
        if isinstance(error, asyncio.CancelledError):
            await asyncio.wait((task,), timeout=_GRACE_S)
        raise
    try:
        return task.result()
    finally:
        del task  # its error's traceback holds this frame


_closing: set[asyncio.Task[Any]] = set()
"""A loop refers to its tasks weakly."""


def _closed(task: asyncio.Task[Any]) -> None:
    _closing.discard(task)
    if not task.cancelled():
        task.exception()


class _Pool:
    """The threads of all async calls, made at first use."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run `function` in one of the threads, in turn."""
        with self._making:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="laya-async")
            future: Future[T] = Future()
            try:
                self._executor.submit(_serve, future, function)
            except BaseException as error:
                # The executor queues the part before it starts a thread: another one may run it now, or later.
                if future.cancel() or not isinstance(error, Exception):
                    raise
            return future

    def forget(self) -> None:
        """Start anew at the next use: a forked child has the pool but not its threads."""
        self.__init__()  # type: ignore[misc]


def _in_new_thread(function: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    threading.Thread(target=_serve, args=(future, function), name="laya-async-nested").start()
    return future


def _serve(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


_turn: ContextVar[_Turn | None] = ContextVar("laya_aside_turn", default=None)
_pool = _Pool()
in_forked_child(_pool.forget)
