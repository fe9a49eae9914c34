"""Awaitables run from synchronous code."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from laya.hooks import AsyncHook, PredictContext, _coroutines, dispatch, run_coroutine_sync
from laya.hooks._coroutines import _BackgroundLoop
from laya.hooks._turns import take_turn

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@pytest.fixture
def other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def where() -> tuple[threading.Thread, asyncio.AbstractEventLoop, str]:
    """Tell the thread, the loop and the tenant that a coroutine finds."""
    await asyncio.sleep(0)
    return threading.current_thread(), asyncio.get_running_loop(), tenant.get()


def test_without_a_running_loop_it_runs_in_this_thread():
    """`asyncio.run` in the calling thread."""
    thread, loop, _ = run_coroutine_sync(where())
    assert thread is threading.current_thread()
    assert loop.is_closed()


def test_under_a_running_loop_it_runs_on_one_background_loop():
    """An asyncio caller blocks, but doesn't deadlock; all callers share the loop."""

    async def caller() -> tuple[Any, Any]:
        return run_coroutine_sync(where()), run_coroutine_sync(where())

    (thread, loop, _), (_, same_loop, _) = asyncio.run(caller())
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert same_loop is loop
    assert asyncio.run(caller())[0][1] is loop


def test_contextvars_are_seen_on_every_path(other_loop):
    """A coroutine sees what its caller set, on whichever loop it runs."""

    async def caller() -> str:
        return run_coroutine_sync(where())[2]

    async def nested() -> str:
        return run_coroutine_sync(call_again())

    async def call_again() -> str:
        return run_coroutine_sync(where())[2]

    token = tenant.set("acme")
    try:
        assert run_coroutine_sync(where())[2] == "acme"
        assert run_coroutine_sync(where(), other_loop)[2] == "acme"
        assert asyncio.run(caller()) == "acme"
        assert asyncio.run(nested()) == "acme"
    finally:
        tenant.reset(token)


def test_a_given_loop_is_used(other_loop):
    """It must run in another thread, whether this one has a loop or not."""

    async def caller() -> asyncio.AbstractEventLoop:
        return run_coroutine_sync(where(), other_loop)[1]

    assert run_coroutine_sync(where(), loop=other_loop)[1] is other_loop
    assert asyncio.run(caller()) is other_loop


def test_a_loop_that_does_not_run_is_refused_and_the_coroutine_closed():
    """Waiting for a stopped loop would never end."""
    loop = asyncio.new_event_loop()
    coro = where()
    with pytest.raises(ValueError, match="not running"):
        run_coroutine_sync(coro, loop)
    assert coro.cr_frame is None
    loop.close()
    closed = where()
    with pytest.raises(ValueError, match="not running"):
        run_coroutine_sync(closed, loop)
    assert closed.cr_frame is None


def test_the_callers_own_loop_is_refused_and_the_coroutine_closed():
    """The loop would wait for itself."""

    async def caller() -> None:
        coro = where()
        with pytest.raises(ValueError, match="own"):
            run_coroutine_sync(coro, asyncio.get_running_loop())
        assert coro.cr_frame is None

    asyncio.run(caller())


def test_a_loop_that_waits_for_the_coroutine_is_refused():
    """The caller's loop is blocked for all that the call runs elsewhere, too."""

    async def caller() -> None:
        own = asyncio.get_running_loop()

        async def inner() -> None:
            run_coroutine_sync(where(), own)

        with pytest.raises(ValueError, match="own"):
            run_coroutine_sync(inner())

    asyncio.run(caller())


def test_a_loop_that_waited_may_be_used_after_the_wait(other_loop):
    """What a call leaves running isn't barred from the caller's loop for ever."""
    go, answers = threading.Event(), []

    async def caller() -> None:
        own = asyncio.get_running_loop()

        async def start() -> threading.Thread:
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(late,))
            thread.start()
            return thread

        def late() -> None:
            go.wait()
            answers.append(run_coroutine_sync(where(), own)[1] is own)

        thread = run_coroutine_sync(start())
        go.set()
        await asyncio.to_thread(thread.join)

    asyncio.run(caller())
    assert answers == [True]


def test_calls_may_nest_to_any_depth():
    """A coroutine on the background loop that runs another one doesn't deadlock."""

    async def nest(depth: int) -> int:
        return 0 if depth == 0 else 1 + run_coroutine_sync(nest(depth - 1))

    async def caller() -> int:
        return run_coroutine_sync(nest(4))

    assert run_coroutine_sync(nest(4)) == 4
    assert asyncio.run(caller()) == 4


def test_any_awaitable_is_run():
    """Not coroutines only."""

    class Ready:
        def __await__(self) -> Generator[Any, None, int]:
            return where_number().__await__()

    async def where_number() -> int:
        return 7

    async def caller() -> int:
        return run_coroutine_sync(Ready())

    assert run_coroutine_sync(Ready()) == 7
    assert asyncio.run(caller()) == 7


def test_a_future_is_awaited_on_its_own_loop(other_loop):
    """It can complete nowhere else."""

    async def make() -> asyncio.Future[int]:
        async def work() -> int:
            await asyncio.sleep(0.01)
            return 5

        return asyncio.ensure_future(work())

    task = run_coroutine_sync(make(), other_loop)
    assert run_coroutine_sync(task) == 5
    assert run_coroutine_sync(task) == 5


