"""A real agent: every rule of hooks, lifecycle and long states, with a small checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import laya
from laya import Agent, PredictContext, hooks
from laya.errors import HookError, LayaError, OptionError, QuestionError

pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")
NOUL = {"type": "noul", "instructions": "Does the user threaten to leave?"}
SCORE = {"type": "score", "instructions": "How urgent is it?", "criteria": ["not", "soon", "now"]}
CHOICE = {"type": "choice", "instructions": "Who?", "criteria": {"billing": "invoices", "tech": "bugs", "other": None}}
ALL = {"churn": NOUL, "urgency": SCORE, "team": CHOICE}
TEXT = "We were billed twice for March. Please refund the duplicate today or we will cancel our plan."
LONG = " ".join(f"Invoice {index} was paid late and the customer asked about bug {index}." for index in range(40))


class Recorder:
    """Notes the events, and the context as it was."""

    def __init__(self, **steps: Any) -> None:
        self.steps = steps
        self.events: list[str] = []
        self.seen: list[dict[str, Any]] = []

    def _note(self, event: str, ctx: PredictContext) -> None:
        self.events.append(event)
        self.seen.append(dict(vars(ctx)))
        if event in self.steps:
            self.steps[event](ctx)

    def on_predict_start(self, ctx: PredictContext) -> None:
        self._note("start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> None:
        self._note("end", ctx)

    def on_error(self, ctx: PredictContext) -> None:
        self._note("error", ctx)


@pytest.fixture(scope="module")
def loaded(checkpoints: Path) -> Agent:
    """The english checkpoint, once."""
    return Agent(checkpoints / "english", device="cpu")


@pytest.fixture
def agent(loaded: Agent) -> Iterator[Agent]:
    """Without hooks, before and after."""
    yield loaded
    for hook in loaded.hooks:
        loaded.remove_hook(hook)
    hooks.clear_default_hooks()


def answers(results: list[Any]) -> list[Any]:
    """Results without what differs from call to call."""
    return [{key: value for key, value in result.items() if key != "run_id"} for result in results]


def payload(**answer: Any) -> dict[str, Any]:
    """What a cache might hold."""
    return {
        "model": "cached",
        "answers": {"churn": {"type": "noul", "noul": 0.9, "confidence": 0.9, "answer_confidence": 0.9, **answer}},
        "usage": {"input_tokens": 7, "output_tokens": 0},
    }


def test_one_event_runs_on_all_hooks_in_order(agent: Agent) -> None:
    """Defaults, installed, per call; `hooks=` before the callables."""
    order: list[str] = []

    def named(name: str) -> Any:
        return Recorder(start=lambda ctx: order.append(f"{name} start"), end=lambda ctx: order.append(f"{name} end"))

    hooks.set_default_hooks([named("default")])
    agent.add_hook([named("a"), named("b")])
    agent.predict(TEXT, {"churn": NOUL}, hooks=named("call"), on_predict_start=lambda ctx: order.append("fn"))
    names = ["default", "a", "b", "call"]
    assert order == [*(f"{name} start" for name in names), "fn", *(f"{name} end" for name in names)]


def test_the_context_carries_the_call(agent: Agent) -> None:
    """The caller's very objects, the agent and its model; results carry the run id."""
    hook, states, questions = Recorder(), (TEXT, {"a": 1}), {"churn": NOUL}
    results = agent.predict_batch(states, questions, hooks=hook, max_len=150)  # type: ignore[arg-type]
    start, end = hook.seen
    assert start["states"] is states
    assert start["questions"] is questions
    assert (start["agent"], start["router"], start["decision"]) == (agent, None, None)
    assert (start["model"], start["max_len"], start["head_max_len"]) == (agent.model_id, 150, None)
    assert start["run_id"] == end["run_id"] != hook.seen[0]["agent"].predict(TEXT, {})["run_id"]
    assert [result["run_id"] for result in results] == [start["run_id"]] * 2
    assert end["results"] is results
    assert end["usage"] == {
        "input_tokens": sum(result["usage"]["input_tokens"] for result in results),
        "output_tokens": 0,
    }
    assert end["elapsed_ms"] > 0


