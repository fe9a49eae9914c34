"""LangChainHook: bare laya calls in the trace around them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config
from langchain_core.tools import tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.graph import END, START, StateGraph

import laya
from laya.hooks import clear_default_hooks, default_hooks
from laya_integrations._decisions import Decisions, RunCapture
from laya_integrations.langchain import CallOptions, LangChainHook, LayaDecisionModel, LayaRunnable
from laya_integrations.langchain._covered import Covering, current_cover
from laya_integrations.langchain.hook import _open
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces

TEXT = "My invoice is wrong"
OTHER = {"urgent": QUESTIONS["urgent"]}
UNREADABLE = {"state": object()}


class Seen:
    """Keeps the contexts of a call."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.contexts.append(ctx)


class Asking:
    """Asks another question about each state, before the call that it is a hook of."""

    def __init__(self, agent: Any, event: str = "on_predict_start") -> None:
        self.agent = agent
        self.run_ids: list[str] = []
        setattr(self, event, self.ask)

    def ask(self, ctx: Any) -> None:
        if ctx.questions != OTHER:
            self.agent.predict(ctx.states[0], OTHER, on_predict_end=lambda own: self.run_ids.append(own.run_id))


class Rewriting:
    """Asks one question in place of those of the call."""

    def on_predict_start(self, ctx: Any) -> None:
        ctx.questions = OTHER


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No call stays open, and no hook installed."""
    yield
    left = [*_open], default_hooks()
    _open.clear()
    clear_default_hooks()
    assert left == ([], [])


@pytest.fixture
def installed() -> Iterator[LangChainHook]:
    """The hook, for every call of the process."""
    hook = LangChainHook().install()
    yield hook
    hook.uninstall()


def in_step(call: Callable[[], Any]) -> Any:
    """Make a call inside a chain's step."""
    return RunnableLambda(lambda _: call(), name="step").invoke("go")


