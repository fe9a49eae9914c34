"""Hook calls that hold the lock of their runtime."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from laya.hooks import AsyncHook, PredictContext, _turns, dispatch, normalise_hooks

TIMEOUTS = pytest.mark.parametrize("timeout", [None, 30])


def start(function: Any) -> list[Any]:
    """Return the hooks that call `function`, or each of several, at the start."""
    return normalise_hooks(on_predict_start=function)


def ctx() -> PredictContext:
    """Return the context of a call with one state."""
    return PredictContext(["a"], {})


def is_free(lock: Any) -> bool:
    """Tell, from another thread, whether nobody holds `lock`."""

    def probe() -> bool:
        got = lock.acquire(blocking=False)
        if got:
            lock.release()
        return got

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(probe).result()


class Overlap:
    """A hook that counts how many of its calls run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.calls = 0
        self.counting = threading.Lock()

    def on_predict_start(self, ctx: PredictContext) -> None:
        with self.counting:
            self.running += 1
            self.calls += 1
            self.most = max(self.most, self.running)
        time.sleep(0.005)
        with self.counting:
            self.running -= 1


class AsyncOverlap(Overlap):
    """The same, as a coroutine."""

    async def on_predict_start(self, ctx: PredictContext) -> None:  # type: ignore[override]
        self.running += 1
        self.calls += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.005)
        self.running -= 1


def run_in_threads(call: Callable[[], None], count: int = 6) -> None:
    """Run `call` in `count` threads at once and raise what fails."""
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(call) for _ in range(count)]:
            future.result()


@TIMEOUTS
def test_one_hook_at_a_time_under_a_lock(timeout):
    """The hooks of many threads take turns."""
    lock, hook = threading.RLock(), Overlap()
    run_in_threads(lambda: dispatch([hook] * 3, "on_predict_start", ctx(), lock=lock, timeout=timeout))
    assert (hook.most, hook.calls) == (1, 18)


@TIMEOUTS
@pytest.mark.parametrize("wrap", [AsyncHook, lambda hook: hook])
def test_one_coroutine_at_a_time_under_a_lock(timeout, wrap):
    """Also where callers have loops of their own and their coroutines share the background loop."""
    lock, hook = threading.RLock(), AsyncOverlap()

    async def caller() -> None:
        dispatch([wrap(hook)] * 2, "on_predict_start", ctx(), lock=lock, timeout=timeout)

    run_in_threads(lambda: asyncio.run(caller()))
    assert (hook.most, hook.calls) == (1, 12)


def test_without_a_lock_hooks_run_in_parallel():
    """Two calls meet inside their hooks."""
    meet = threading.Barrier(2)
    run_in_threads(lambda: dispatch(start(lambda c: meet.wait(30)), "on_predict_start", ctx()), count=2)
    assert not meet.broken


@TIMEOUTS
def test_the_lock_is_held_for_each_hook_call_only(timeout):
    """Another call's hook may come between two hooks of one event, and the lock is free at the end."""
    lock = threading.RLock()
    turns: list[str] = []

    def first(call: PredictContext) -> None:
        assert not is_free(lock)
        turns.append("first")

    dispatch(start([first, first]), "on_predict_start", ctx(), lock=lock, timeout=timeout)
    assert turns == ["first", "first"]
    assert is_free(lock)


@TIMEOUTS
def test_a_failing_hook_gives_the_lock_back(timeout):
    """Whatever the policy."""
    lock = threading.RLock()

    def fail(call: PredictContext) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        dispatch(start(fail), "on_predict_start", ctx(), lock=lock, timeout=timeout)
    assert is_free(lock)