def test_a_start_hook_rewrites_states_questions_and_budgets(agent: Agent) -> None:
    """Inference sees what is there after all start hooks."""

    def rewrite(ctx: PredictContext) -> None:
        ctx.states = ["one", "two", "three"]
        ctx.questions = {"urgency": laya.Score(instructions="How urgent?", criteria=["a", "b"])}
        ctx.max_len, ctx.head_max_len = 60, 30

    got = agent.predict_batch([LONG], {"churn": NOUL}, on_predict_start=rewrite)
    plain = {"urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["a", "b"]}}
    expected = agent.predict_batch(["one", "two", "three"], plain, max_len=60, head_max_len=30)
    assert answers(got) == answers(expected)
    with pytest.raises(OptionError, match="max_len"):
        agent.predict(TEXT, {"churn": NOUL}, on_predict_start=lambda ctx: setattr(ctx, "max_len", -1))


def test_question_models_are_dicts_to_the_hooks(agent: Agent) -> None:
    """Lowered on entry."""
    hook = Recorder()
    model = {"churn": laya.Noul(instructions=NOUL["instructions"])}
    got = agent.predict(TEXT, model, hooks=hook)
    assert hook.seen[0]["questions"] == {"churn": NOUL}
    assert answers([got]) == answers([agent.predict(TEXT, {"churn": NOUL})])


def test_skip_hands_the_payloads_through(agent: Agent) -> None:
    """The very objects, without a run id; nothing is checked, tokenized or run."""
    cached = [payload(), payload()]
    hook = Recorder(start=lambda ctx: ctx.skip(cached))
    results = agent.predict_batch(["a", None], {"bad": {}}, hooks=hook)  # type: ignore[list-item]
    assert [result is given for result, given in zip(results, cached, strict=True)] == [True, True]
    assert hook.events == ["start", "end"]
    assert hook.seen[1]["usage"] == {"input_tokens": 14, "output_tokens": 0}
    one = agent.predict("a", {"churn": NOUL}, on_predict_start=lambda ctx: ctx.skip(cached[:1]))
    assert one is cached[0]
    assert "run_id" not in one


def test_skip_takes_one_result_a_state_or_one_for_the_call(agent: Agent) -> None:
    """Another number is a ValueError of the hook."""
    states = ["a", "b", "c"]
    one = agent.predict_batch(states, {"churn": NOUL}, on_predict_start=lambda ctx: ctx.skip([payload()]))
    assert one == [payload()]
    for count in (0, 2, 4):
        hook = Recorder(start=lambda ctx, count=count: ctx.skip([payload()] * count))
        with pytest.raises(ValueError, match="skip"):
            agent.predict_batch(states, {"churn": NOUL}, hooks=hook)
        assert hook.events == ["start", "error", "end"]
        assert (hook.seen[-1]["results"], hook.seen[-1]["usage"]) == (None, None)


def test_the_gate_poisons_no_cached_payload(agent: Agent) -> None:
    """End hooks see the gated copy."""
    cached, hook = payload(), Recorder(start=lambda ctx: ctx.skip([cached]))
    result = agent.predict(TEXT, {"churn": NOUL}, hooks=hook, min_confidence=0.95)
    assert cached == payload()
    assert result["answers"]["churn"]["low_confidence"] is True
    assert hook.seen[-1]["results"][0] is result


def test_a_gate_reports_on_every_answer(agent: Agent) -> None:
    """Without one, none of its keys appear."""
    plain = agent.predict(TEXT, ALL)
    gated = agent.predict(TEXT, ALL, min_confidence={"noul:2": 1.0, "default": 0.0})
    for qid, answer in gated["answers"].items():
        assert answer["abstention"] == ("abstained" if qid == "churn" else "passed")
        kept = {k: v for k, v in answer.items() if k not in ("abstention", "abstention_threshold", "low_confidence")}
        assert kept == plain["answers"][qid]


def test_empty_inputs_run_the_hooks_and_nothing_else(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """[] ends with [] and zeros; no questions end with an empty payload a state."""
    zeros = {"input_tokens": 0, "output_tokens": 0}

    def refuse(*args: Any) -> Any:
        raise AssertionError("nothing is tokenized or run")

    engine = agent._open_engine()
    monkeypatch.setattr(engine, "forward", refuse)
    monkeypatch.setattr(engine.tokenizer, "encode", refuse)
    hook = Recorder()
    assert agent.predict_batch([], ALL, hooks=hook) == []
    assert (
        answers(agent.predict_batch(["a", "b"], {}, hooks=hook))
        == [{"model": "laya-rl-agent", "answers": {}, "usage": zeros}] * 2
    )
    assert agent.predict("a", {}, hooks=hook, min_confidence=0.5)["answers"] == {}
    assert hook.events == ["start", "end"] * 3
    assert [seen["usage"] for seen in hook.seen[1::2]] == [zeros] * 3
    assert hook.seen[1]["results"] == []


@pytest.mark.parametrize(
    ("states", "questions", "error"),
    [
        ("abc", ALL, TypeError),
        (None, ALL, TypeError),
        ({"a": 1}, {}, TypeError),
        ([None], ALL, TypeError),
        (["a"], None, TypeError),
        ([], [1], TypeError),
        (["a"], {"q": {"type": "noul"}}, ValueError),
        ([{1}], ALL, TypeError),
    ],
)
def test_bad_input_fails_inside_the_call(agent: Agent, states: Any, questions: Any, error: type[Exception]) -> None:
    """A start hook may have mended it, so that hooks see the failure."""
    hook = Recorder()
    with pytest.raises(error) as caught:
        agent.predict_batch(states, questions, hooks=hook)
    assert hook.events == ["start", "error", "end"]
    assert [seen["error"] for seen in hook.seen] == [None, caught.value, caught.value]
    on_error, end = hook.seen[1:]
    assert (on_error["usage"], on_error["elapsed_ms"]) == (None, None)
    assert (end["results"], end["usage"]) == (None, None)
    assert end["elapsed_ms"] is not None


@pytest.mark.parametrize(
    "option",
    [
        {"hooks": lambda ctx: None},
        {"hooks": Recorder},
        {"hooks": object()},
        {"on_predict_start": 5},
        {"hooks_timeout": 0},
        {"hooks_timeout": True},
        {"min_confidence": 2},
        {"min_confidence": {"bogus": 0.5}},
        {"batch_size": 0},
        {"batch_size": "2"},
        {"lang": 5},
    ],
    ids=lambda option: next(iter(option)),
)
def test_bad_options_fail_before_any_hook(agent: Agent, option: dict[str, Any]) -> None:
    """No event fires."""
    hook = Recorder()
    with agent.hooks_installed(hook), pytest.raises((TypeError, ValueError)):
        agent.predict_batch([TEXT], ALL, **option)
    assert hook.events == []


def test_bad_hooks_fail_before_loading() -> None:
    """The checkpoint isn't even looked for."""
    with pytest.raises(TypeError):
        Agent("/no/such/checkpoint", hooks=lambda ctx: None)
    with pytest.raises(ValueError, match="hooks_timeout"):
        Agent("/no/such/checkpoint", hooks_timeout=-1)


def test_the_first_error_is_raised_and_hook_errors_are_chained(agent: Agent) -> None:
    """on_error, then end, on every hook; no circle."""

    def fail(ctx: PredictContext) -> None:
        raise LookupError("of a hook")

    hook = Recorder(error=fail, end=fail)
    with pytest.raises(QuestionError) as caught:
        agent.predict(TEXT, {"q": {"type": "noul"}}, hooks=hook)
    assert hook.events == ["start", "error", "end"]
    node, seen = caught.value.__context__, [caught.value]
    while node is not None:
        assert all(node is not other for other in seen)
        seen.append(node)  # type: ignore[arg-type]
        node = node.__context__
    assert sum(isinstance(error, LookupError) for error in seen) == 2


def test_a_tracers_failure_fails_no_request(agent: Agent) -> None:
    """hooks_raise=False turns it into a warning, on the call or the instance."""

    def fail(ctx: PredictContext) -> None:
        raise LookupError("tracer")

    with pytest.warns(RuntimeWarning, match="tracer") as caught:
        result = agent.predict(TEXT, {"churn": NOUL}, hooks=Recorder(start=fail, end=fail), hooks_raise=False)
    assert len(caught) == 2
    assert answers([result]) == answers([agent.predict(TEXT, {"churn": NOUL})])


def test_a_hook_over_its_timeout_fails_the_call(agent: Agent) -> None:
    """It runs on; the agent is usable."""
    release = threading.Event()
    hook = Recorder(start=lambda ctx: release.wait(30))
    try:
        with pytest.raises(TimeoutError):
            agent.predict(TEXT, {"churn": NOUL}, hooks=hook, hooks_timeout=0.05)
        assert hook.events == ["start", "error", "end"]
    finally:
        release.set()
    assert agent.predict(TEXT, {"churn": NOUL})["answers"]


@pytest.mark.parametrize("options", [{}, {"hooks_concurrent": False}, {"hooks_concurrent": False, "hooks_timeout": 20}])
def test_a_hook_may_call_the_same_agent(checkpoints: Path, options: dict[str, Any]) -> None:
    """A new call with its own run id, and no deadlock."""
    runs: list[str] = []

    def nested(ctx: PredictContext) -> None:
        runs.append(ctx.run_id)
        if len(runs) == 1:
            inner = ctx.agent.predict("ok", {"churn": NOUL})
            assert inner["run_id"] == runs[1]

    agent = Agent(checkpoints / "bert", device="cpu", on_predict_start=nested, **options)
    began = time.perf_counter()
    outer = agent.predict(TEXT, {"churn": NOUL})
    assert time.perf_counter() - began < 15
    assert outer["run_id"] == runs[0] != runs[1]


def test_hooks_of_a_serial_agent_never_overlap(checkpoints: Path) -> None:
    """hooks_concurrent=False: one hook call at a time, whole predictions interleave."""
    inside, most = 0, 0

    def slow(ctx: PredictContext) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)
        inside -= 1

    agent = Agent(
        checkpoints / "bert", device="cpu", on_predict_start=slow, on_predict_end=slow, hooks_concurrent=False
    )
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: agent.predict(text, {"churn": NOUL}), ["a", "b", "c", "d"] * 3))
    assert most == 1


