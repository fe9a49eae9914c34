"""Hooks under a timeout."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from laya.errors import HookTimeoutError
from laya.hooks import PredictContext, dispatch, normalise_hooks

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


class Slow:
    """A hook that runs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.done = threading.Event()

    def on_predict_start(self, ctx: PredictContext) -> None:
        self.go.wait()
        self.done.set()


@pytest.fixture
def slow() -> Iterator[Slow]:
    """A hook that overruns until the test ends."""
    hook = Slow()
    yield hook
    hook.go.set()
    assert hook.done.wait(30)


def start(function: Any) -> list[Any]:
    """Return the hooks that call `function`, or each of several, at the start."""
    return normalise_hooks(on_predict_start=function)


def ctx() -> PredictContext:
    """Return the context of a call with one state."""
    return PredictContext(["a"], {})


def test_a_hook_over_its_timeout_is_a_timeout_error(slow):
    """The error tells which hook, which event and how long."""
    began = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"Slow\.on_predict_start took longer than 0\.05 s") as caught:
        dispatch([slow], "on_predict_start", ctx(), timeout=0.05)
    assert time.perf_counter() - began < 10
    assert isinstance(caught.value, HookTimeoutError)
    assert (caught.value.hook, caught.value.event, caught.value.timeout) == ("Slow", "on_predict_start", 0.05)


def test_a_hook_that_overran_runs_on(slow):
    """A thread can't be interrupted."""
    with pytest.raises(TimeoutError):
        dispatch([slow], "on_predict_start", ctx(), timeout=0.05)
    assert not slow.done.is_set()
    slow.go.set()
    assert slow.done.wait(30)


def test_a_timeout_may_be_a_warning_and_the_next_hook_runs(slow):
    """A slow tracer costs its timeout, never the request."""
    seen: list[PredictContext] = []
    with pytest.warns(RuntimeWarning, match=r"Slow\.on_predict_start.*HookTimeoutError"):
        dispatch([slow, *start(seen.append)], "on_predict_start", ctx(), raise_errors=False, timeout=0.05)
    assert len(seen) == 1


def test_each_hook_has_the_whole_timeout():
    """It is no budget of the event."""
    hooks = start(lambda c: time.sleep(0.3)) * 4
    dispatch(hooks, "on_predict_start", ctx(), timeout=1)


def test_hooks_run_in_order_and_one_by_one():
    """The next hook begins when the one before has ended."""
    seen: list[str] = []

    def wait(call: PredictContext) -> None:
        time.sleep(0.05)
        seen.append("first")

    dispatch(start([wait, lambda c: seen.append("second")]), "on_predict_start", ctx(), timeout=30)
    assert seen == ["first", "second"]


def test_a_hook_sees_the_callers_contextvars():
    """Copied: what the hook sets stays with it."""
    seen: list[str] = []

    def read(call: PredictContext) -> None:
        seen.append(tenant.get())
        tenant.set("hook")

    token = tenant.set("acme")
    try:
        dispatch(start([read, read]), "on_predict_start", ctx(), timeout=30)
        assert tenant.get() == "acme"
    finally:
        tenant.reset(token)
    assert seen == ["acme", "acme"]


def test_an_async_hook_sees_the_callers_contextvars_too():
    """Through the thread and into its coroutine."""
    seen: list[str] = []

    async def read(call: PredictContext) -> None:
        await asyncio.sleep(0)
        seen.append(tenant.get())

    async def caller() -> None:
        tenant.set("acme")
        dispatch(start(read), "on_predict_start", ctx(), timeout=30)

    asyncio.run(caller())
    assert seen == ["acme"]


def test_a_slow_coroutine_is_a_timeout_error():
    """The timeout covers what the hook returns, too."""
    ended = threading.Event()

    async def wait(call: PredictContext) -> None:
        await asyncio.sleep(0.3)
        ended.set()

    with pytest.raises(TimeoutError, match=r"wait\.on_predict_start"):
        dispatch(start(wait), "on_predict_start", ctx(), timeout=0.05)
    assert ended.wait(30)


def test_the_hooks_own_timeout_error_comes_out_unchanged():
    """It isn't mistaken for the hook's timeout."""
    error = TimeoutError("collector")

    def fail(call: PredictContext) -> None:
        raise error

    with pytest.raises(TimeoutError) as caught:
        dispatch(start(fail), "on_predict_start", ctx(), timeout=30)
    assert caught.value is error


def test_threads_of_hooks_that_ended_are_gone():
    """No thread is left behind, and those that run are daemons."""
    seen: list[threading.Thread] = []
    before = set(threading.enumerate())
    dispatch(start(lambda c: seen.append(threading.current_thread())) * 20, "on_predict_start", ctx(), timeout=30)
    for thread in seen:
        thread.join(30)
    assert all(thread.daemon and not thread.is_alive() for thread in seen)
    assert set(threading.enumerate()) - before == set()


def test_a_hook_may_dispatch_under_a_timeout_itself():
    """A call made by a hook is a call like any other."""
    seen: list[str] = []

    def outer(call: PredictContext) -> None:
        dispatch(start(lambda c: seen.append("inner")), "on_predict_start", ctx(), timeout=30)
        seen.append("outer")

    dispatch(start(outer), "on_predict_start", ctx(), timeout=30)
    assert seen == ["inner", "outer"]
