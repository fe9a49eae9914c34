"""How runners are asked, whatever kind they are."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import pytest

from laya.hooks import (
    BaseHook,
    HookRegistry,
    PredictContext,
    clear_default_hooks,
    default_hooks,
    dispatch,
    normalise_hooks,
    set_default_hooks,
)
from laya_integrations._decisions import (
    Decision,
    Decisions,
    RunCapture,
    answer_value,
    check_runner,
)
from laya_integrations._options import CallOptions
from laya_integrations._questions import lower_questions

QUESTIONS = {"long": {"type": "noul", "instructions": "Is it long?"}}


def result_for(state: Any, **extra: Any) -> dict[str, Any]:
    """A result whose probability and tokens follow from the state's length."""
    length = len(str(state))
    answer = {"type": "noul", "noul": min(length / 10, 1.0)}
    return {
        "model": "counter",
        "answers": {"long": answer},
        "usage": {"input_tokens": length, "output_tokens": 1},
        **extra,
    }


class OneByOne:
    """A runner that has `predict` alone."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any, dict[str, Any]]] = []

    def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
        self.asked.append((state, questions, options))
        return result_for(state, run_id=f"own-{len(self.asked)}")


class Many(OneByOne):
    """A runner that takes states."""

    def predict_batch(self, states: Any, questions: Any, **options: Any) -> list[dict[str, Any]]:
        self.asked.append((states, questions, options))
        return [result_for(state) for state in states]


class Requests(OneByOne):
    """A runner that takes request dicts."""

    def route_batch(self, requests: Any, **options: Any) -> list[str]:
        return ["english" for _ in requests]

    def predict_batch(self, requests: Any, **options: Any) -> list[dict[str, Any]]:
        self.asked.append((requests, None, options))
        return [result_for(request["state"], run_id=f"own-{i}") for i, request in enumerate(requests)]


class Hooked(HookRegistry):
    """A runner with hooks whose batch has a context per request and ends them in reverse."""

    def __init__(self, payloads: dict[str, dict[str, Any]] | None = None) -> None:
        super().__init__()
        self.payloads = payloads or {}
        self.contexts: list[PredictContext] = []

    def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
        return self.predict_batch([{"state": state, "questions": questions}], **options)[0]

    def route_batch(self, requests: Any, **options: Any) -> list[str]:
        return ["english" for _ in requests]

    def predict_batch(self, requests: Any, **options: Any) -> list[dict[str, Any]]:
        start, end = options.pop("on_predict_start"), options.pop("on_predict_end", None)
        hooks = normalise_hooks(None, start, end)
        self.contexts = [
            PredictContext(states=[r["state"]], questions=r["questions"], run_id=uuid.uuid4().hex) for r in requests
        ]
        for ctx in self.contexts:
            dispatch(hooks, "on_predict_start", ctx)
        for ctx in self.contexts:
            ctx.results = [self.payloads.get(ctx.states[0]) or result_for(ctx.states[0])]
        for ctx in reversed(self.contexts):
            dispatch(hooks, "on_predict_end", ctx)
        return [ctx.results[0] for ctx in self.contexts]


def test_one_state_goes_to_predict_with_the_given_options_alone() -> None:
    """What is unset stays the runner's own default."""
    runner = OneByOne()
    decision = Decisions(runner, QUESTIONS, CallOptions(max_len=64, lang="en", batch_size=4)).one("abc")
    assert runner.asked == [("abc", QUESTIONS, {"max_len": 64, "lang": "en"})]
    assert decision.run_id == "own-1" and decision.batch_index is None


def test_a_runner_without_batches_is_asked_one_by_one() -> None:
    """Each state is a call of its own."""
    runner = OneByOne()
    decisions = Decisions(runner, QUESTIONS).many(["a", "b"])
    assert [state for state, _, _ in runner.asked] == ["a", "b"]
    assert [(d.run_id, d.batch_index) for d in decisions] == [("own-1", None), ("own-2", None)]