def test_a_future_of_the_callers_own_loop_is_refused():
    """The blocked loop could never complete it."""

    async def caller() -> None:
        task = asyncio.ensure_future(where())
        with pytest.raises(ValueError, match="own"):
            run_coroutine_sync(task)
        await task

    asyncio.run(caller())


@pytest.mark.parametrize("value", [None, 3, where])
def test_what_is_not_awaitable_is_refused(value):
    """An async function must be called first."""
    with pytest.raises(TypeError, match="awaitable"):
        run_coroutine_sync(value)


def test_failures_come_out_unchanged(other_loop):
    """Also a TimeoutError of the coroutine's own, which is no timeout of the wait."""

    async def fail(error: Exception) -> None:
        raise error

    async def caller(error: Exception) -> None:
        run_coroutine_sync(fail(error))

    for error in (KeyError("mine"), TimeoutError("mine")):
        for run in (
            lambda error=error: run_coroutine_sync(fail(error)),
            lambda error=error: run_coroutine_sync(fail(error), other_loop),
            lambda error=error: asyncio.run(caller(error)),
        ):
            with pytest.raises(type(error), match="mine") as caught:
                run()
            assert caught.type is type(error)


def test_a_cancelled_coroutine_fails_but_cancels_no_caller():
    """The error is an Exception on every path, so that it can't pass for the caller's own cancellation."""

    async def give_up() -> None:
        raise asyncio.CancelledError

    async def caller() -> str:
        with pytest.raises(concurrent.futures.CancelledError):
            run_coroutine_sync(give_up())
        return "went on"

    with pytest.raises(concurrent.futures.CancelledError):
        run_coroutine_sync(give_up())
    assert asyncio.run(caller()) == "went on"


def test_a_loop_that_stops_meanwhile_ends_the_wait():
    """The caller doesn't hang on a loop that has gone."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def stop() -> None:
        loop.stop()
        await asyncio.sleep(3600)

    with pytest.raises(ValueError, match="stopped"):
        run_coroutine_sync(stop(), loop)
    thread.join()
    loop.run_until_complete(asyncio.sleep(0))  # lets the cancelled task end
    loop.close()


def test_an_async_hook_joins_its_loop(other_loop):
    """The hook's client lives on that loop."""

    class Remote:
        async def on_predict_end(self, ctx: PredictContext) -> None:
            seen.append(asyncio.get_running_loop())

    seen: list[asyncio.AbstractEventLoop] = []
    ctx = PredictContext(["a"], {})
    dispatch([AsyncHook(Remote(), loop=other_loop)], "on_predict_end", ctx)
    dispatch([AsyncHook(Remote(), loop=other_loop)], "on_predict_end", ctx, timeout=30)
    assert seen == [other_loop, other_loop]


@pytest.mark.parametrize("timeout", [None, 30])
def test_an_async_hook_on_the_callers_own_loop_is_refused(timeout):
    """Under a timeout the hook's thread is another one, yet the loop still waits for it."""

    class Remote:
        async def on_predict_end(self, ctx: PredictContext) -> None:
            raise AssertionError("never run")

    async def caller() -> None:
        hook = AsyncHook(Remote(), loop=asyncio.get_running_loop())
        with pytest.raises(ValueError, match="own"):
            dispatch([hook], "on_predict_end", PredictContext(["a"], {}), timeout=timeout)

    asyncio.run(caller())


def test_a_process_that_used_the_background_loop_exits_cleanly():
    """Neither a hang nor a warning at exit, even with a hook that never ends."""
    script = """
import asyncio, threading
from laya.hooks import PredictContext, dispatch, normalise_hooks, run_coroutine_sync
async def main():
    run_coroutine_sync(asyncio.sleep(0))
asyncio.run(main())
stuck = normalise_hooks(on_predict_end=lambda ctx: threading.Event().wait())
try:
    dispatch(stuck, "on_predict_end", PredictContext([], {}), timeout=0.05)
except TimeoutError:
    print("timed out")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "timed out\n", "")


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_a_forked_child_gets_a_background_loop_of_its_own():
    """The parent's loop thread doesn't exist in the child."""
    script = """
import asyncio, os
from laya.hooks import run_coroutine_sync
async def main():
    run_coroutine_sync(asyncio.sleep(0))
asyncio.run(main())
child = os.fork()
if not child:
    asyncio.run(main())
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("7\n", "")


@pytest.mark.parametrize("under_lock", [False, True])
def test_a_thread_that_can_not_start_fails_one_call_only(monkeypatch, under_lock):
    """The coroutine is closed, and the next call tries again."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def caller() -> None:
        coro = where()
        with take_turn(threading.RLock() if under_lock else None):
            try:
                run_coroutine_sync(coro)
            finally:
                assert coro.cr_frame is None

    background = _BackgroundLoop()
    monkeypatch.setattr(_coroutines, "_background", background)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            asyncio.run(caller())
    assert background.loop is None
    asyncio.run(asyncio.wait_for(asyncio.to_thread(asyncio.run, caller()), 30))
    if background.loop is not None:
        background.loop.call_soon_threadsafe(background.loop.stop)
        while background.loop.is_running():
            time.sleep(0.001)
        background.loop.close()
