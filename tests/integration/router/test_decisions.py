"""Where a Router sends a request, and what its answer says about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import Field, create_model

from laya import Router
from tests.integration.router.recording import PAYLOAD, TEAM, URGENT, NotingAgent, Recorder, plain

STATE = "Where is my parcel? It was due on Monday"
Cold = Callable[..., Router]


def test_the_answer_is_the_agents_with_routing(router: Router, agents: dict[str, NotingAgent]) -> None:
    """And with the run_id of the Router's call; the decision is a plain dict of its own."""
    hook = Recorder()
    result = router.predict(STATE, {**URGENT, **TEAM}, model="en", hooks=hook)
    assert plain(result) == plain(agents["english"].predict(STATE, {**URGENT, **TEAM}))
    assert type(result["routing"]) is dict
    assert set(result["routing"]) == {"model", "repo", "reason", "detection", "workflow"}
    assert result["run_id"] == hook.at("on_predict_end")[0].run_id
    assert result["routing"] is not hook.at("on_predict_end")[0].decision


def test_system_one_is_predict(router: Router) -> None:
    """Both names are the same call."""
    assert Router.system_one is Router.predict
    assert plain(router.system_one(STATE, URGENT)) == plain(router.predict(STATE, URGENT))


def test_routing_alone_loads_nothing(cold: Cold) -> None:
    """on_route fires once a request, and its replacement is what comes back."""
    hook = Recorder()
    router = cold(hooks=hook)
    assert router.route(STATE).model == "english"
    requests = [{"state": text, "questions": URGENT} for text in ("Привет, где мой заказ?", STATE)]
    assert [decision.model for decision in router.route_batch(requests)] == ["multilingual", "english"]
    assert hook.events == ["on_route"] * 3
    assert hook.at("on_route")[0].questions == {}
    assert router.loaded == []
    pin = Recorder(on_route=lambda ctx: setattr(ctx, "decision", {"model": "TYPED"}))
    assert router.route(STATE, hooks=pin).model == "typed-decisions"
    assert [decision.model for decision in router.route_batch(requests, hooks=pin)] == ["typed-decisions"] * 2


def test_routing_knows_a_workflow_that_is_written_as_a_model() -> None:
    """Its field names are the question ids, for `route` as for `predict`."""
    invoice = create_model(
        "Invoice",
        **{
            name: (bool, Field(description=f"Is it {name}?"))
            for name in ("discrepancy_severity", "disposition", "duplicate", "matches_order", "urgency")
        },
    )
    decision = Router(auto_task_detection=True).route(STATE, invoice)
    assert (decision.model, decision["workflow"]) == ("typed-decisions", "invoice_processing")


def test_a_hook_that_replaces_the_decision_is_obeyed(cold: Cold) -> None:
    """Before anything is loaded, by an alias too; what it left out is filled in."""
    pin = Recorder(on_route=lambda ctx: setattr(ctx, "decision", {"model": " ML ", "ticket": 7}))
    router = cold()
    result = router.predict(STATE, URGENT, hooks=pin)
    assert router.loaded == ["multilingual"]
    assert pin.at("on_predict_start")[0].model == "multilingual"
    assert result["routing"]["model"] == "multilingual"
    assert result["routing"]["ticket"] == 7
    assert result["routing"]["repo"].endswith("multilingual")
    assert set(result["routing"]) == {"model", "repo", "reason", "detection", "workflow", "ticket"}


def test_a_decision_changed_in_place_names_the_right_repository(router: Router) -> None:
    """What the hook left of the old checkpoint's place and reason goes; what it wrote itself stays."""
    plain_pin = Recorder(on_route=lambda ctx: ctx.decision.update(model="ml"))
    routing = router.route(STATE, hooks=plain_pin)
    assert routing["repo"].endswith("multilingual")
    assert routing.reason != router.route(STATE).reason
    assert routing["detection"] == router.route(STATE)["detection"]
    own = Recorder(on_route=lambda ctx: ctx.decision.update(model="ml", reason="pinned"))
    assert router.route(STATE, hooks=own).reason == "pinned"


@pytest.mark.parametrize("decision", [None, "english", {}, {"model": None}, {"model": "nope"}, ["english"]])
def test_a_decision_that_names_no_checkpoint_is_refused(cold: Cold, decision: Any) -> None:
    """The call ends with the error, and nothing is loaded."""
    hook = Recorder(on_route=lambda ctx: setattr(ctx, "decision", decision))
    router = cold()
    with pytest.raises(ValueError, match=r"decision|nope"):
        router.predict(STATE, URGENT, hooks=hook)
    assert hook.events == ["on_route", "on_error", "on_predict_end"]
    assert router.loaded == []


def test_states_that_an_on_route_hook_replaces_are_not_used(router: Router, agents: dict[str, NotingAgent]) -> None:
    """It decides on the route; rewriting is for start hooks."""
    hook = Recorder(on_route=lambda ctx: setattr(ctx, "states", ["other"]))
    router.predict(STATE, URGENT, model="en", hooks=hook)
    assert agents["english"].calls[0][1] == STATE


def test_an_inferred_answer_has_the_routing_of_this_call(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Also where the agent's own cache answered with the routing of another."""
    payload = {**PAYLOAD, "routing": {"model": "then"}, "run_id": "then"}
    agents["english"].add_hook(Recorder(on_predict_start=lambda ctx: ctx.skip([payload])))
    hook = Recorder()
    result = router.predict(STATE, URGENT, model="en", hooks=hook)
    assert result["routing"]["model"] == "english"
    assert result["run_id"] == hook.at("on_predict_end")[0].run_id
    assert payload["routing"] == {"model": "then"}