def test_states_go_to_one_predict_batch() -> None:
    """One call with the questions, the options and the states in order."""
    runner = Many()
    decisions = Decisions(runner, QUESTIONS, CallOptions(min_confidence=0.5, batch_size=2)).many(("a", "bb"))
    assert runner.asked == [(["a", "bb"], QUESTIONS, {"min_confidence": 0.5, "batch_size": 2})]
    assert [d.usage["input_tokens"] for d in decisions] == [1, 2]
    assert [d.batch_index for d in decisions] == [0, 1]


def test_requests_carry_their_own_options() -> None:
    """What routes or budgets goes into each request, what gates goes to the call."""
    runner = Requests()
    options = CallOptions(model="english", task="t", lang="en", max_len=9, min_confidence=0.5)
    decisions = Decisions(runner, QUESTIONS, options).many(["a", "b"])
    ((requests, _, given),) = runner.asked
    shared = {"questions": QUESTIONS, "model": "english", "task": "t", "lang": "en", "max_len": 9}
    assert requests == [{"state": "a", **shared}, {"state": "b", **shared}]
    assert given == {"min_confidence": 0.5}
    assert [(d.run_id, d.batch_index) for d in decisions] == [("own-0", None), ("own-1", None)]


def test_no_states_ask_nothing() -> None:
    """An empty batch costs no call."""
    runner = Many()
    assert Decisions(runner, QUESTIONS).many([]) == [] and runner.asked == []


def test_the_contexts_id_counts_and_not_the_payloads() -> None:
    """A cached payload may carry an earlier call's id."""
    runner = Hooked({"a": result_for("a", run_id="of an earlier call")})
    assert Decisions(runner, QUESTIONS).one("a").run_id == runner.contexts[0].run_id


def test_each_request_keeps_its_own_run_id() -> None:
    """Also where one payload object answers several requests."""
    shared = result_for("same")
    runner = Hooked({"a": shared})
    decisions = Decisions(runner, QUESTIONS).many(["a", "b", "a", "c"])
    assert [d.run_id for d in decisions] == [ctx.run_id for ctx in runner.contexts]


def test_a_callers_callables_run_before_the_capture() -> None:
    """What they put in place of a result still finds its run id."""

    def replace(ctx: PredictContext) -> None:
        ctx.results = [result_for("replaced")]

    runner = Hooked()
    options = CallOptions(on_predict_end=replace)
    decisions = Decisions(runner, QUESTIONS, options).many(["a", "b"])
    assert [d.run_id for d in decisions] == [ctx.run_id for ctx in runner.contexts]
    assert all(d.usage["input_tokens"] == len("replaced") for d in decisions)


class RunsHooks(HookRegistry):
    """A runner that runs every hook there is."""

    def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
        ctx = PredictContext(states=[state], questions=questions)
        hooks = [*default_hooks(), *self.hooks, *normalise_hooks(options.get("hooks"))]
        hooks += normalise_hooks(None, options.get("on_predict_start"), options.get("on_predict_end"))
        dispatch(hooks, "on_predict_start", ctx)
        ctx.results = ctx.results or [result_for(state, run_id=ctx.run_id)]
        dispatch(hooks, "on_predict_end", ctx)
        self.run_id = ctx.run_id
        return dict(ctx.results[0])


class Cached(BaseHook):
    """Answers with an earlier call's payload."""

    def on_predict_start(self, ctx: PredictContext) -> None:
        ctx.results = [result_for("cached", run_id="earlier")]


@pytest.mark.parametrize("where", ["call", "runner", "process"])
def test_wherever_a_hook_is_it_may_answer_with_an_earlier_id(where: str) -> None:
    """The call's own id counts."""
    runner = RunsHooks()
    runner.add_hook([Cached()] if where == "runner" else [])
    set_default_hooks(Cached() if where == "process" else None)
    try:
        options = CallOptions(hooks=Cached() if where == "call" else None)
        decision = Decisions(runner, QUESTIONS, options).one("a")
    finally:
        clear_default_hooks()
    assert decision.result["run_id"] == "earlier" and decision.run_id == runner.run_id


