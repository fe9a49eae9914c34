"""Long states through a Router."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laya import PredictContext, Router
from tests.integration.router.recording import PAYLOAD, TEAM, URGENT, NotingAgent, Recorder, plain

LONG = " ".join(f"Line {number}: the parcel is late and I need it soon." for number in range(40))
QUESTIONS = {**URGENT, **TEAM}


def test_a_scan_is_the_agents_with_routing(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Options and budgets are handed on."""
    options: dict[str, Any] = {"window": 50, "stride": 30, "batch_size": 2, "max_len": 140, "head_max_len": 60}
    result = router.predict_long(LONG, QUESTIONS, model="en", **options)
    assert agents["english"].calls[0][3] == {**options, "aggregate": "auto"}
    assert plain(result) == plain(agents["english"].predict_long(LONG, QUESTIONS, **options))
    assert result["routing"]["model"] == "english"
    assert result["usage"]["windows"] > 3


def test_router_hooks_see_the_state_and_agent_hooks_the_windows(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Each once; the Router's see the one answer that comes out."""
    outer, inner = Recorder(), Recorder()
    agents["english"].add_hook(inner)
    result = router.predict_long(LONG, QUESTIONS, model="en", hooks=outer)
    assert outer.events == ["on_route", "on_predict_start", "on_predict_end"]
    assert outer.at("on_predict_start")[0].states == [LONG]
    assert outer.at("on_predict_end")[0].results == [result]
    assert result["run_id"] == outer.at("on_predict_end")[0].run_id
    assert inner.events == ["on_predict_start", "on_predict_end"]
    assert len(inner.at("on_predict_start")[0].states) == result["usage"]["windows"] > 1


def test_a_state_that_fits_is_answered_as_by_predict(router: Router) -> None:
    """One window."""
    result = router.predict_long("Where is it?", QUESTIONS, model="en")
    assert result["usage"].pop("windows") == 1
    assert plain(result) == plain(router.predict("Where is it?", QUESTIONS, model="en"))


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"input_tokens": 3, "windows": 9}}])
def test_a_skipped_scan_reads_as_no_window(router: Router, agents: dict[str, NotingAgent], usage: Any) -> None:
    """On a copy of the payload; the agent is not asked."""
    payload = {**PAYLOAD, **usage}
    before = repr(payload)
    hook = Recorder(on_predict_start=lambda ctx: ctx.skip([payload]))
    result = router.predict_long(LONG, URGENT, model="en", hooks=hook)
    assert result["usage"]["windows"] == 0
    assert result["routing"]["model"] == "english"
    assert repr(payload) == before
    assert agents["english"].calls == []


def test_the_gate_is_on_the_answers_that_come_out(router: Router, agents: dict[str, NotingAgent]) -> None:
    """As the agent's own."""
    result = router.predict_long(LONG, QUESTIONS, model="en", min_confidence=0.8)
    assert plain(result) == plain(agents["english"].predict_long(LONG, QUESTIONS, min_confidence=0.8))
    assert all("abstention" in answer for answer in result["answers"].values())


def test_a_start_hook_rewrites_the_scan(router: Router, agents: dict[str, NotingAgent]) -> None:
    """State, questions and budgets, before it is cut into windows."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.states, ctx.questions, ctx.max_len = [LONG[:400]], TEAM, 120

    result = router.predict_long(LONG, URGENT, model="en", hooks=Recorder(on_predict_start=rewrite))
    expected = agents["english"].predict_long(LONG[:400], TEAM, max_len=120)
    assert plain(result) == plain(expected)


@pytest.mark.parametrize("options", [{"aggregate": "max"}, {"aggregate": None}, {"window": 20, "stride": 30}])
def test_a_bad_scan_ends_the_call(router: Router, agents: dict[str, NotingAgent], options: dict[str, Any]) -> None:
    """The Router's hooks see start, error and end; the agent's see nothing."""
    outer, inner = Recorder(), Recorder()
    agents["english"].add_hook(inner)
    with pytest.raises(ValueError, match=r"aggregate|stride"):
        router.predict_long(LONG, URGENT, model="en", hooks=outer, **options)
    assert outer.events == ["on_route", "on_predict_start", "on_error", "on_predict_end"]
    assert inner.events == []


def test_the_events_of_a_cold_scan_come_in_order(cold: Callable[..., Router]) -> None:
    """Routed, loaded, scanned."""
    hook = Recorder()
    cold().predict_long(LONG, URGENT, model="typed", hooks=hook)
    assert hook.events == ["on_route", "on_load typed-decisions", "on_predict_start", "on_predict_end"]
