"""What the real LangSmith client reports about laya's runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langsmith import uuid7

from laya_integrations.langchain import AnswerParser, CallOptions, LayaMessage, LayaRunnable
from tests.integration.langchain.conftest import QUESTIONS, Ticket
from tests.integration.langchain.langsmith_server import TracedRun, Traces

STATES = [f"message number {index} about an invoice" for index in range(8)]
UNREADABLE = {"state": object()}
"""A state that laya refuses, because it has no JSON form."""


class Gate:
    """A hook that holds a call until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def on_predict_start(self, ctx: Any) -> None:
        self.entered.set()
        assert self.opened.wait(20)


def check_run(run: TracedRun, message: LayaMessage) -> None:
    """A run of type llm, closed, with laya's usage and run id."""
    assert run.run_type == "llm"
    assert run.closed and run.error is None
    assert run.usage == message.usage_metadata
    assert run.usage["input_tokens"] == message.result["usage"]["input_tokens"] > 0
    assert run.metadata["laya_run_id"] == message.run_id
    assert run.metadata["ls_provider"] == "laya"
    assert run.metadata["ls_model_name"] == message.result["model"]


def usage_of(messages: list[LayaMessage]) -> dict[str, int]:
    """laya's own totals."""
    tokens = {
        key: sum(message.result["usage"][key] for message in messages) for key in ("input_tokens", "output_tokens")
    }
    return {**tokens, "total_tokens": sum(tokens.values())}


def test_invoke_is_one_llm_run(runnable: LayaRunnable, traces: Traces) -> None:
    """One call is one closed root run with laya's usage."""
    message = runnable.invoke("My invoice is wrong")
    (run,) = traces.runs()
    check_run(run, message)
    assert run.parent_id is None and run.name == "LayaRunnable"
    assert traces.usage() == usage_of([message])


async def test_ainvoke_is_one_llm_run(runnable: LayaRunnable, traces: Traces) -> None:
    """The async call leaves the same trace."""
    message = await runnable.ainvoke("My invoice is wrong")
    (run,) = traces.runs()
    check_run(run, message)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_is_one_run_an_item(runnable: LayaRunnable, traces: Traces, asynchronous: bool) -> None:
    """Eight items are eight closed runs that share laya's run id and differ in their index."""
    messages = await runnable.abatch(STATES) if asynchronous else runnable.batch(STATES)
    runs = sorted(traces.runs(), key=lambda run: run.metadata["laya_batch_index"])
    assert len(runs) == 8
    assert [run.metadata["laya_batch_index"] for run in runs] == list(range(8))
    assert [run.inputs for run in runs] == [{"input": state} for state in STATES]
    for run, message in zip(runs, messages, strict=True):
        check_run(run, message)
    assert len({message.run_id for message in messages}) == 1
    assert traces.usage() == usage_of(messages)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_routers_batch_has_a_run_id_an_item(router: Any, traces: Traces, asynchronous: bool) -> None:
    """Each request of a Router has an id of its own, whichever checkpoint answered first."""
    runnable = LayaRunnable(router, questions=QUESTIONS)
    states = ["My invoice is wrong, please help", "नमस्ते दोस्तों, मदद चाहिए", "My invoice is wrong, please help"]
    messages = await runnable.abatch(states) if asynchronous else runnable.batch(states)
    assert len({message.run_id for message in messages}) == 3
    assert {run.metadata["laya_run_id"] for run in traces.runs()} == {m.run_id for m in messages}
    routed = {run.metadata["laya_run_id"]: run.metadata["laya_routing_model"] for run in traces.runs()}
    assert [routed[m.run_id] for m in messages] == ["english", "multilingual", "english"]
    assert [m.response_metadata["routing"]["model"] for m in messages] == [
        "english",
        "multilingual",
        "english",
    ]
    assert traces.usage() == usage_of(messages)


