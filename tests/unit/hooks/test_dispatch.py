"""One event, run on every hook."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from laya.hooks import HOOK_EVENTS, BaseHook, PredictContext, dispatch, normalise_hooks
from laya.hooks._dispatch import check_timeout


def start(function: Callable[[PredictContext], Any]) -> list[Any]:
    """Return the hooks that call `function` at the start."""
    return normalise_hooks(on_predict_start=function)


def ctx() -> PredictContext:
    """Return the context of a call with one state."""
    return PredictContext(["a"], {})


class Boom(BaseHook):
    """A hook that fails at the start."""

    def on_predict_start(self, ctx: PredictContext) -> None:
        raise KeyError("no such span")


def test_hooks_run_in_list_order_with_one_context():
    """Each hook sees what the one before it did."""
    call = ctx()
    hooks = [SimpleNamespace(on_load=lambda c, n=n: c.states.append(n)) for n in range(5)]
    dispatch(hooks, "on_load", call)
    assert call.states == ["a", 0, 1, 2, 3, 4]


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_a_hook_sees_the_events_that_it_implements(event):
    """An absent event is skipped."""
    seen: list[PredictContext] = []
    hook = SimpleNamespace(**{event: seen.append})
    call = ctx()
    for each in HOOK_EVENTS:
        assert dispatch([hook, SimpleNamespace()], each, call) is None
    assert seen == [call]


def test_an_unknown_event_is_refused():
    """A misspelt event would silently do nothing."""
    with pytest.raises(ValueError, match="on_predict_begin"):
        dispatch([], "on_predict_begin", ctx())


def test_the_list_is_read_once():
    """A hook that changes the list changes the next dispatch."""
    seen: list[int] = []
    hooks: list[Any] = []

    def add(call: PredictContext) -> None:
        seen.append(len(hooks))
        hooks.append(SimpleNamespace(on_predict_start=add))

    hooks.append(SimpleNamespace(on_predict_start=add))
    dispatch(hooks, "on_predict_start", ctx())
    assert seen == [1]


def test_the_first_failure_is_raised_and_ends_the_event():
    """The hook's own error comes out."""
    seen: list[PredictContext] = []
    with pytest.raises(KeyError, match="no such span"):
        dispatch([Boom(), *start(seen.append)], "on_predict_start", ctx())
    assert seen == []


def test_a_failing_hook_may_be_a_warning_and_the_next_runs():
    """The warning names hook, event and error."""
    seen: list[PredictContext] = []
    call = ctx()
    with pytest.warns(RuntimeWarning, match=r"Boom\.on_predict_start failed: KeyError: 'no such span'"):
        dispatch([Boom(), *start(seen.append)], "on_predict_start", call, raise_errors=False)
    assert seen == [call]


def test_a_warning_names_a_wrapped_callable():
    """A plain function goes by its own name."""

    def redact(call: PredictContext) -> None:
        raise ValueError

    with pytest.warns(RuntimeWarning, match=r"redact\.on_predict_start"):
        dispatch(start(redact), "on_predict_start", ctx(), raise_errors=False)