def test_process_defaults_are_read_at_the_call(agent: Agent) -> None:
    """Set after the agent was built, they still run first."""
    hook = Recorder()
    hooks.set_default_hooks([hook])
    agent.predict(TEXT, {})
    hooks.clear_default_hooks()
    agent.predict(TEXT, {})
    assert hook.events == ["start", "end"]


def test_two_hundred_states_from_sixteen_threads_are_answered_as_one_by_one(checkpoints: Path) -> None:
    """No call sees another's rows."""
    agent = Agent(checkpoints / "bert", device="cpu")
    states = [f"{TEXT} number {index} " + "word " * (index % 40) for index in range(200)]
    alone = answers([agent.predict(state, ALL) for state in states])
    with ThreadPoolExecutor(16) as pool:
        together = answers(list(pool.map(lambda state: agent.predict(state, ALL), states)))
    assert together == alone
    for one, other in zip(alone, answers(agent.predict_batch(states, ALL)), strict=True):
        assert one["usage"] == other["usage"]
        assert one["answers"]["churn"]["noul"] == pytest.approx(other["answers"]["churn"]["noul"], abs=2e-4)


def test_an_interrupt_in_a_batch_leaves_the_agent_usable(checkpoints: Path) -> None:
    """A real SIGINT, in a process of its own."""
    script = textwrap.dedent(
        f"""
        import os, signal, sys, threading, warnings
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background ignores it
        import laya
        agent = laya.load({str(checkpoints / "bert")!r}, device="cpu")
        question = {{"q": {{"type": "noul", "instructions": "Is it?"}}}}
        before = agent.predict("hello", question)["answers"]
        events = []
        class Hook:
            def on_predict_start(self, ctx): threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            def on_error(self, ctx): events.append(type(ctx.error).__name__)
            def on_predict_end(self, ctx): events.append(ctx.results)
        try:
            agent.predict_batch(["word " * 100] * 100_000, question, hooks=Hook())
        except KeyboardInterrupt:
            assert events == ["KeyboardInterrupt", None], events
            assert agent.predict("hello", question)["answers"] == before
            print("usable")
        """
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.stdout.strip() == "usable", done.stderr


def test_a_closed_agent_says_so(checkpoints: Path) -> None:
    """And lets go of its model."""
    with Agent(checkpoints / "bert", device="cpu") as agent:
        agent.predict(TEXT, {"churn": NOUL})
    with pytest.raises(LayaError, match="closed"):
        agent.predict(TEXT, {"churn": NOUL})
    assert "closed" in repr(agent)
    agent.close()


def test_the_repr_helps(agent: Agent, checkpoints: Path) -> None:
    """Where from, on what, how large, which budgets."""
    text = repr(agent)
    for part in (
        str(checkpoints / "english"),
        "cpu",
        "1.1M parameters, float32,",
        "max_len=160",
        "head_max_len=64",
        "hooks=0",
    ):
        assert part in text
    assert (agent.max_len, agent.head_max_len) == (160, 64)


def test_load_is_the_agent(checkpoints: Path) -> None:
    """Same arguments, same answers; a subfolder is found beside a root."""
    hook = Recorder()
    loaded = laya.load(checkpoints, device="cpu", subfolder="bert", hooks=hook)
    assert isinstance(loaded, Agent)
    loaded.predict(TEXT, {"churn": NOUL})
    assert hook.events == ["start", "end"]
    assert "bert" in repr(loaded)


def test_an_unavailable_device_warns_the_caller(checkpoints: Path) -> None:
    """The warning points at the line that asked for it."""
    import torch

    if torch.xpu.is_available():
        pytest.skip("this machine has the device")
    with pytest.warns(RuntimeWarning, match="xpu") as caught:
        agent = Agent(checkpoints / "bert", device="xpu")
    assert agent.device.type != "xpu"
    assert any("xpu" in str(warning.message) for warning in caught)


class Ticket(BaseModel):
    """What a support message asks for."""

    team: Literal["billing", "technical", "other"] = Field(description="Which team should handle this?")
    churn: bool = Field(description="Does the user threaten to leave?")
    urgency: int = Field(ge=1, le=3, description="How urgent is it?")


def test_decide_answers_with_an_instance(agent: Agent) -> None:
    """One, or many in input order."""
    tickets = agent.decide_batch([TEXT, "ok"], Ticket)
    assert [type(ticket) for ticket in tickets] == [Ticket, Ticket]
    assert agent.decide(TEXT, Ticket) == tickets[0]
    assert tickets[0].team in {"billing", "technical", "other"}
    schema = agent.decide(TEXT, Ticket.model_json_schema())
    assert schema == tickets[0].model_dump()


def test_lang_selects_its_temperatures(checkpoints: Path) -> None:
    """A language without its own has the checkpoint's."""
    agent = Agent(checkpoints / "bert", device="cpu", lang_temperatures={"de": {"temperature": [1.0, 1.0, 5.0]}})
    plain = agent.predict(TEXT, {"churn": NOUL})
    assert answers([agent.predict(TEXT, {"churn": NOUL}, lang="fr")]) == answers([plain])
    german = agent.predict(TEXT, {"churn": NOUL}, lang="de-AT")
    assert abs(german["answers"]["churn"]["noul"] - 0.5) < abs(plain["answers"]["churn"]["noul"] - 0.5)
    assert answers([agent.predict_long(TEXT, {"churn": NOUL}, lang="DE")])[0]["answers"] == german["answers"]


def test_a_predict_whose_hook_left_no_result_says_so(agent: Agent) -> None:
    """Rather than fail with an index."""
    for step in ({"start": lambda ctx: setattr(ctx, "states", [])}, {"end": lambda ctx: setattr(ctx, "results", None)}):
        with pytest.raises(HookError, match=r"call about one|one result"):
            agent.predict(TEXT, ALL, hooks=Recorder(**step))


class TestPredictLong:
    """One state of any length."""

    def test_a_state_that_fits_is_answered_as_by_predict(self, agent: Agent) -> None:
        """Plus the count of windows: one."""
        hook = Recorder()
        (long,) = answers([agent.predict_long([TEXT], ALL, hooks=hook)])
        (plain,) = answers([agent.predict([TEXT], ALL)])
        assert long["usage"].pop("windows") == 1
        assert long == plain
        assert hook.seen[0]["states"] == [[TEXT]]
        assert hook.events == ["start", "end"]

    def test_hooks_wrap_the_scan_once(self, agent: Agent) -> None:
        """They see the windows' texts, and the windows' raw results."""
        hook = Recorder()
        result = agent.predict_long(LONG, ALL, window=60, stride=30, hooks=hook)
        start, end = hook.seen
        texts = start["states"]
        assert hook.events == ["start", "end"]
        assert len(texts) == result["usage"]["windows"] == len(end["results"]) > 3
        assert LONG.startswith(texts[0])
        assert LONG.endswith(texts[-1])
        assert all(text in LONG for text in texts)
        assert answers(end["results"]) == answers(agent.predict_batch(texts, ALL))
        assert end["usage"]["input_tokens"] == result["usage"]["input_tokens"]
        assert result["run_id"] == start["run_id"]

    def test_each_answer_names_its_window(self, agent: Agent) -> None:
        """The window's own answer, and where it lies in the state."""
        hook = Recorder()
        result = agent.predict_long(LONG, ALL, window=60, stride=30, hooks=hook)
        each = hook.seen[1]["results"]
        for qid, answer in result["answers"].items():
            window = answer.pop("window")
            assert answer == each[window["index"]]["answers"][qid]
            assert window["token_start"] == 30 * window["index"]
            assert window["token_end"] - window["token_start"] <= 60
            assert window["count"] == len(each)
            key = "noul" if qid == "churn" else "answer_confidence"
            assert answer[key] == max(one["answers"][qid][key] for one in each)

    def test_a_cached_answer_read_no_window(self, agent: Agent) -> None:
        """windows is 0, on a copy; no answer names one."""
        for state in (TEXT, LONG):
            cached = payload()
            got = agent.predict_long(state, {"churn": NOUL}, on_predict_start=lambda ctx, c=cached: ctx.skip([c]))
            assert got["usage"] == {**payload()["usage"], "windows": 0}
            assert got["answers"] == payload()["answers"]
            assert cached == payload()

    @pytest.mark.parametrize("texts", [["a"], ["a", "b", "c"]])
    @pytest.mark.parametrize("state", [TEXT, LONG], ids=["short", "long"])
    def test_a_replaced_scan_counts_what_was_scored(self, agent: Agent, state: str, texts: list[str]) -> None:
        """And claims no offsets."""
        got = agent.predict_long(state, ALL, on_predict_start=lambda ctx: setattr(ctx, "states", texts))
        assert got["usage"]["windows"] == len(texts)
        assert all("window" not in answer for answer in got["answers"].values())

    def test_an_edited_scan_is_a_replaced_one(self, agent: Agent) -> None:
        """In place, too; an equal list is the scan itself."""
        got = agent.predict_long(LONG, ALL, on_predict_start=lambda ctx: ctx.states.reverse())
        assert all("window" not in answer for answer in got["answers"].values())
        got = agent.predict_long(LONG, ALL, on_predict_start=lambda ctx: setattr(ctx, "states", list(ctx.states)))
        assert all("window" in answer for answer in got["answers"].values())

    def test_a_scan_that_was_emptied_has_no_answers(self, agent: Agent) -> None:
        """The caller is warned."""
        with pytest.warns(RuntimeWarning, match="no states"):
            got = agent.predict_long(LONG, ALL, on_predict_start=lambda ctx: setattr(ctx, "states", []))
        assert got["answers"] == {}
        assert got["usage"] == {"input_tokens": 0, "output_tokens": 0, "windows": 0}

    @pytest.mark.parametrize("state", [TEXT, LONG], ids=["short", "long"])
    def test_a_start_hook_may_not_shrink_the_room_below_the_window(self, agent: Agent, state: str) -> None:
        """Part of each window would go unread."""
        hook = Recorder(start=lambda ctx: setattr(ctx, "max_len", 90))
        with pytest.raises(ValueError, match="start hook"):
            agent.predict_long(state, {"churn": NOUL}, hooks=hook)
        assert hook.events == ["start", "error", "end"]
        agent.predict_long(state, {"churn": NOUL}, on_predict_start=lambda ctx: setattr(ctx, "max_len", 200))

    @pytest.mark.parametrize(
        "options",
        [{"aggregate": "max"}, {"stride": 89}, {"window": 20, "stride": 21}, {"window": 2.5}, {"stride": "4"}],
        ids=str,
    )
    def test_bad_scan_options_fail_before_any_hook(self, agent: Agent, options: dict[str, Any]) -> None:
        """On a state of any length."""
        hook = Recorder()
        with pytest.raises(ValueError, match=r"window|stride|aggregate"):
            agent.predict_long("s", ALL, hooks=hook, **options)
        assert hook.events == []

    def test_questions_that_leave_no_room_are_refused(self, agent: Agent) -> None:
        """No window could be read."""
        wide = {"type": "choice", "instructions": "?", "criteria": [f"option number {i}" for i in range(40)]}
        with pytest.raises(ValueError, match="no room"):
            agent.predict_long(LONG, {"q": wide}, max_len=164)

    def test_a_wide_window_warns_the_caller_and_is_capped(self, agent: Agent) -> None:
        """The warning points at this file."""
        with pytest.warns(RuntimeWarning, match="window=500") as caught:
            agent.predict_long(LONG, {"churn": NOUL}, window=500)
        assert [Path(warning.filename).name for warning in caught] == ["test_agent.py"]

    def test_the_gate_judges_the_answers_that_are_returned(self, agent: Agent) -> None:
        """Not those of the windows."""
        hook = Recorder()
        got = agent.predict_long(LONG, ALL, min_confidence=1.0, hooks=hook)
        assert all(answer["low_confidence"] for answer in got["answers"].values())
        assert "abstention" not in json.dumps(hook.seen[1]["results"])
        short = agent.predict_long(TEXT, ALL, min_confidence=1.0)
        assert all(answer["abstention"] == "abstained" for answer in short["answers"].values())

    def test_no_questions_are_asked_of_every_window(self, agent: Agent) -> None:
        """Nothing runs; the windows are counted."""
        got = agent.predict_long(LONG, {})
        assert got["answers"] == {}
        assert got["usage"]["windows"] > 1
        assert got["usage"]["input_tokens"] == 0

    def test_batch_size_changes_no_answer(self, agent: Agent) -> None:
        """It only cuts the passes."""
        one = agent.predict_long(LONG, {"churn": NOUL}, batch_size=1)
        many = agent.predict_long(LONG, {"churn": NOUL}, batch_size=100)
        assert one["usage"] == many["usage"]
        assert one["answers"]["churn"]["noul"] == pytest.approx(many["answers"]["churn"]["noul"], abs=2e-4)


def test_importing_laya_needs_no_torch() -> None:
    """Neither transformers nor a framework: a command line tool starts at once."""
    script = "import sys, laya; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'pydantic')))"
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ)
