"""What fails in a batch, and which requests fail with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laya import Router
from laya.errors import CheckpointNotFoundError, OptionError, StateError
from tests.integration.router.recording import (
    PAYLOAD,
    TEAM,
    URGENT,
    NotingAgent,
    Recorder,
    events_by_state,
    for_state,
    raising,
    request,
)

Cold = Callable[..., Router]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"state": "s"}, ValueError),
        ({"state": "s", "questions": URGENT, "modle": "en"}, OptionError),
        ({"state": None, "questions": URGENT}, StateError),
        ("s", TypeError),
    ],
)
@pytest.mark.parametrize("call", ["predict_batch", "route_batch"])
def test_a_malformed_request_is_refused_first(cold: Cold, call: str, bad: Any, error: type[Exception]) -> None:
    """Before any is routed, let alone loaded."""
    hook = Recorder()
    router = cold(hooks=hook)
    with pytest.raises(error, match=r"requests\[1\]"):
        getattr(router, call)([request("a"), bad])
    assert hook.events == router.loaded == []


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"batch_size": True}, {"min_confidence": -1}])
def test_a_bad_option_is_refused_first(cold: Cold, arguments: dict[str, Any]) -> None:
    """Before any event."""
    hook = Recorder()
    router = cold(hooks=hook)
    with pytest.raises(OptionError):
        router.predict_batch([request("a")], **arguments)
    assert hook.events == router.loaded == []


def test_a_failure_while_routing_ends_no_request(cold: Cold) -> None:
    """None has started: neither on_error nor on_predict_end fires, and nothing is loaded."""
    hook = Recorder()
    router = cold()
    with pytest.raises(ValueError, match="nope"):
        router.predict_batch([request("a"), request("b", model="nope")], hooks=hook)
    assert hook.events == ["on_route"]
    assert router.loaded == []


def test_a_failure_while_loading_ends_no_request_of_that_checkpoint(
    router: Router, agents: dict[str, NotingAgent], tmp_path: Any
) -> None:
    """Those of an earlier checkpoint have ended with their results."""
    broken = Router({"multilingual": tmp_path / "nowhere"}, device="cpu")
    broken.attach("english", agents["english"])
    hook = Recorder()
    with pytest.raises(CheckpointNotFoundError):
        broken.predict_batch([request("a"), request("b", model="ml"), request("c")], hooks=hook)
    assert events_by_state(hook) == [
        *("on_route a", "on_route b", "on_route c"),
        *("on_predict_start a", "on_predict_start c", "on_predict_end c", "on_predict_end a"),
    ]
    assert all(ctx.error is None and ctx.results for ctx in hook.at("on_predict_end"))


def test_a_failing_start_hook_fails_those_that_have_started(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Its own request too; the later ones never start, and an earlier checkpoint's stay finished."""
    failure = RuntimeError("start")
    hook = Recorder(on_predict_start=for_state("c", raising(failure)))
    requests = [request("first", model="ml"), request("a"), request("b"), request("c"), request("d")]
    with pytest.raises(RuntimeError, match="start"):
        router.predict_batch(requests, hooks=hook)
    assert events_by_state(hook)[5:] == [
        *("on_predict_start first", "on_predict_end first"),
        *("on_predict_start a", "on_predict_start b", "on_predict_start c"),
        *("on_error c", "on_predict_end c", "on_error b", "on_predict_end b", "on_error a", "on_predict_end a"),
    ]
    assert hook.at("on_predict_end")[0].error is None
    for ctx in [*hook.at("on_error"), *hook.at("on_predict_end")[1:]]:
        assert (ctx.error, ctx.results, ctx.usage) == (failure, None, None)
    assert agents["english"].calls == []


def test_a_failing_group_fails_every_request_of_its_checkpoint(router: Router, agents: dict[str, NotingAgent]) -> None:
    """The cached one and the one that was inferred already too: the caller gets none of them."""
    failure = RuntimeError("pass")
    agents["english"].fail = lambda states: failure if "c" in states else None
    hook = Recorder(on_predict_start=for_state("b", lambda ctx: ctx.skip([PAYLOAD])))
    requests = [request("a"), request("b"), request("c", TEAM)]
    with pytest.raises(RuntimeError, match="pass"):
        router.predict_batch(requests, hooks=hook)
    assert events_by_state(hook)[6:] == [
        *("on_error c", "on_predict_end c", "on_error b", "on_predict_end b", "on_error a", "on_predict_end a"),
    ]
    ends = {ctx.states[0]: ctx for ctx in hook.at("on_predict_end")}
    assert all(ctx.error is failure and ctx.elapsed_ms is not None for ctx in ends.values())
    assert ends["a"].results is not None
    assert ends["b"].results == [PAYLOAD]
    assert ends["c"].results is None
    assert [ends[state].usage is None for state in "abc"] == [False, False, True]


def test_a_failing_end_hook_ends_all_others(router: Router) -> None:
    """Each ends exactly once; the first failure comes out, and no later checkpoint starts."""
    hook = Recorder(on_predict_end=lambda ctx: raising(RuntimeError(ctx.states[0]))(ctx))
    with pytest.raises(RuntimeError, match=r"^c$"):
        router.predict_batch([request("a"), request("b"), request("c"), request("d", model="ml")], hooks=hook)
    assert events_by_state(hook)[4:] == [
        *("on_predict_start a", "on_predict_start b", "on_predict_start c"),
        *("on_predict_end c", "on_predict_end b", "on_predict_end a"),
    ]
    assert all(ctx.error is None for ctx in hook.at("on_predict_end"))
