"""Many requests at once: routed one by one, answered on shared passes, each a call of its own to hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laya import PredictContext, Router
from tests.integration.router.recording import (
    PAYLOAD,
    TEAM,
    URGENT,
    NotingAgent,
    Recorder,
    events_by_state,
    for_state,
    plain,
    request,
)

Cold = Callable[..., Router]


def batches(agent: NotingAgent) -> list[Any]:
    """The states of each call that an agent got."""
    assert {call for call, *_ in agent.calls} <= {"predict_batch"}
    return [states for _, states, _, _ in agent.calls]


def test_all_are_routed_before_anything_is_loaded(cold: Cold) -> None:
    """Then a checkpoint at a time, by first appearance: load, start in order, end in reverse."""
    hook = Recorder()
    router = cold(max_loaded=1)
    router.load("english")
    requests = [request("a", model="ml"), request("b", model="en"), request("c", model="multi"), request("d")]
    results = router.predict_batch(requests, hooks=hook)
    # A checkpoint is loaded for the first request that needs it.
    assert [ctx.run_id for ctx in hook.at("on_load")] == [results[0]["run_id"], results[1]["run_id"]]
    assert events_by_state(hook) == [
        *("on_route a", "on_route b", "on_route c", "on_route d"),
        *("on_evict english", "on_load multilingual"),
        *("on_predict_start a", "on_predict_start c", "on_predict_end c", "on_predict_end a"),
        *("on_evict multilingual", "on_load english"),
        *("on_predict_start b", "on_predict_start d", "on_predict_end d", "on_predict_end b"),
    ]


def test_each_request_is_a_call_of_its_own(router: Router, agents: dict[str, NotingAgent]) -> None:
    """One run_id from its routing to its end and on its result; the rest as in `predict`."""
    hook = Recorder()
    requests = [request("a"), request("b", max_len=90, head_max_len=50), request("a")]
    results = router.predict_batch(requests, hooks=hook)
    assert len({ctx.run_id for _, ctx in hook.seen}) == len(requests)
    for place, result in enumerate(results):
        mine = [ctx for _, ctx in hook.seen if ctx.run_id == result["run_id"]]
        assert len(mine) == 3
        routed, start, end = mine
        assert routed.agent is routed.model is None
        assert (start.model, start.agent, start.router) == ("english", agents["english"], router)
        assert start.decision == result["routing"]
        assert (start.max_len, start.head_max_len) == ((90, 50) if place == 1 else (None, None))
        assert end.results == [result]
        assert end.usage["input_tokens"] == result["usage"]["input_tokens"]
        assert end.elapsed_ms > 0
    assert len({result["run_id"] for result in results}) == 3


def test_answers_are_those_of_predict_in_input_order(router: Router) -> None:
    """Whatever checkpoint and questions each has."""
    requests = [
        request("Where is my parcel?", TEAM, "english"),
        request("Wo ist mein Paket, bitte?", URGENT, "multilingual"),
        request({"subject": "Refund", "body": "Charged twice"}, {**TEAM, **URGENT}, "typed"),
        request("Cancel my order", URGENT, "english"),
        request("Где мой заказ?", TEAM, None),
        request(["Hello", "Where is it?"], TEAM, "en"),
    ]
    results = router.predict_batch(requests, batch_size=2)
    singles = [router.predict(**each) for each in requests]
    for result, single in zip(results, singles, strict=True):
        assert result["routing"] == single["routing"]
        assert result["usage"] == single["usage"]
        assert list(result["answers"]) == list(single["answers"])
        for mine, other in zip(result["answers"].values(), single["answers"].values(), strict=True):
            assert mine["answer_confidence"] == pytest.approx(other["answer_confidence"], abs=2e-4)
    assert [result["routing"]["model"] for result in results] == [
        *("english", "multilingual", "typed-decisions", "english", "multilingual", "english")
    ]


def test_equal_questions_and_budgets_share_one_call(router: Router, agents: dict[str, NotingAgent]) -> None:
    """The agent is called once a group, with no more than the group needs."""
    copy = {"urgent": dict(URGENT["urgent"])}
    router.predict_batch(
        [
            request("a"),
            request("b", TEAM),
            request("c", copy, "en"),
            request("d", max_len=90),
            request("e", head_max_len=50),
            request("f", max_len=90),
            request("g", lang="de"),
        ],
        batch_size=3,
    )
    assert agents["english"].calls == [
        ("predict_batch", ["a", "c", "g"], URGENT, {"batch_size": 3}),
        ("predict_batch", ["b"], TEAM, {"batch_size": 3}),
        ("predict_batch", ["d", "f"], URGENT, {"batch_size": 3, "max_len": 90}),
        ("predict_batch", ["e"], URGENT, {"batch_size": 3, "head_max_len": 50}),
    ]


def test_questions_in_another_order_are_other_questions(router: Router, agents: dict[str, NotingAgent]) -> None:
    """The answers come in the order of each request's own."""
    results = router.predict_batch([request("a", {**URGENT, **TEAM}), request("b", {**TEAM, **URGENT})])
    assert batches(agents["english"]) == [["a"], ["b"]]
    assert [list(result["answers"]) for result in results] == [["urgent", "team"], ["team", "urgent"]]