def test_results_that_tell_their_id_need_no_hook_once_seen() -> None:
    """Of laya's own classes only: another's `predict` may hand laya hooks that nobody sees."""

    class Own(RunsHooks):
        def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
            self.options = options
            return super().predict(state, questions, **options)

    class Others(Own):
        pass

    Own.__module__ = "laya.own"
    for kind, later in ((Own, set()), (Others, {"on_predict_start"})):
        runner = kind()
        for expected in ({"on_predict_start"}, later):
            decision = Decisions(runner, QUESTIONS).one_unhooked("a")
            assert decision.run_id == runner.run_id and runner.options.keys() == expected


def test_a_failed_call_leaves_its_run_id() -> None:
    """The trace of a failure needs it."""

    def fail(ctx: PredictContext) -> None:
        raise OSError("no")

    capture = RunCapture()
    runner = Hooked()
    with pytest.raises(OSError, match="no"):
        Decisions(runner, QUESTIONS, CallOptions(on_predict_end=[fail])).one("a", capture)
    assert capture.run_id == runner.contexts[0].run_id


async def test_async_calls_leave_the_loop_free() -> None:
    """The runner works in another thread."""

    class Where(Many):
        def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
            self.thread = threading.get_ident()
            return super().predict(state, questions, **options)

    runner = Where()
    decisions = Decisions(runner, QUESTIONS)
    one, many = await asyncio.gather(decisions.aone("a"), decisions.amany(["a", "b"]))
    assert one.result["answers"] == many[0].result["answers"] and len(many) == 2
    assert runner.thread != threading.get_ident()


