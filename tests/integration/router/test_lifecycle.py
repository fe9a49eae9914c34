"""What happens, and in which order, when a Router answers one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import Field, create_model

from laya import PredictContext, Router, hooks
from laya.errors import CheckpointNotFoundError, OptionError, StateError
from tests.integration.router.recording import TEAM, URGENT, NotingAgent, Recorder, plain, raising

STATE = "Where is my parcel? It was due on Monday"
PAYLOAD = {"model": "cached", "answers": {"urgent": {"type": "noul", "answer": 0.7, "confidence": 0.7}}}
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


def _failing_guess(state: Any) -> str:
    raise LookupError("guess")


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


def test_a_failing_load_hook_fails_the_call_and_loses_no_event(cold: Cold) -> None:
    """The checkpoint stays, every hook's count of what is in memory adds up, and the next call works."""
    hook = Recorder(on_evict=raising(RuntimeError("evict")), on_load=raising(RuntimeError("load")))
    router = cold(max_loaded=1)
    router.load("multilingual")
    with pytest.raises(RuntimeError, match="evict"):
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


def test_an_inferred_answer_has_the_routing_of_this_call(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Also where the agent's own cache answered with the routing of another."""
    payload = {**PAYLOAD, "routing": {"model": "then"}, "run_id": "then"}
    agents["english"].add_hook(Recorder(on_predict_start=lambda ctx: ctx.skip([payload])))
    hook = Recorder()
    result = router.predict(STATE, URGENT, model="en", hooks=hook)
    assert result["routing"]["model"] == "english"
    assert result["run_id"] == hook.at("on_predict_end")[0].run_id
    assert payload["routing"] == {"model": "then"}


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


def test_of_several_states_the_first_is_answered(router: Router, agents: dict[str, NotingAgent]) -> None:
    """A Router's call is about one state."""
    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "states", ("a", "b")))
    router.predict(STATE, URGENT, model="en", hooks=hook)
    assert [call[1] for call in agents["english"].calls] == ["a"]


@pytest.mark.parametrize("states", [[], "text", {"a": 1}, None])
def test_states_that_are_no_list_are_refused(router: Router, agents: dict[str, NotingAgent], states: Any) -> None:
    """The first letter of a string would be answered otherwise."""
    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "states", states))
    with pytest.raises(StateError, match="states"):
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


def test_questions_may_be_models(router: Router) -> None:
    """Hooks see the dicts that they stand for, before and after a start hook put models there."""
    from laya.questions import Noul

    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "questions", {"late": Noul(instructions="Is it late?")}))
    result = router.predict(STATE, {"urgent": Noul(instructions="In a hurry?")}, model="en", hooks=hook)
    assert hook.at("on_route")[0].questions["urgent"]["type"] == "noul"
    assert hook.at("on_predict_start")[0].questions["urgent"]["type"] == "noul"
    assert list(result["answers"]) == ["late"]


def test_no_questions_are_answered_by_nothing(router: Router) -> None:
    """Start and end hooks run as ever."""
    hook = Recorder()
    result = router.predict(STATE, {}, model="en", hooks=hook)
    assert result["answers"] == {}
    assert result["routing"]["model"] == "english"
    assert hook.at("on_predict_end")[0].usage == {"input_tokens": 0, "output_tokens": 0}