@pytest.mark.parametrize("inner_timeout", [None, 30])
@TIMEOUTS
@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("kind", ["plain", "async", "async_hook", "to_thread"])
def test_a_hook_may_dispatch_again_under_the_same_lock(kind, in_loop, timeout, inner_timeout):
    """In its own thread, a timeout's or a loop's: a call that a hook makes doesn't wait for that hook."""
    lock = threading.RLock()
    seen: list[str] = []

    async def note(call: PredictContext) -> None:
        seen.append("inner")

    def again() -> None:
        for hook in (note, lambda c: seen.append("inner")):
            dispatch(start(hook), "on_predict_start", ctx(), lock=lock, timeout=inner_timeout)

    def plain(call: PredictContext) -> None:
        again()
        seen.append("outer")

    async def asynchronous(call: PredictContext) -> None:
        plain(call)

    async def to_thread(call: PredictContext) -> None:
        await asyncio.to_thread(plain, call)

    class Remote:
        async def on_predict_start(self, call: PredictContext) -> None:
            plain(call)

    hooks = {
        "plain": start(plain),
        "async": start(asynchronous),
        "async_hook": [AsyncHook(Remote())],
        "to_thread": start(to_thread),
    }[kind]

    async def caller() -> None:
        dispatch(hooks, "on_predict_start", ctx(), lock=lock, timeout=timeout)

    if in_loop:
        asyncio.run(caller())
    else:
        dispatch(hooks, "on_predict_start", ctx(), lock=lock, timeout=timeout)
    assert seen == ["inner", "inner", "outer"]
    assert is_free(lock)


def test_a_caller_may_hold_the_lock_itself():
    """The lock is re-entrant for the thread that has it."""
    lock = threading.RLock()
    seen: list[PredictContext] = []
    with lock:
        dispatch(start(seen.append), "on_predict_start", ctx(), lock=lock)
    assert len(seen) == 1


def test_a_hook_that_overran_keeps_the_lock_until_its_end():
    """The next hook doesn't run beside it, and runs once it has ended."""
    lock = threading.RLock()
    go, ended = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow(call: PredictContext) -> None:
        go.wait(30)
        seen.append("slow")
        ended.set()

    with pytest.raises(TimeoutError, match=r"slow\.on_predict_start took longer"):
        dispatch(start(slow), "on_predict_start", ctx(), lock=lock, timeout=0.05)
    assert not is_free(lock)

    late = start(lambda c: seen.append("never"))
    with pytest.raises(TimeoutError, match="did not run: another hook call held the lock"):
        dispatch(late, "on_predict_start", ctx(), lock=lock, timeout=0.05)
    go.set()
    assert ended.wait(30)
    dispatch(start(lambda c: seen.append("next")), "on_predict_start", ctx(), lock=lock, timeout=30)
    assert seen == ["slow", "next"]
    assert is_free(lock)


def test_a_hook_behind_a_slow_one_gets_its_full_time():
    """The wait for the lock is not taken from the hook's own timeout."""
    lock = threading.RLock()
    began = threading.Event()

    def busy(call: PredictContext) -> None:
        began.set()
        time.sleep(0.8)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(dispatch, start(busy), "on_predict_start", ctx(), lock=lock)
        assert began.wait(30)
        dispatch(start(lambda c: time.sleep(0.8)), "on_predict_start", ctx(), lock=lock, timeout=1.5)
        first.result()


def test_what_a_hook_leaves_running_waits_for_its_turn():
    """A thread that outlives its hook has no share in the lock any more."""
    lock = threading.RLock()
    go = threading.Event()
    seen: list[str] = []
    left: list[threading.Thread] = []

    def work() -> None:
        go.wait(30)
        dispatch(start(lambda c: seen.append("left")), "on_predict_start", ctx(), lock=lock)

    def leave(call: PredictContext) -> None:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
        thread.start()
        left.append(thread)

    dispatch(start(leave), "on_predict_start", ctx(), lock=lock)
    with lock:
        go.set()
        left[0].join(0.1)
        assert seen == []
    left[0].join(30)
    assert seen == ["left"]


def test_a_plain_thread_of_a_hook_must_carry_its_context():
    """Then what it dispatches is part of the hook's turn; a pool's own threads know nothing of the hook."""
    lock = threading.RLock()
    seen: list[str] = []

    def outer(call: PredictContext) -> None:
        with ThreadPoolExecutor(2) as pool:
            inner = start(lambda c: seen.append("inner"))
            runs = [contextvars.copy_context().run for _ in range(4)]
            made = [pool.submit(run, dispatch, inner, "on_predict_start", ctx(), lock=lock) for run in runs]
            for future in made:
                future.result(30)

    dispatch(start(outer), "on_predict_start", ctx(), lock=lock)
    assert seen == ["inner"] * 4