def test_each_failing_hook_warns():
    """One warning for every failure of an event."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dispatch([Boom(), Boom()], "on_predict_start", ctx(), raise_errors=False)
    assert [warning.category for warning in caught] == [RuntimeWarning] * 2


def test_where_warnings_are_errors_the_failure_is_logged(caplog):
    """A tracer never fails a request, whatever the warning filters."""
    seen: list[PredictContext] = []
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "laya.hooks"):
        warnings.simplefilter("error")
        dispatch([Boom(), *start(seen.append)], "on_predict_start", ctx(), raise_errors=False)
    assert len(seen) == 1
    assert "Boom" in caplog.text
    assert "no such span" in caplog.text


def test_an_error_that_cannot_be_shown_fails_nothing():
    """An exception whose str raises is logged by its traceback."""

    class Unshowable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(call: PredictContext) -> None:
        raise Unshowable

    dispatch(start(fail), "on_predict_start", ctx(), raise_errors=False)


def test_a_property_that_raises_is_a_failing_hook():
    """Reading the event is part of running it."""

    class Lazy:
        @property
        def on_predict_start(self) -> Any:
            raise OSError("not ready")

    with pytest.warns(RuntimeWarning, match="not ready"):
        dispatch([Lazy()], "on_predict_start", ctx(), raise_errors=False)


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_gets_out_under_every_policy(error, timeout):
    """Ctrl-C stops the program, not the tracer alone."""

    def fail(call: PredictContext) -> None:
        raise error

    with pytest.raises(error):
        dispatch(start(fail), "on_predict_start", ctx(), raise_errors=False, timeout=timeout)


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("error", [StopIteration, TimeoutError, asyncio.CancelledError])
def test_special_errors_are_hook_failures(error, timeout):
    """None of them is taken for a signal of the machinery."""

    def fail(call: PredictContext) -> None:
        raise error("mine")

    lock = threading.RLock()
    with pytest.raises(error, match="mine"):
        dispatch(start(fail), "on_predict_start", ctx(), timeout=timeout, lock=lock)
    with pytest.warns(RuntimeWarning, match=error.__name__):
        dispatch(start(fail), "on_predict_start", ctx(), raise_errors=False, timeout=timeout, lock=lock)


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("in_loop", [False, True])
def test_an_awaitable_result_is_run_to_its_end(timeout, in_loop):
    """A plain async callable works, with or without a loop in the caller's thread."""
    seen: list[str] = []

    async def ship(call: PredictContext) -> None:
        await asyncio.sleep(0.01)
        seen.append(call.run_id)

    async def caller() -> None:
        dispatch(start(ship), "on_predict_start", call, timeout=timeout)

    call = ctx()
    if in_loop:
        asyncio.run(caller())
    else:
        dispatch(start(ship), "on_predict_start", call, timeout=timeout)
    assert seen == [call.run_id]


def test_an_async_failure_follows_the_policy():
    """A failing coroutine is a failing hook."""

    async def fail(call: PredictContext) -> None:
        raise ConnectionError("collector is down")

    with pytest.raises(ConnectionError):
        dispatch(start(fail), "on_predict_start", ctx())
    with pytest.warns(RuntimeWarning, match="collector is down"):
        dispatch(start(fail), "on_predict_start", ctx(), raise_errors=False)


def test_other_results_are_ignored():
    """A hook works by what it does to the context."""
    call = ctx()
    dispatch(start(lambda c: [{"answers": {}}]), "on_predict_start", call)
    assert call.results is None


def test_plain_hooks_run_in_the_callers_thread():
    """No thread is made without a timeout."""
    seen: list[threading.Thread] = []
    dispatch(start(lambda c: seen.append(threading.current_thread())) * 5, "on_predict_start", ctx())
    assert seen == [threading.current_thread()] * 5


@pytest.mark.parametrize(
    "timeout",
    [0, -1, 0.0, math.nan, math.inf, -math.inf, True, False, "1", Decimal(1), [1], 10**400, np.bool_(True)],
)
@pytest.mark.parametrize("hooks", [[], [BaseHook()]])
def test_a_bad_timeout_is_refused(timeout, hooks):
    """Also where no hook would run."""
    with pytest.raises(ValueError, match="timeout must be a positive finite number"):
        dispatch(hooks, "on_predict_start", ctx(), timeout=timeout)


@pytest.mark.parametrize("timeout", [1, 0.5, Fraction(1, 2), np.float32(0.5), np.int64(1), 1e300])
def test_any_positive_finite_number_is_a_timeout(timeout):
    """Longer than the platform can wait counts as its longest wait."""
    seen: list[PredictContext] = []
    dispatch(start(seen.append), "on_predict_start", ctx(), timeout=timeout)
    assert len(seen) == 1


def test_a_checked_timeout_names_its_argument():
    """Runtimes call theirs hooks_timeout."""
    assert check_timeout(2) == 2.0
    with pytest.raises(ValueError, match=r"hooks_timeout .* got bool"):
        check_timeout(True, "hooks_timeout")