def test_a_bare_call_is_a_run_with_layas_id(agent: Any, traces: Traces) -> None:
    """Its parent is the step around it, and its metadata says what laya did."""
    seen = Seen()
    result = in_step(lambda: agent.predict(TEXT, QUESTIONS, hooks=[LangChainHook(), seen]))
    (ctx,) = seen.contexts
    run = traces.only("laya.predict")
    assert run.id == str(UUID(hex=ctx.run_id)) and run.run_type == "llm" and run.closed and run.error is None
    assert traces.parents() == {"step": {None}, "laya.predict": {"step"}}
    assert run.inputs == {"prompts": [TEXT]}
    tokens = result["usage"]["input_tokens"]
    assert run.usage == {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    assert traces.usage() == run.usage
    assert run.metadata["ls_provider"] == "laya" and run.metadata["ls_model_name"] == result["model"]
    assert run.metadata["laya_model"] == agent.model_id
    assert run.metadata["laya_elapsed_ms"] == ctx.elapsed_ms
    assert run.metadata["laya_confidence"] == {
        question_id: answer["answer_confidence"] for question_id, answer in result["answers"].items()
    }
    assert "laya_truncated" not in run.metadata


def test_a_shortened_state_shows(agent: Any, traces: Traces) -> None:
    """The run says that part of the state was not read."""
    agent.predict(TEXT * 50, QUESTIONS, hooks=LangChainHook(), max_len=64, head_max_len=40)
    assert traces.only("laya.predict").metadata["laya_truncated"] is True


def test_the_usage_callback_counts_a_bare_call_once(agent: Any) -> None:
    """`get_usage_metadata_callback` has laya's own tokens."""
    with get_usage_metadata_callback() as usage:
        result = in_step(lambda: agent.predict(TEXT, QUESTIONS, hooks=LangChainHook()))
    assert usage.usage_metadata[result["model"]]["input_tokens"] == result["usage"]["input_tokens"]


def test_an_agents_batch_is_a_run_a_state(agent: Any, traces: Traces) -> None:
    """Ids follow from the call's, which each run names with its place."""
    seen = Seen()
    states = [f"{TEXT} {index}" for index in range(3)]
    results = in_step(lambda: agent.predict_batch(states, QUESTIONS, hooks=[LangChainHook(), seen]))
    call_id = seen.contexts[0].run_id
    runs = sorted(traces.named("laya.predict"), key=lambda run: run.metadata["laya_batch_index"])
    assert [run.id for run in runs] == [str(uuid5(UUID(hex=call_id), str(place))) for place in range(3)]
    assert [run.inputs["prompts"] for run in runs] == [[state] for state in states]
    assert {run.metadata["laya_run_id"] for run in runs} == {call_id}
    assert [run.usage["input_tokens"] for run in runs] == [result["usage"]["input_tokens"] for result in results]
    assert all(run.closed for run in runs) and traces.parents()["laya.predict"] == {"step"}


def test_a_routers_batch_is_a_run_a_request(router: Any, traces: Traces) -> None:
    """Each has its own laya id, and the checkpoint that the Router chose."""
    requests = [{"state": state, "questions": QUESTIONS} for state in ("My invoice is wrong, please help", "नमस्ते")]
    seen = Seen()
    in_step(lambda: router.predict_batch(requests, hooks=[LangChainHook(), seen]))
    runs = {run.id: run for run in traces.named("laya.predict")}
    assert runs.keys() == {str(UUID(hex=ctx.run_id)) for ctx in seen.contexts}
    models = [runs[str(UUID(hex=ctx.run_id))].metadata["laya_routing_model"] for ctx in seen.contexts]
    assert models == ["english", "multilingual"] and all(run.closed for run in runs.values())


def test_one_payload_for_many_states_counts_once(agent: Any, traces: Traces) -> None:
    """A start hook may answer a whole batch with one result."""
    payload = agent.predict(TEXT, QUESTIONS)
    hooks = [LangChainHook(), type("Cached", (), {"on_predict_start": lambda _, ctx: ctx.skip([payload])})()]
    agent.predict_batch(["a", "b"], QUESTIONS, hooks=hooks)
    runs = traces.named("laya.predict")
    assert len(runs) == 2 and all(run.closed and run.error is None for run in runs)
    assert traces.usage()["input_tokens"] == payload["usage"]["input_tokens"]


def test_a_payload_of_any_shape_closes_the_run(agent: Any, traces: Traces) -> None:
    """A hook's own answer need not look like laya's."""
    hooks = [LangChainHook(), type("Odd", (), {"on_predict_start": lambda _, ctx: ctx.skip([{"odd": 1}])})()]
    agent.predict_batch(["a"], QUESTIONS, hooks=hooks)
    (run,) = traces.runs()
    assert run.closed and run.error is None and run.usage is None


@pytest.mark.parametrize("where", ["agent", "process"])
def test_a_failing_call_closes_its_run_with_the_error(agent: Any, traces: Traces, where: str) -> None:
    """Once, though laya reports the error and the end."""
    hook = LangChainHook()
    if where == "process":
        hook.install()
    with agent.hooks_installed(*([] if where == "process" else [hook])), pytest.raises(TypeError):
        in_step(lambda: agent.predict(UNREADABLE, QUESTIONS))
    hook.uninstall()
    run = traces.only("laya.predict")
    assert run.closed and ("JSON" in run.error or "TypeError" in run.error)
    assert run.usage is None and UUID(run.id).hex == run.metadata["laya_run_id"]


def test_a_call_that_fails_while_routing_has_its_run(router: Any, traces: Traces) -> None:
    """laya reports no start of it."""
    with pytest.raises(ValueError):
        in_step(lambda: router.predict(TEXT, QUESTIONS, model="unknown", hooks=[LangChainHook(), LangChainHook()]))
    run = traces.only("laya.predict")
    assert run.closed and "unknown" in run.error and traces.parents()["laya.predict"] == {"step"}


def test_two_hooks_make_one_run(agent: Any, installed: LangChainHook, traces: Traces) -> None:
    """Per call, on the agent and for the process at once."""
    with agent.hooks_installed(LangChainHook()):
        in_step(lambda: agent.predict(TEXT, QUESTIONS, hooks=LangChainHook()))
    assert len(traces.named("laya.predict")) == 1


@pytest.mark.parametrize("timeout", [None, 20])
@pytest.mark.parametrize("many", [False, True])
def test_a_router_and_its_agent_make_one_run(agent: Any, traces: Traces, timeout: Any, many: bool) -> None:
    """The agent's own hooks run inside the Router's call."""
    router = laya.Router(models={}, device="cpu", default="english", hooks=LangChainHook())
    router.attach("english", agent)
    requests = [{"state": text, "questions": QUESTIONS, "model": "english"} for text in ("a message", "another")]
    with agent.hooks_installed(LangChainHook()):
        if many:
            in_step(lambda: router.predict_batch(requests, hooks_timeout=timeout))
        else:
            in_step(lambda: router.predict(TEXT, QUESTIONS, model="english", hooks_timeout=timeout))
    runs = traces.named("laya.predict")
    assert len(runs) == (2 if many else 1)
    assert all(run.metadata["laya_routing_model"] == "english" for run in runs)


def test_a_long_state_is_one_run_of_a_router(agent: Any, traces: Traces) -> None:
    """The agent sees windows in place of the state, and is still part of the call."""
    router = laya.Router(models={}, device="cpu", default="english", hooks=LangChainHook())
    router.attach("english", agent)
    with agent.hooks_installed(LangChainHook()):
        result = in_step(lambda: router.predict_long("word " * 900, OTHER, model="english"))
    assert result["usage"]["windows"] > 1 and len(traces.named("laya.predict")) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("where", ["call", "agent", "process"])
@pytest.mark.parametrize("timeout", [None, 20])
async def test_a_runnables_call_has_one_run(
    agent: Any, traces: Traces, asynchronous: bool, where: str, timeout: Any
) -> None:
    """The runnable's; the hook adds none, wherever it sits."""
    hook = LangChainHook()
    if where == "process":
        hook.install()
    options = CallOptions(hooks_timeout=timeout, hooks=hook if where == "call" else None)
    runnable = LayaRunnable(agent, questions=QUESTIONS, options=options)
    with agent.hooks_installed(*([hook] if where == "agent" else [])):
        if asynchronous:
            await runnable.ainvoke(TEXT)
            await runnable.abatch(["a", "b"])
        else:
            runnable.invoke(TEXT)
            runnable.batch(["a", "b"])
    hook.uninstall()
    assert [run.name for run in traces.runs()] == ["LayaRunnable"] * 3


@pytest.mark.parametrize("hooked", ["router", "agent", "both"])
def test_a_runnables_call_of_a_router_has_one_run(agent: Any, traces: Traces, hooked: str) -> None:
    """Also where only the Router's agent has the hook."""
    router = laya.Router(models={}, device="cpu", default="english")
    router.attach("english", agent)
    runnable = LayaRunnable(router, questions=QUESTIONS, options=CallOptions(model="english"))
    hooks = [LangChainHook()]
    with (
        router.hooks_installed(*(hooks if hooked != "agent" else [])),
        agent.hooks_installed(*(hooks if hooked != "router" else [])),
    ):
        runnable.invoke(TEXT)
        runnable.batch(["a message", "another"])
        with pytest.raises(ValueError):
            runnable.invoke(TEXT, model="unknown")
    assert [run.name for run in traces.runs()] == ["LayaRunnable"] * 4


def test_a_runner_that_wraps_an_agent_has_one_run(agent: Any, installed: LangChainHook, traces: Traces) -> None:
    """The runnable's run stands for what the wrapper calls."""

    class Wrapper:
        def predict(self, state: Any, questions: Any, **options: Any) -> Any:
            return agent.predict(state, questions, **options)

    LayaRunnable(Wrapper(), questions=QUESTIONS).invoke(TEXT)
    assert [run.name for run in traces.runs()] == ["LayaRunnable"]


@pytest.mark.parametrize("event", ["on_predict_start", "on_predict_end"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("timeout", [None, 20])
def test_a_hooks_own_call_inside_has_a_run(agent: Any, traces: Traces, event: str, first: bool, timeout: Any) -> None:
    """Before or after the bridge in the list: the hook's call is under the runnable, which has no second run."""
    asking = Asking(agent, event)
    hooks = [asking, LangChainHook()] if first else [LangChainHook(), asking]
    with agent.hooks_installed(*hooks):
        LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(hooks_timeout=timeout)).invoke(TEXT)
    assert traces.parents() == {"LayaRunnable": {None}, "laya.predict": {"LayaRunnable"}}
    assert [run.id for run in traces.named("laya.predict")] == [str(UUID(hex=run_id)) for run_id in asking.run_ids]
    assert all(run.closed for run in traces.runs())


def test_a_hook_that_rewrites_the_questions_makes_no_second_run(agent: Any, traces: Traces) -> None:
    """The bridge sees other questions than the runnable asked."""
    with agent.hooks_installed(Rewriting(), LangChainHook()):
        LayaRunnable(agent, questions=QUESTIONS).invoke(TEXT)
        LayaRunnable(agent, questions=QUESTIONS).batch(["a", "b"])
    assert [run.name for run in traces.runs()] == ["LayaRunnable"] * 3


def test_a_branch_may_make_a_bare_call(agent: Any, installed: LangChainHook, traces: Traces) -> None:
    """What runs after a runnable's call is traced like any bare call."""
    (LayaRunnable(agent, questions=QUESTIONS) | (lambda message: agent.predict(message.content, OTHER))).invoke(TEXT)
    assert traces.parents()["laya.predict"] == {"RunnableLambda"}
    assert len(traces.runs()) == 4


async def test_a_bare_call_finds_its_parent_in_threads(agent: Any, installed: LangChainHook, traces: Traces) -> None:
    """Under asyncio, in a thread with the context copied, and under `hooks_timeout`."""

    async def step(_: Any) -> None:
        await asyncio.to_thread(agent.predict, TEXT, QUESTIONS)
        await asyncio.gather(*(asyncio.to_thread(agent.predict, TEXT, OTHER, hooks_timeout=20) for _ in range(2)))
        agent.predict(TEXT, QUESTIONS)

    await RunnableLambda(step, name="step").ainvoke("go")
    assert traces.parents() == {"step": {None}, "laya.predict": {"step"}}
    assert len(traces.named("laya.predict")) == 4 and all(run.closed for run in traces.runs())


@pytest.mark.parametrize("timeout", [None, 20])
async def test_awaited_calls_have_one_run_each(agent: Any, traces: Traces, timeout: Any) -> None:
    """Of an agent and of a Router with a hook on both, side by side on one loop."""
    if not hasattr(agent, "apredict"):
        pytest.skip("this laya has no awaitable calls")
    router = laya.Router(models={}, device="cpu", default="english", hooks=LangChainHook())
    router.attach("english", agent)
    requests = [{"state": text, "questions": QUESTIONS, "model": "english"} for text in ("a message", "another")]

    async def step(_: Any) -> None:
        await asyncio.gather(
            agent.apredict("first", QUESTIONS, hooks_timeout=timeout),
            router.apredict("second", QUESTIONS, model="english", hooks_timeout=timeout),
            router.apredict("third", QUESTIONS, model="english", hooks_timeout=timeout),
            router.apredict_batch(requests, hooks_timeout=timeout),
        )

    with agent.hooks_installed(LangChainHook()):
        await RunnableLambda(step, name="step").ainvoke("go")
    runs = traces.named("laya.predict")
    prompts = sorted(run.inputs["prompts"][0] for run in runs)
    assert prompts == ["a message", "another", "first", "second", "third"]
    assert all(run.closed for run in runs) and traces.parents()["laya.predict"] == {"step"}


def test_tools_and_graph_nodes_are_parents(agent: Any, installed: LangChainHook, traces: Traces) -> None:
    """A bare call lies under the tool or the node that makes it."""

    @tool
    def triage(text: str) -> str:
        """Triage a message."""
        return str(agent.predict(text, OTHER)["answers"])

    graph = StateGraph(dict)
    graph.add_node("node", lambda state: {"urgent": agent.predict(state["text"], OTHER)["answers"]["urgent"]["noul"]})
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    triage.invoke({"text": TEXT})
    chunks = [*graph.compile().stream({"text": TEXT}, stream_mode="messages")]
    assert traces.parents()["laya.predict"] == {"triage", "node"}
    assert chunks == []


async def test_a_cancelled_step_leaves_no_run_open(agent: Any, installed: LangChainHook, traces: Traces) -> None:
    """The step ends at once, laya's run when laya is done."""
    entered, opened, done = threading.Event(), threading.Event(), threading.Event()

    def held(ctx: Any) -> None:
        entered.set()
        assert opened.wait(20)

    def ask() -> None:
        agent.predict(TEXT, OTHER, on_predict_start=held)
        done.set()

    async def step(_: Any) -> None:
        await asyncio.to_thread(ask)

    task = asyncio.create_task(RunnableLambda(step, name="step").ainvoke("go"))
    await asyncio.to_thread(entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    opened.set()
    await asyncio.to_thread(done.wait, 20)
    assert all(run.closed for run in traces.runs())
    assert traces.only("laya.predict").error is None and "Cancelled" in traces.only("step").error


def test_an_overtaken_start_leaves_no_run_open(agent: Any, traces: Traces) -> None:
    """With a time limit the end may come while the start still waits for a slow handler."""

    class Slow(BaseCallbackHandler):
        def on_llm_start(self, *args: Any, **kwargs: Any) -> None:
            assert released.wait(20)

    released = threading.Event()
    collector = RunCollectorCallbackHandler()
    step = RunnableLambda(lambda _: agent.predict(TEXT, OTHER, hooks=LangChainHook(), hooks_timeout=0.2))
    with pytest.raises(TimeoutError):
        step.invoke("go", {"callbacks": [Slow(), collector]})
    released.set()
    for _ in range(200):
        runs = [run for run in traces.named("laya.predict") if run.closed]
        if runs:
            break
        threading.Event().wait(0.05)
    assert len(runs) == 1 and "Timeout" in runs[0].error


def test_loads_and_evictions_are_noted_on_the_run_around(traces: Traces) -> None:
    """They come before laya's own run."""
    names = ("english", "multilingual")
    models = {name: str(CHECKPOINTS / name) for name in names}
    router = laya.Router(models=models, device="cpu", default="english", max_loaded=1, hooks=LangChainHook())
    step = RunnableLambda(lambda _: [router.predict(TEXT, OTHER, model=name) for name in names], name="step")
    load_quietly(partial(step.invoke, "go"))
    assert traces.only("step").metadata["laya_loads"] == ["english", "multilingual"]
    assert traces.only("step").metadata["laya_evictions"] == ["english"]
    assert all("laya_loads" not in run.metadata for run in traces.named("laya.predict"))


def test_installing_twice_is_once(agent: Any) -> None:
    """And uninstalling leaves the other hooks."""
    hook, other = LangChainHook(), LangChainHook()
    assert hook.install().install() is hook
    other.install()
    assert default_hooks() == [hook, other]
    hook.uninstall()
    hook.uninstall()
    assert default_hooks() == [other]
    other.uninstall()


@pytest.mark.parametrize("event", ["on_llm_start", "on_llm_end"])
def test_a_failing_handler_reaches_neither_the_request_nor_other_handlers(
    agent: Any, traces: Traces, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The other handlers' runs are closed, and the failure is in the log."""

    class Failing(BaseCallbackHandler):
        raise_error = True

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space")

    handler = Failing()
    setattr(handler, event, fail)
    step = RunnableLambda(lambda _: agent.predict(TEXT, OTHER, hooks=LangChainHook()), name="step")
    with caplog.at_level(logging.WARNING, "laya_integrations"):
        assert step.invoke("go", {"callbacks": [handler]})["answers"]
    assert traces.only("laya.predict").closed and "no space" in caplog.text


def test_a_broken_trace_never_fails_the_call(
    agent: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong with the bridge is logged."""

    def broken() -> None:
        raise OSError("broken")

    monkeypatch.setattr("laya_integrations.langchain.hook._manager", broken)
    with caplog.at_level(logging.WARNING, "laya_integrations"):
        assert agent.predict(TEXT, OTHER, hooks=LangChainHook(), hooks_raise=True)["answers"]
    assert "could not be traced" in caplog.text


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "batch", "abatch", "batch inside", "abatch inside", "bare"])
@pytest.mark.parametrize("timeout", [None, 20])
async def test_a_laya_hook_reads_the_running_config(agent: Any, how: str, timeout: Any) -> None:
    """`ensure_config()` inside a hook has the tags and metadata of the run that asks."""
    found: list[RunnableConfig] = []

    def read(ctx: Any) -> None:
        found.append(ensure_config())

    options = CallOptions(on_predict_start=read, hooks_timeout=timeout)
    runnable = LayaRunnable(agent, questions=OTHER, options=options)
    config: RunnableConfig = {"tags": ["prod"], "metadata": {"team": "a"}}
    match how:
        case "invoke":
            runnable.invoke(TEXT, config)
        case "ainvoke":
            await runnable.ainvoke(TEXT, config)
        case "batch":
            runnable.batch([TEXT, "b"], config)
        case "abatch":
            await runnable.abatch([TEXT, "b"], [config, {**config, "tags": ["more", "prod"]}])
        case "batch inside":
            RunnableLambda(runnable.batch).invoke([TEXT, "b"], config)
        case "abatch inside":
            await RunnableLambda(runnable.abatch).ainvoke([TEXT, "b"], config)
        case "bare":
            bare = partial(agent.predict, TEXT, OTHER, on_predict_start=read, hooks_timeout=timeout)
            RunnableLambda(lambda _: bare()).invoke(TEXT, config)
    (seen,) = found
    assert seen["tags"] == ["prod"] and seen["metadata"]["team"] == "a"


def test_an_untraced_call_in_a_hook_leaves_the_outer_calls_run_alone(agent: Any) -> None:
    """The run of the call around it stands for that one only, and its tokens count once."""

    class Asks:
        busy = False

        def on_predict_start(self, ctx: Any) -> None:
            if not self.busy:
                self.busy = True
                runnable.invoke("inner", {"callbacks": []})

    runnable = LayaRunnable(agent, questions=OTHER, options=CallOptions(hooks=[Asks(), LangChainHook()]))
    collector, usage = RunCollectorCallbackHandler(), UsageMetadataCallbackHandler()
    message = runnable.invoke(TEXT, {"callbacks": [collector, usage]})
    assert [run.name for run in collector.traced_runs] == ["LayaRunnable"]
    assert [counts["total_tokens"] for counts in usage.usage_metadata.values()] == [
        message.usage_metadata["total_tokens"] if message.usage_metadata else None
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_call_in_a_hook_of_a_batch_lies_beside_its_runs(agent: Any, asynchronous: bool) -> None:
    """Of a decision model's, which got one config for all, as of a runnable's."""
    asking = Asking(agent)
    collector = RunCollectorCallbackHandler()
    config: RunnableConfig = {"callbacks": [collector]}
    requests: Any = [{"state": text, "questions": {"rude": QUESTIONS["urgent"]}} for text in (TEXT, "hello")]
    model = LayaDecisionModel(runner=agent, options=CallOptions(hooks=asking))
    with agent.hooks_installed(LangChainHook()):
        if asynchronous:
            await model.abatch(requests, config)
        else:
            model.batch(requests, config)
    names = sorted(run.name for run in collector.traced_runs)
    assert names == ["LayaDecisionModel", "LayaDecisionModel", "laya.predict"]


def test_a_cover_may_end_in_another_context(agent: Any) -> None:
    """Where a coroutine is closed that nobody awaits any more; the context that it was in is left as it was."""
    covering = Covering(Decisions(agent, OTHER), 1, RunCapture())
    elsewhere = copy_context()
    elsewhere.run(covering.__enter__)
    covering.__exit__()
    assert current_cover() is None is not elsewhere.run(current_cover)
