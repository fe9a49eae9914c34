"""What happens, and in which order, when a Router answers one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from laya import PredictContext, Router, hooks
from tests.integration.router.recording import URGENT, NotingAgent, Recorder

STATE = "Where is my parcel? It was due on Monday"
Cold = Callable[..., Router]


def test_the_events_come_in_order(cold: Cold) -> None:
    """on_route, then what leaves before what comes, then start and end, all with the call's run_id."""
    hook = Recorder()
    router = cold(max_loaded=1)
    router.load("multilingual")
    router.add_hook(hook)
    result = router.predict(STATE, URGENT, model="english")
    assert hook.events == [
        "on_route",
        "on_evict multilingual",
        "on_load english",
        "on_predict_start",
        "on_predict_end",
    ]
    assert {ctx.run_id for _, ctx in hook.seen} == {result["run_id"]}
    assert hook.at("on_predict_start")[0].run_id != router.predict(STATE, URGENT, model="en")["run_id"]


def test_each_event_has_its_part_of_the_context(cold: Cold) -> None:
    """Routing knows no model yet, loading no state, and the end has all."""
    hook = Recorder()
    router = cold(max_loaded=1)
    router.load("multilingual")
    result = router.predict(STATE, URGENT, model="english", max_len=120, head_max_len=60, hooks=hook)
    routed, evicted, loaded, start, end = (ctx for _, ctx in hook.seen)
    assert all(ctx.router is router for _, ctx in hook.seen)
    assert (routed.states, routed.questions, routed.model, routed.agent) == ([STATE], URGENT, None, None)
    assert routed.questions is URGENT
    assert (evicted.states, evicted.questions, evicted.agent) == ([], {}, None)
    assert (loaded.states, loaded.questions, loaded.agent) == ([], {}, router.load("english"))
    assert (start.model, start.agent, start.states) == ("english", loaded.agent, [STATE])
    assert (start.max_len, start.head_max_len, start.results, start.usage) == (120, 60, None, None)
    assert start.decision == routed.decision == result["routing"]
    assert end.results == [result]
    assert end.usage == {key: result["usage"][key] for key in ("input_tokens", "output_tokens")}
    assert end.elapsed_ms > 0
    assert end.error is None


def test_the_time_is_that_of_the_prediction_alone(cold: Cold) -> None:
    """The clock starts again after routing and loading, right before the start hooks."""
    loaded_at: list[float] = []
    hook = Recorder(on_load=lambda ctx: loaded_at.append(time.perf_counter()))
    begin = time.perf_counter()
    cold().predict(STATE, URGENT, model="english", hooks=hook)
    (start,), (end,) = hook.at("on_predict_start"), hook.at("on_predict_end")
    assert hook.at("on_route")[0].started_at < loaded_at[0] <= start.started_at == end.started_at
    assert end.elapsed_ms <= (time.perf_counter() - start.started_at) * 1000
    assert start.started_at - begin > 0


@pytest.mark.parametrize("event", ["on_route", "on_evict", "on_load", "on_predict_start", "on_predict_end"])
def test_a_hook_may_call_the_router_from_any_event_and_thread(cold: Cold, event: str) -> None:
    """No lock is held while hooks run; the inner call is a new call with its own run_id."""
    router = cold(max_loaded=1)
    router.load("multilingual")
    inner: list[Any] = []
    model = "english" if event in ("on_load", "on_predict_start", "on_predict_end") else "multilingual"

    def call_back(ctx: PredictContext) -> None:
        router.remove_hook(hook)
        inner.append(router.predict(STATE, URGENT, model=model))
        thread = threading.Thread(target=lambda: inner.append(router.predict(STATE, URGENT, model=model)))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    hook = Recorder(**{event: call_back})
    router.add_hook(hook)
    outer = router.predict(STATE, URGENT, model="english")
    assert len({outer["run_id"], *(result["run_id"] for result in inner)}) == 3
    assert [result["routing"]["model"] for result in inner] == [model, model]


def test_a_serialised_hook_may_call_the_router(cold: Cold) -> None:
    """The lock of `hooks_concurrent=False` is re-entrant."""
    router = cold(hooks_concurrent=False)

    def call_back(ctx: PredictContext) -> None:
        router.remove_hook(hook)
        router.predict(STATE, URGENT, model="english")

    hook = Recorder(on_load=call_back)
    router.add_hook(hook)
    assert router.predict(STATE, URGENT, model="english")["routing"]["model"] == "english"


def test_the_hooks_of_a_call_see_the_whole_call(cold: Cold) -> None:
    """They come after the defaults and the installed ones, at every event."""
    journal: list[str] = []
    first, second, third = (Recorder(name, journal) for name in ("default", "installed", "call"))
    hooks.set_default_hooks(first)
    cold(hooks=second).predict(STATE, URGENT, model="english", hooks=third)
    events = ["on_route", "on_load", "on_predict_start", "on_predict_end"]
    expected = [f"{name} {event}" for event in events for name in ("default", "installed", "call")]
    assert [entry for entry in journal] == expected


def test_process_wide_hooks_run_once(router: Router, agents: dict[str, NotingAgent]) -> None:
    """For the Router's call and not again for the agent's; what an agent's hook calls is a call of its own."""
    default = Recorder()
    hooks.set_default_hooks(default)
    router.predict(STATE, URGENT, model="en")
    assert default.events == ["on_route", "on_predict_start", "on_predict_end"]

    default.seen.clear()
    other = Recorder(on_predict_start=lambda ctx: agents["multilingual"].predict(STATE, URGENT) and None)
    agents["english"].add_hook(other)
    router.predict(STATE, URGENT, model="en")
    assert [ctx.agent for ctx in default.at("on_predict_start")] == [agents["english"], agents["multilingual"]]
    assert [ctx.router for ctx in default.at("on_predict_start")] == [router, None]
    assert default.events == ["on_route", "on_predict_start", "on_predict_start", "on_predict_end", "on_predict_end"]

    default.seen.clear()
    agents["english"].predict(STATE, URGENT, hooks_raise=True)
    assert default.events[0] == "on_predict_start"


def test_an_agents_own_hooks_run_inside(router: Router, agents: dict[str, NotingAgent]) -> None:
    """In a call of their own; the Router's hooks are not handed to the agent."""
    journal: list[str] = []
    outer, inner = Recorder("router", journal), Recorder("agent", journal)
    agents["english"].add_hook(inner)
    router.predict(STATE, URGENT, model="en", hooks=outer)
    assert journal == [
        "router on_route",
        "router on_predict_start",
        "agent on_predict_start",
        "agent on_predict_end",
        "router on_predict_end",
    ]
    (started,) = inner.at("on_predict_start")
    assert started.run_id != outer.at("on_predict_start")[0].run_id
    assert started.router is None
    assert started.model == agents["english"].model_id


def test_no_questions_are_answered_by_nothing(router: Router) -> None:
    """Start and end hooks run as ever."""
    hook = Recorder()
    result = router.predict(STATE, {}, model="en", hooks=hook)
    assert result["answers"] == {}
    assert result["routing"]["model"] == "english"
    assert hook.at("on_predict_end")[0].usage == {"input_tokens": 0, "output_tokens": 0}
