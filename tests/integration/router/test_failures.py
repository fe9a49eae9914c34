"""What a failing request to a Router tells its hooks, and its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laya import Router, hooks
from laya.errors import CheckpointNotFoundError, OptionError, StateError
from tests.integration.router.recording import URGENT, NotingAgent, Recorder, raising

STATE = "Where is my parcel? It was due on Monday"
Cold = Callable[..., Router]


def _failing_guess(state: Any) -> str:
    raise LookupError("guess")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"state": None}, StateError),
        ({"questions": None}, TypeError),
        ({"questions": [1]}, TypeError),
        ({"min_confidence": 2}, OptionError),
        ({"hooks_timeout": 0}, OptionError),
        ({"hooks": object()}, TypeError),
    ],
)
def test_a_bad_argument_is_refused_before_any_event(cold: Cold, arguments: dict[str, Any], error: type) -> None:
    """And before anything is loaded."""
    hook = Recorder()
    router = cold(hooks=hook)
    with pytest.raises(error):
        router.predict(**{"state": STATE, "questions": URGENT, **arguments})
    assert hook.events == router.loaded == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"model": "nope"}, ValueError),
        ({"task": "nope"}, ValueError),
        ({"lang_guess": _failing_guess}, LookupError),
    ],
)
@pytest.mark.parametrize("call", ["predict", "predict_long"])
def test_a_failure_while_routing_ends_the_call(cold: Cold, call: str, options: dict[str, Any], error: type) -> None:
    """on_error and on_predict_end see it; there was no start, no model and nothing loaded."""
    hook = Recorder()
    router = cold()
    with pytest.raises(error) as caught:
        getattr(router, call)(STATE, URGENT, hooks=hook, **options)
    assert hook.events == ["on_error", "on_predict_end"]
    failed, end = hook.at("on_error")[0], hook.at("on_predict_end")[0]
    assert failed.error is end.error is caught.value
    assert failed.run_id == end.run_id
    assert (end.model, end.agent, end.results, end.usage) == (None, None, None, None)
    assert failed.elapsed_ms is None
    assert end.elapsed_ms >= 0
    assert router.loaded == []


def test_a_failure_of_an_on_route_hook_ends_the_call(cold: Cold) -> None:
    """As any other failure before the start does."""
    hook = Recorder(on_route=raising(RuntimeError("route")))
    with pytest.raises(RuntimeError, match="route"):
        cold().predict(STATE, URGENT, hooks=hook)
    assert hook.events == ["on_route", "on_error", "on_predict_end"]


def test_a_failure_while_loading_ends_the_call(cold: Cold, tmp_path: Any) -> None:
    """The decision and the checkpoint's name are there; the next call tries again."""
    hook = Recorder()
    router = Router({"english": tmp_path / "nowhere"}, device="cpu")
    for _ in range(2):
        with pytest.raises(CheckpointNotFoundError):
            router.predict(STATE, URGENT, hooks=hook)
    assert hook.events == ["on_route", "on_error", "on_predict_end"] * 2
    end = hook.at("on_predict_end")[0]
    assert (end.model, end.agent, end.decision["model"]) == ("english", None, "english")
    assert len({ctx.run_id for _, ctx in hook.seen[:3]}) == 1
    assert router.loaded == []


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
def test_a_failing_load_hook_fails_the_call_and_loses_no_event(cold: Cold, error: type[BaseException]) -> None:
    """The checkpoint stays, every hook's count of what is in memory adds up, and the next call works."""
    hook = Recorder(on_evict=raising(error("evict")), on_load=raising(RuntimeError("load")))
    router = cold(max_loaded=1)
    router.load("multilingual")
    with pytest.raises(error, match="evict"):
        router.predict(STATE, URGENT, model="english", hooks=hook)
    assert hook.events == ["on_route", "on_evict multilingual", "on_load english", "on_error", "on_predict_end"]
    assert router.loaded == ["english"]
    assert router.predict(STATE, URGENT, model="english", hooks=hook)["routing"]["model"] == "english"


@pytest.mark.parametrize("where", ["start", "agent"])
def test_a_failing_call_is_reported_and_ended(router: Router, agents: dict[str, NotingAgent], where: str) -> None:
    """on_error first, without time and usage; then on_predict_end, with the time."""
    failure = KeyboardInterrupt() if where == "agent" else RuntimeError("start")
    hook = Recorder(**({"on_predict_start": raising(failure)} if where == "start" else {}))
    if where == "agent":
        agents["english"].fail = lambda states: failure
    with pytest.raises(type(failure)):
        router.predict(STATE, URGENT, model="en", hooks=hook)
    assert hook.events == ["on_route", "on_predict_start", "on_error", "on_predict_end"]
    failed, end = hook.at("on_error")[0], hook.at("on_predict_end")[0]
    assert failed.error is end.error is failure
    assert failed.elapsed_ms is None
    assert end.elapsed_ms is not None
    assert end.results is None
    assert end.usage is None


def test_a_failing_end_hook_is_no_failed_prediction(router: Router) -> None:
    """Its error comes out; on_error does not fire."""
    hook = Recorder(on_predict_end=raising(RuntimeError("end")))
    with pytest.raises(RuntimeError, match="end"):
        router.predict(STATE, URGENT, model="en", hooks=hook)
    assert hook.events == ["on_route", "on_predict_start", "on_predict_end"]
    assert hook.at("on_predict_end")[0].error is None


def test_failing_error_hooks_do_not_hide_the_first_error(router: Router) -> None:
    """They are chained to it."""
    hook = Recorder(on_error=raising(RuntimeError("later")), on_predict_end=raising(RuntimeError("last")))
    with pytest.raises(ValueError, match="nope") as caught:
        router.predict(STATE, URGENT, model="nope", hooks=hook)
    chain: list[str] = []
    error: BaseException | None = caught.value.__context__
    while error is not None:
        chain.append(str(error))
        error = error.__context__
    assert {"later", "last"} <= set(chain)


def test_a_failing_tracer_never_fails_a_request(cold: Cold) -> None:
    """With `hooks_raise=False` each failure is a warning, whatever the event."""
    failing = {event: raising(RuntimeError(event)) for event in hooks.HOOK_EVENTS}
    router = cold(max_loaded=1, hooks_raise=False)
    router.load("multilingual")
    router.add_hook(Recorder(**failing))
    with pytest.warns(RuntimeWarning) as caught:
        assert router.predict(STATE, URGENT, model="english")["answers"]
    messages = [str(warning.message) for warning in caught]
    for event in ("on_route", "on_evict", "on_load", "on_predict_start", "on_predict_end"):
        assert sum(event in message for message in messages) == 1