def test_a_failing_call_closes_its_run(runnable: LayaRunnable, traces: Traces) -> None:
    """The run ends with the error, laya's run id and no usage."""
    with pytest.raises(TypeError):
        runnable.invoke(UNREADABLE)
    (run,) = traces.runs()
    assert run.closed and ("TypeError" in run.error or "StateError" in run.error)
    assert run.usage is None
    assert len(run.metadata["laya_run_id"]) == 32


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_call_that_never_reaches_laya_is_traced(
    runnable: LayaRunnable, traces: Traces, asynchronous: bool
) -> None:
    """A model that doesn't load, or an unknown option, is a closed run with the error."""
    absent = LayaRunnable(model="/nowhere/checkpoint", questions=QUESTIONS)
    for failing, error, options in ((absent, OSError, {}), (runnable, TypeError, {"min_confidense": 1})):
        with pytest.raises(error):
            await failing.ainvoke("hi", **options) if asynchronous else failing.invoke("hi", **options)
    runs = traces.runs()
    assert len(runs) == 2 and all(run.closed and run.error and run.usage is None for run in runs)


async def test_a_cancelled_call_closes_its_run(runnable: LayaRunnable, traces: Traces) -> None:
    """The run is closed at once, though laya's thread works on."""
    gate = Gate()
    task = asyncio.create_task(runnable.ainvoke("My invoice is wrong", hooks=gate))
    await asyncio.to_thread(gate.entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = traces.runs()
    gate.opened.set()
    assert run.closed and "Cancelled" in run.error and run.usage is None


async def test_a_cancelled_batch_closes_every_run(runnable: LayaRunnable, traces: Traces) -> None:
    """Cancellation is no item's error, so `return_exceptions` lets it through."""
    gate = Gate()
    task = asyncio.create_task(runnable.abatch(STATES, hooks=gate, return_exceptions=True))
    await asyncio.to_thread(gate.entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    runs = traces.runs()
    gate.opened.set()
    assert len(runs) == 8
    assert all(run.closed and "Cancelled" in run.error for run in runs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failed_item_leaves_the_others_whole(
    runnable: LayaRunnable, traces: Traces, asynchronous: bool
) -> None:
    """With `return_exceptions` only the item at fault fails, and each run is closed once."""
    states = ["first", UNREADABLE, "third"]
    call = runnable.abatch if asynchronous else asyncio.to_thread
    args = (states,) if asynchronous else (runnable.batch, states)
    first, failed, third = await call(*args, return_exceptions=True)
    assert isinstance(failed, TypeError)
    runs = {run.metadata["laya_run_id"]: run for run in traces.runs()}
    assert len(runs) == 3
    check_run(runs[first.run_id], first)
    check_run(runs[third.run_id], third)
    assert sum(run.error is not None for run in runs.values()) == 1
    assert traces.usage() == usage_of([first, third])


def test_a_failed_batch_closes_every_run(runnable: LayaRunnable, traces: Traces) -> None:
    """Without `return_exceptions` one laya call fails as a whole."""
    with pytest.raises(TypeError):
        runnable.batch(["first", UNREADABLE])
    runs = traces.runs()
    assert len(runs) == 2 and all(run.closed and run.error for run in runs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_chain_has_a_run_a_step(runnable: LayaRunnable, traces: Traces, asynchronous: bool) -> None:
    """Prompt, runnable and parser lie under the sequence, with usage on the runnable alone."""
    prompt = ChatPromptTemplate.from_messages([("system", "Triage."), ("user", "{text}")])
    chain = prompt | runnable | AnswerParser(Ticket)
    values = {"text": "My invoice is wrong"}
    ticket = await chain.ainvoke(values) if asynchronous else chain.invoke(values)
    assert isinstance(ticket, Ticket)
    assert traces.parents() == {
        "RunnableSequence": {None},
        "ChatPromptTemplate": {"RunnableSequence"},
        "LayaRunnable": {"RunnableSequence"},
        "AnswerParser": {"RunnableSequence"},
    }
    assert len(traces.runs()) == 4 and all(run.closed for run in traces.runs())
    assert [run.name for run in traces.runs() if run.usage] == ["LayaRunnable"]


def test_parallel_branches_have_a_run_each(agent: Any, traces: Traces) -> None:
    """Three branches are three runs under the parallel step."""
    branches = {
        question_id: LayaRunnable(agent, questions={question_id: question})
        for question_id, question in QUESTIONS.items()
    }
    messages = RunnableParallel(branches).invoke("My invoice is wrong")
    (parallel,) = [run for run in traces.runs() if run.parent_id is None]
    runs = traces.named("LayaRunnable")
    assert len(runs) == 3 and {run.parent_id for run in runs} == {parallel.id}
    by_run_id = {message.run_id: message for message in messages.values()}
    for run in runs:
        check_run(run, by_run_id[run.metadata["laya_run_id"]])
    assert traces.usage() == usage_of(list(messages.values()))


def test_hooks_under_a_timeout_leave_the_trace_whole(agent: Any, traces: Traces) -> None:
    """A hook's thread sees the run of its call, so what it starts lies under it."""

    class Nested:
        def on_predict_start(self, ctx: Any) -> None:
            RunnableLambda(lambda text: text, name="inside").invoke("x")

    options = CallOptions(hooks=Nested(), hooks_timeout=20)
    message = LayaRunnable(agent, questions=QUESTIONS, options=options).invoke("My invoice is wrong")
    assert traces.parents() == {"LayaRunnable": {None}, "inside": {"LayaRunnable"}}
    check_run(traces.only("LayaRunnable"), message)


def test_the_config_shapes_the_run(runnable: LayaRunnable, traces: Traces) -> None:
    """Name, tags, metadata and id of the run come from the caller."""
    run_id = uuid7()
    config = {"run_name": "triage", "tags": ["prod"], "metadata": {"team": "a"}, "run_id": run_id}
    runnable.invoke("My invoice is wrong", config)
    (run,) = traces.runs()
    assert (run.name, run.id, run.fields["tags"]) == ("triage", str(run_id), ["prod"])
    assert run.metadata["team"] == "a"


def test_each_item_has_its_own_config(runnable: LayaRunnable, traces: Traces) -> None:
    """A list of configs gives each item its own."""
    runnable.batch(["one", "two"], [{"run_name": "first"}, {"run_name": "second", "tags": ["b"]}])
    assert traces.only("first").inputs == {"input": "one"}
    assert traces.only("second").fields["tags"] == ["b"]


async def test_core_threads_keep_the_parent_and_raw_threads_lose_it(runnable: LayaRunnable, traces: Traces) -> None:
    """`to_thread` and LangChain's executor carry the context; a bare Thread starts a new trace."""

    async def in_threads(text: str) -> str:
        await asyncio.to_thread(runnable.with_config(run_name="to_thread").invoke, text)
        with ContextThreadPoolExecutor() as pool:
            pool.submit(runnable.with_config(run_name="pool").invoke, text).result()
        thread = threading.Thread(target=runnable.with_config(run_name="raw").invoke, args=(text,))
        thread.start()
        await asyncio.to_thread(thread.join)
        return text

    await RunnableLambda(in_threads, name="step").ainvoke("My invoice is wrong")
    parents = traces.parents()
    assert parents["to_thread"] == parents["pool"] == {"step"}
    assert parents.get("raw", {None}) == {None}


def test_a_retried_call_is_one_run_an_attempt(agent: Any, traces: Traces) -> None:
    """Each attempt has its run, and only the one that answered has usage."""
    attempts = iter([True, False])

    class FailsOnce:
        def on_predict_start(self, ctx: Any) -> None:
            if next(attempts):
                raise ConnectionError("once")

    runnable = LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(hooks=FailsOnce()))
    message = runnable.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke("hi")
    attempts_made = [run for run in traces.runs() if run.run_type == "llm"]
    failed, answered = sorted(attempts_made, key=lambda run: run.error is None)
    assert "ConnectionError" in failed.error and failed.usage is None
    check_run(answered, message)