class OnTheLoop:
    """Async calls of a runner's own."""

    predict: Any
    predict_batch: Any

    async def apredict(self, state: Any, questions: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        self.thread = threading.get_ident()
        return self.predict(state, questions, **options)

    async def apredict_batch(self, *args: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        self.thread = threading.get_ident()
        return self.predict_batch(*args, **options)


class Awaited(OnTheLoop, Many):
    """A runner that takes states."""


class AwaitedHooked(OnTheLoop, Hooked):
    """A runner with a context for each request."""


async def test_a_runner_that_can_be_awaited_is() -> None:
    """In place of a thread, with what the blocking call would get."""

    async def never(*args: Any) -> Any:
        raise AssertionError("offloaded")

    runner = Awaited()
    decisions = Decisions(runner, QUESTIONS, CallOptions(max_len=64, batch_size=2))
    one = await decisions.aone("abc", offload=never)
    many = await decisions.amany(["a", "bb"], offload=never)
    assert runner.asked == [
        ("abc", QUESTIONS, {"max_len": 64}),
        (["a", "bb"], QUESTIONS, {"max_len": 64, "batch_size": 2}),
    ]
    assert runner.thread == threading.get_ident()
    assert one.run_id == "own-1" and [d.batch_index for d in many] == [0, 1]


async def test_awaited_calls_find_their_run_ids() -> None:
    """Each of its own, also of a call that fails."""
    runner = AwaitedHooked()
    decisions = await Decisions(runner, QUESTIONS).amany(["a", "b"])
    assert [d.run_id for d in decisions] == [ctx.run_id for ctx in runner.contexts]

    def fail(ctx: PredictContext) -> None:
        raise OSError("no")

    capture = RunCapture()
    with pytest.raises(OSError, match="no"):
        await Decisions(runner, QUESTIONS, CallOptions(on_predict_end=[fail])).aone("a", capture)
    assert capture.run_id == runner.contexts[0].run_id


async def test_awaited_states_without_batches_go_one_by_one() -> None:
    """And no states ask nothing."""
    runner = OneByOne()
    assert len(await Decisions(runner, QUESTIONS).amany(["a", "b"])) == 2
    assert await Decisions(Awaited(), QUESTIONS).amany([]) == []


def test_a_result_is_read_as_values_and_usage() -> None:
    """The total is the sum where the result has none."""
    decision = Decision(result_for("12345"))
    assert decision.values == {"long": True}
    assert decision.usage == {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    assert decision.model_name == "counter"
    assert Decision({"answers": {}}).usage is None and Decision({"answers": {}}).model_name == "laya"


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ({"type": "choice", "choice": "billing"}, "billing"),
        ({"type": "noul", "noul": 0.5}, True),
        ({"type": "noul", "noul": 0.4999}, False),
        ({"type": "score", "score": 0.9, "probabilities": {"0": 0.4, "1": 0.35, "2": 0.25}}, 0),
        ({"type": "score", "score": 1.5, "probabilities": {"10": 0.5, "2": 0.5}}, 2),
        ({"type": "choice", "choice": "billing", "low_confidence": True}, None),
    ],
)
def test_an_answer_has_a_bare_value(answer: dict[str, Any], value: Any) -> None:
    """Label, truth from 0.5 on, the most probable level, None below the gate."""
    assert answer_value(answer) == value and type(answer_value(answer)) is type(value)


@pytest.mark.parametrize("levels", [{"0": 0.4, "1": 0.4}, {"10": 0.5, "2": 0.5}, {"0": 0.1, "1": 0.9}])
@pytest.mark.parametrize("low", [True, False])
def test_values_follow_the_rule_of_decide(levels: dict[str, float], low: bool) -> None:
    """laya's own `answer_value` gives the same."""
    decided = pytest.importorskip("laya.questions").answer_value
    for answer in (
        {"type": "choice", "choice": "billing", "low_confidence": low},
        {"type": "noul", "noul": levels.get("0", 0.5), "low_confidence": low},
        {"type": "score", "score": 1.0, "probabilities": levels, "low_confidence": low},
    ):
        assert answer_value(answer) == decided(answer)


@pytest.mark.parametrize(
    "answer", [{}, {"type": "box"}, {"type": "choice"}, {"type": "score", "probabilities": {}}, True, None]
)
def test_what_is_no_answer_has_no_value(answer: Any) -> None:
    """A hook's payload may be anything."""
    with pytest.raises(ValueError, match="answer"):
        answer_value(answer)


@pytest.mark.parametrize("payload", [None, "text", {}, {"answers": 3}])
def test_what_is_no_result_is_refused(payload: Any) -> None:
    """The runner or the hook at fault is pointed at."""

    class Odd(OneByOne):
        def predict(self, state: Any, questions: Any, **options: Any) -> Any:
            return payload

    with pytest.raises(TypeError, match="'answers'"):
        Decisions(Odd(), QUESTIONS).one("a")


def test_a_batch_of_another_length_is_refused() -> None:
    """Answers must not be given to the wrong states."""

    class Short(Many):
        def predict_batch(self, states: Any, questions: Any, **options: Any) -> list[dict[str, Any]]:
            return super().predict_batch(states, questions, **options)[1:]

    with pytest.raises(RuntimeError, match="1 results for 2 states"):
        Decisions(Short(), QUESTIONS).many(["a", "b"])


def test_options_are_replaced_by_name() -> None:
    """An unknown name is refused with the names that there are."""
    options = CallOptions(max_len=64)
    assert options.replaced(lang="en") == CallOptions(max_len=64, lang="en")
    assert options.replaced(max_len=None).given() == {}
    with pytest.raises(TypeError, match=r"'max_length'.*max_len"):
        options.replaced(max_length=3)


@pytest.mark.parametrize("runner", [None, 3, "english", OneByOne])
def test_what_has_no_predict_is_no_runner(runner: Any) -> None:
    """Nor is a class in place of its instance."""
    with pytest.raises(TypeError, match="runner must have laya's predict"):
        check_runner(runner)


def test_a_name_in_a_runners_place_is_pointed_to_model() -> None:
    """A checkpoint's name is model=, not runner=."""
    with pytest.raises(TypeError, match=r"got str; model= takes"):
        check_runner("laya-mini")


def test_question_objects_are_lowered_and_dicts_kept() -> None:
    """A set of dicts stays the same object; an object gives its own dict."""

    class Asked:
        def to_question(self) -> dict[str, Any]:
            return QUESTIONS["long"]

    assert lower_questions(QUESTIONS) is QUESTIONS
    assert lower_questions({"long": Asked(), "other": QUESTIONS["long"]}) == {
        "long": QUESTIONS["long"],
        "other": QUESTIONS["long"],
    }


@pytest.mark.parametrize("questions", [3, ["long"], {"long": 3}, {"long": "Is it long?"}, int])
def test_what_is_no_question_set_is_refused(questions: Any) -> None:
    """With the id at fault, where there is one."""
    with pytest.raises(TypeError, match="question"):
        lower_questions(questions)
