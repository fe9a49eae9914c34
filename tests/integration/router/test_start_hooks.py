"""What start hooks may do to a request to a Router."""

from __future__ import annotations

from typing import Any

import pytest

from laya import PredictContext, Router
from laya.errors import HookError
from tests.integration.router.recording import PAYLOAD, TEAM, URGENT, NotingAgent, Recorder, plain

STATE = "Where is my parcel? It was due on Monday"


def test_a_skipped_call_gets_its_routing_on_a_copy(router: Router, agents: dict[str, NotingAgent]) -> None:
    """The payload stays as it was, and the agent is not asked; usage and end hooks come as ever."""
    payload = {**PAYLOAD, "usage": {"input_tokens": 3, "output_tokens": 1}}
    before = repr(payload)
    hook = Recorder(on_predict_start=lambda ctx: ctx.skip([payload]))
    result = router.predict(STATE, URGENT, model="en", hooks=hook)
    assert {key: value for key, value in result.items() if key != "routing"} == payload
    assert result["routing"]["model"] == "english"
    assert repr(payload) == before
    assert agents["english"].calls == []
    assert hook.at("on_predict_end")[0].results == [result]
    assert hook.at("on_predict_end")[0].usage == {"input_tokens": 3, "output_tokens": 1}


def test_a_skipped_payload_keeps_a_routing_of_its_own(router: Router) -> None:
    """A cached answer says how it was routed then."""
    payload = {**PAYLOAD, "routing": {"model": "then"}}
    hook = Recorder(on_predict_start=lambda ctx: ctx.skip([payload]))
    assert router.predict(STATE, URGENT, model="en", hooks=hook) == payload


def test_the_gate_is_the_agents(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Marks are those that the agent itself would set, and end hooks see them."""
    hook = Recorder()
    questions = {**URGENT, **TEAM}
    gate = {"noul:2": 1.0, "default": 0.0}
    result = router.predict(STATE, questions, model="en", min_confidence=gate, hooks=hook)
    assert plain(result) == plain(agents["english"].predict(STATE, questions, min_confidence=gate))
    assert result["answers"]["urgent"]["abstention"] == "abstained"
    assert result["answers"]["team"]["abstention"] == "passed"
    assert hook.at("on_predict_end")[0].results == [result]


def test_the_gate_reads_skipped_payloads_too(router: Router) -> None:
    """On a copy: the cached payload may be gated otherwise next time."""
    hook = Recorder(on_predict_start=lambda ctx: ctx.skip([PAYLOAD]))
    before = repr(PAYLOAD)
    result = router.predict(STATE, URGENT, model="en", min_confidence=0.9, hooks=hook)
    assert result["answers"]["urgent"]["low_confidence"] is True
    assert result["routing"]["model"] == "english"
    assert repr(PAYLOAD) == before


def test_a_start_hook_rewrites_the_call(router: Router, agents: dict[str, NotingAgent]) -> None:
    """State, questions and budgets; its budgets beat the call's own."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.states, ctx.questions, ctx.max_len, ctx.head_max_len = ["redacted"], TEAM, 100, 50

    result = router.predict(
        STATE, URGENT, model="en", max_len=140, head_max_len=70, hooks=Recorder(on_predict_start=rewrite)
    )
    assert list(result["answers"]) == ["team"]
    assert agents["english"].calls == [("system_one", "redacted", TEAM, {"max_len": 100, "head_max_len": 50})]


def test_several_states_for_one_are_refused(router: Router, agents: dict[str, NotingAgent]) -> None:
    """All but the first would get lost."""
    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "states", ("a", "b")))
    with pytest.raises(HookError, match="2 states to a call about one"):
        router.predict(STATE, URGENT, model="en", hooks=hook)
    assert agents["english"].calls == []


@pytest.mark.parametrize("states", [[], "text", {"a": 1}, None])
def test_states_that_are_no_list_are_refused(router: Router, agents: dict[str, NotingAgent], states: Any) -> None:
    """The first letter of a string would be answered otherwise."""
    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "states", states))
    with pytest.raises(HookError, match=r"on_predict_start: .* states"):
        router.predict(STATE, URGENT, model="en", hooks=hook)
    assert hook.events[-2:] == ["on_error", "on_predict_end"]
    assert agents["english"].calls == []


def test_hooks_may_write_to_every_field(router: Router) -> None:
    """A run_id of the caller's own is the one that is reported; agent and decision change nothing."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.run_id, ctx.agent, ctx.decision = "request-7", None, None

    result = router.predict(STATE, URGENT, model="en", hooks=Recorder(on_predict_start=rewrite))
    assert result["run_id"] == "request-7"
    assert result["routing"]["model"] == "english"


def test_questions_may_be_models(router: Router) -> None:
    """Hooks see the dicts that they stand for, before and after a start hook put models there."""
    from laya.questions import Noul

    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "questions", {"late": Noul(instructions="Is it late?")}))
    result = router.predict(STATE, {"urgent": Noul(instructions="In a hurry?")}, model="en", hooks=hook)
    assert hook.at("on_route")[0].questions["urgent"]["type"] == "noul"
    assert hook.at("on_predict_start")[0].questions["urgent"]["type"] == "noul"
    assert list(result["answers"]) == ["late"]