def test_a_pinned_alias_shares_the_checkpoints_pass(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Names are resolved before grouping, and contexts have the resolved one."""
    hook = Recorder(on_route=for_state("b", lambda ctx: setattr(ctx, "decision", {"model": "ML"})))
    results = router.predict_batch([request("a", model="multilingual"), request("b", model="english")], hooks=hook)
    assert batches(agents["multilingual"]) == [["a", "b"]]
    assert [ctx.model for ctx in hook.at("on_predict_start")] == ["multilingual"] * 2
    assert results[1]["routing"]["model"] == "multilingual"


def test_a_start_hook_rewrites_its_own_request_only(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Requests are grouped after their start hooks; a hook's budget beats the request's."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.states, ctx.questions, ctx.max_len = ["redacted"], TEAM, 100

    hook = Recorder(on_predict_start=for_state("b", rewrite))
    results = router.predict_batch([request("a"), request("b", max_len=90), request("c")], hooks=hook)
    assert agents["english"].calls == [
        ("predict_batch", ["a", "c"], URGENT, {}),
        ("predict_batch", ["redacted"], TEAM, {"max_len": 100}),
    ]
    assert [list(result["answers"]) for result in results] == [["urgent"], ["team"], ["urgent"]]


def test_a_shared_dict_changed_in_place_changes_for_all(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Also for those whose start hooks ran before, and for the caller."""
    shared = {"urgent": dict(URGENT["urgent"])}
    hook = Recorder(on_predict_start=for_state("b", lambda ctx: ctx.questions.update(TEAM)))
    results = router.predict_batch([request("a", shared), request("b", shared), request("c", shared)], hooks=hook)
    assert [list(result["answers"]) for result in results] == [["urgent", "team"]] * 3
    assert batches(agents["english"]) == [["a", "b", "c"]]
    assert list(shared) == ["urgent", "team"]


def test_a_cache_that_fills_at_the_end_serves_no_twin(router: Router, agents: dict[str, NotingAgent]) -> None:
    """All start hooks of a checkpoint run before its first end hook; the next call is served."""
    cache: dict[Any, Any] = {}

    def look_up(ctx: PredictContext) -> None:
        if ctx.states[0] in cache:
            ctx.skip(cache[ctx.states[0]])

    def fill(ctx: PredictContext) -> None:
        cache[ctx.states[0]] = ctx.results

    hook = Recorder(on_predict_start=look_up, on_predict_end=fill)
    router.predict_batch([request("a"), request("a")], hooks=hook)
    assert batches(agents["english"]) == [["a", "a"]]
    results = router.predict_batch([request("a"), request("b"), request("a")], hooks=hook)
    assert batches(agents["english"]) == [["a", "a"], ["b"]]
    assert results[0]["run_id"] == results[2]["run_id"] != results[1]["run_id"]


def test_skipped_requests_get_routing_and_gate(router: Router, agents: dict[str, NotingAgent]) -> None:
    """On a copy, as in `predict`; a checkpoint of which all are skipped infers nothing."""
    before = repr(PAYLOAD)
    hook = Recorder(on_predict_start=lambda ctx: ctx.skip([PAYLOAD]))
    results = router.predict_batch([request("a"), request("b", model="ml")], min_confidence=0.9, hooks=hook)
    assert [result["routing"]["model"] for result in results] == ["english", "multilingual"]
    assert [result["answers"]["urgent"]["abstention"] for result in results] == ["abstained"] * 2
    assert repr(PAYLOAD) == before
    assert all(agent.calls == [] for agent in agents.values())


def test_routings_are_separate_copies(router: Router) -> None:
    """Changing one result's changes no other's, and no context's."""
    hook = Recorder()
    first, second = router.predict_batch([request("a"), request("b")], hooks=hook)
    first["routing"]["model"] = "changed"
    assert second["routing"]["model"] == "english"
    assert hook.at("on_predict_end")[1].decision["model"] == "english"


def test_no_requests_make_no_events(cold: Cold) -> None:
    """There is nothing to route."""
    hook = Recorder()
    assert cold(hooks=hook).predict_batch([]) == []
    assert hook.events == []


def test_contexts_unwind_in_reverse(router: Router) -> None:
    """What a hook sets at the start and resets at the end, it finds again as it was."""
    from contextvars import ContextVar

    current: ContextVar[str] = ContextVar("current", default="outside")
    tokens: dict[str, Any] = {}

    def end(ctx: PredictContext) -> None:
        assert current.get() == ctx.states[0]
        current.reset(tokens.pop(ctx.run_id))

    hook = Recorder(
        on_predict_start=lambda ctx: tokens.update({ctx.run_id: current.set(ctx.states[0])}), on_predict_end=end
    )
    router.predict_batch([request("a"), request("b", TEAM), request("c")], hooks=hook)
    assert current.get() == "outside"


def test_each_clock_starts_before_its_own_start_hook(router: Router) -> None:
    """The start hooks of the requests before are not part of a request's time."""
    import time

    started: dict[str, float] = {}
    hook = Recorder(on_predict_start=lambda ctx: started.update({ctx.states[0]: time.perf_counter()}))
    router.predict_batch([request("a"), request("b")], hooks=hook)
    first, second = hook.at("on_predict_start")
    assert first.started_at <= started["a"] <= second.started_at <= started["b"]


def test_hooks_may_write_to_every_field(router: Router) -> None:
    """Also one run_id for all: contexts are told apart by themselves."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.run_id, ctx.agent, ctx.decision, ctx.model = "batch-7", None, None, None

    requests = [request("a", lang="de"), request("b", TEAM)]
    results = router.predict_batch(requests, hooks=Recorder(on_predict_start=rewrite))
    assert [result["run_id"] for result in results] == ["batch-7"] * 2
    assert [list(result["answers"]) for result in results] == [["urgent"], ["team"]]
    assert [result["routing"]["model"] for result in results] == ["english"] * 2


def test_an_agents_hooks_and_the_defaults_run_once_a_group(router: Router, agents: dict[str, NotingAgent]) -> None:
    """The agent's own see the group's states, the process-wide ones each request alone."""
    from laya import hooks

    default, own = Recorder(), Recorder()
    hooks.set_default_hooks(default)
    agents["english"].add_hook(own)
    router.predict_batch([request("a"), request("b", TEAM), request("c")])
    assert [ctx.states for ctx in own.at("on_predict_start")] == [["a", "c"], ["b"]]
    assert own.events == ["on_predict_start", "on_predict_end"] * 2
    assert [ctx.states for ctx in default.at("on_predict_start")] == [["a"], ["b"], ["c"]]


def test_an_agents_hook_may_answer_a_whole_group(router: Router, agents: dict[str, NotingAgent]) -> None:
    """Each request gets a copy with its own run_id and routing."""
    agents["english"].add_hook(Recorder(on_predict_start=lambda ctx: ctx.skip([PAYLOAD])))
    first, second = router.predict_batch([request("a"), request("b")])
    assert plain(first) == plain(second) == PAYLOAD
    assert first["run_id"] != second["run_id"]


def test_languages_with_temperatures_of_their_own_are_kept_apart(checkpoints: Any) -> None:
    """Elsewhere `lang` splits no group."""
    temperatures = {"de": {"temperature": [1.0, 1.0, 3.0], "temperature_by_options": {}}}
    agent = NotingAgent(checkpoints / "multilingual", device="cpu", lang_temperatures=temperatures)
    router = Router()
    router.attach("multilingual", agent)
    requests = [request("a", model="ml", lang=lang) for lang in ("de", "fr", None, "de-AT")]
    results = router.predict_batch(requests)
    assert batches(agent) == [["a", "a"], ["a", "a"]]
    confidences = [result["answers"]["urgent"]["answer_confidence"] for result in results]
    assert confidences[0] == confidences[3] != confidences[1] == confidences[2]
    assert confidences == [router.predict(**each)["answers"]["urgent"]["answer_confidence"] for each in requests]