def test_a_hook_that_waits_long_for_its_turn_is_told_of(caplog, monkeypatch):
    """It may be for ever, where another hook waits for it in turn."""
    monkeypatch.setattr(_turns, "_LONG_WAIT_S", 0.05)
    lock = threading.RLock()
    seen: list[str] = []
    with lock:
        waits = threading.Thread(
            target=lambda: dispatch(start(lambda c: seen.append("ran")), "on_predict_start", ctx(), lock=lock)
        )
        waits.start()
        waits.join(0.3)
        assert seen == []
    waits.join(30)
    assert seen == ["ran"]
    assert "contextvars.copy_context().run" in caplog.text


def test_two_locks_do_not_hold_each_other():
    """A hook of one runtime may call another runtime, which keeps its own lock."""
    outer_lock, inner_lock = threading.RLock(), threading.RLock()
    held: list[bool] = []

    def inner(call: PredictContext) -> None:
        held.append(is_free(inner_lock))
        held.append(is_free(outer_lock))

    def outer(call: PredictContext) -> None:
        held.append(is_free(inner_lock))
        dispatch(start(inner), "on_predict_start", ctx(), lock=inner_lock)

    dispatch(start(outer), "on_predict_start", ctx(), lock=outer_lock)
    assert held == [True, False, False]


@TIMEOUTS
def test_the_calls_of_one_hook_take_turns_too(timeout):
    """A hook that calls back several times at once runs alone, and so do the hooks inside it."""
    lock, inner = threading.RLock(), Overlap()

    async def outer(call: PredictContext) -> None:
        again = [
            asyncio.to_thread(dispatch, [inner] * 2, "on_predict_start", ctx(), lock=lock, timeout=limit)
            for limit in (None, 30, None, 30)
        ]
        await asyncio.gather(*again)

    dispatch(start(outer), "on_predict_start", ctx(), lock=lock, timeout=timeout)
    assert (inner.most, inner.calls) == (1, 8)
    assert is_free(lock)


def test_a_nested_call_that_outlives_its_hook_in_the_queue_waits_for_the_lock():
    """It waited for its sibling, inside a turn that is over by now."""
    lock = threading.RLock()
    began, go = threading.Event(), threading.Event()
    seen: list[str] = []
    threads: list[threading.Thread] = []

    def first(call: PredictContext) -> None:
        began.set()
        go.wait(30)

    def nested(hook: Callable[[PredictContext], Any]) -> None:
        run = contextvars.copy_context().run
        hooks = start(hook)
        threads.append(threading.Thread(target=lambda: run(dispatch, hooks, "on_predict_start", ctx(), lock=lock)))
        threads[-1].start()

    def outer(call: PredictContext) -> None:
        nested(first)
        assert began.wait(30)
        nested(lambda c: seen.append("second"))
        time.sleep(0.1)

    dispatch(start(outer), "on_predict_start", ctx(), lock=lock)
    with lock:
        go.set()
        threads[0].join(30)
        threads[1].join(0.1)
        assert seen == []
    threads[1].join(30)
    assert seen == ["second"]


def test_a_coroutine_under_a_lock_does_not_wait_for_the_background_loop():
    """A hook that occupies that loop may itself wait for the lock."""
    lock = threading.RLock()
    occupied, locked = threading.Event(), threading.Event()
    seen: list[str] = []

    async def note(call: PredictContext) -> None:
        seen.append(call.states[0])

    def under_the_lock(call: PredictContext) -> Any:
        locked.set()
        return note(call)

    async def occupy(call: PredictContext) -> None:
        occupied.set()
        assert locked.wait(30)
        dispatch(start(note), "on_predict_start", PredictContext(["second"], {}), lock=lock)

    async def free() -> None:
        dispatch(start(occupy), "on_predict_start", ctx())

    async def holds() -> None:
        dispatch(start(under_the_lock), "on_predict_start", PredictContext(["first"], {}), lock=lock)

    threads = [threading.Thread(target=asyncio.run, args=(caller(),), daemon=True) for caller in (free, holds)]
    threads[0].start()
    assert occupied.wait(30)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert seen == ["first", "second"]
