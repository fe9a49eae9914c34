"""Which agent's call is part of which Router call."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from laya.hooks import PredictContext
from laya_integrations._calls import CallStart, parts_of, takes_part

QUESTIONS: dict[str, Any] = {"urgent": {"type": "noul", "instructions": "Urgent?"}}
AGENT, ROUTER = object(), object()


def context(*states: Any, router: Any = None, agent: Any = AGENT, questions: Any = QUESTIONS) -> PredictContext:
    """A call's context as its hooks see it."""
    ctx = PredictContext(states=list(states), questions=questions)
    ctx.agent, ctx.router = agent, router
    return ctx


def started_elsewhere(keep_running: threading.Event | None = None) -> CallStart:
    """A start in another thread, which is over unless it waits for an event."""
    starts: list[CallStart] = []
    noted = threading.Event()

    def start() -> None:
        starts.append(CallStart("here"))
        noted.set()
        if keep_running is not None:
            keep_running.wait(30)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    noted.wait(30)
    if keep_running is None:
        thread.join()
    return starts[0]


def test_each_state_is_of_one_call() -> None:
    """Also of those about the same text; where they have several budgets, it is of the one with its budgets."""
    calls = [context("a", router=ROUTER) for _ in range(3)]
    calls[0].max_len = 64
    assert parts_of(calls, context("a")) == [calls[1]]
    assert parts_of(calls, context("a", "a")) == calls[1:]
    short = context("a")
    short.max_len = 64
    assert parts_of(calls, short) == [calls[0]]


@pytest.mark.parametrize(
    ("inner", "is_part"),
    [
        (context("text"), True),
        (context("te", "xt"), True),
        (context("other"), False),
        (context({"other": 1}, {"x": 2}), False),
        (context("text", agent=object()), False),
        (context("text", questions={"other": QUESTIONS["urgent"]}), False),
        (context("text", router=ROUTER), False),
    ],
)
def test_a_part_has_the_calls_agent_questions_and_state(inner: PredictContext, is_part: bool) -> None:
    """Or several texts in the state's place, the windows of a long one."""
    assert bool(parts_of([context("text", router=ROUTER)], inner)) is is_part


def test_a_call_has_one_part_and_none_once_it_has_ended() -> None:
    """What is asked then is asked by somebody else, whether or not the end was heard."""
    call = context("a", router=ROUTER)
    start = CallStart("here")
    assert not takes_part([(call, start)], context("a"), "elsewhere")
    assert takes_part([(call, start)], context("a"), "here")
    assert not takes_part([(call, start)], context("a"), "here")
    answered, failed = context("a", router=ROUTER), context("a", router=ROUTER)
    answered.results, failed.error = [{}], ValueError()
    open_calls = [(answered, CallStart("here")), (failed, CallStart("here"))]
    assert not takes_part(open_calls, context("a"), "here")


def test_windows_are_asked_about_in_the_calls_thread() -> None:
    """A state is known in any thread; windows where the start was heard in a hook's own thread, which is over."""
    call, running = context("text", router=ROUTER), threading.Event()
    try:
        assert not takes_part([(call, started_elsewhere(running))], context("te", "xt"), "here")
        assert takes_part([(call, started_elsewhere(running))], context("text"), "here")
    finally:
        running.set()
    assert takes_part([(call, started_elsewhere())], context("te", "xt"), "here")
