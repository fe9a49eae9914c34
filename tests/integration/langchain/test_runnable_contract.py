"""LayaRunnable and AnswerParser under everything that LangChain does with a runnable."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, get_usage_metadata_callback
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langsmith import uuid7

from laya_integrations.langchain import AnswerParser, CallOptions, LayaRunnable
from tests.integration.langchain.conftest import QUESTIONS, Ticket
from tests.integration.langchain.langsmith_server import Traces

TEXTS = ["My invoice is wrong", "The app crashes", "Thank you"]
UNREADABLE = {"state": object()}


class Failing:
    """A hook that fails the first calls."""

    def __init__(self, times: int) -> None:
        self.left = times

    def on_predict_start(self, ctx: Any) -> None:
        if self.left:
            self.left -= 1
            raise ConnectionError("not yet")


async def entered(runnable: Any, entry: str) -> list[Any]:  # noqa: PLR0911
    """The outputs for TEXTS by some entry point; one for those that take a single input."""
    match entry:
        case "invoke":
            return [runnable.invoke(TEXTS[0])]
        case "ainvoke":
            return [await runnable.ainvoke(TEXTS[0])]
        case "batch":
            return list(runnable.batch(TEXTS))
        case "abatch":
            return list(await runnable.abatch(TEXTS))
        case "batch_as_completed":
            return [output for _, output in sorted(runnable.batch_as_completed(TEXTS))]
        case "abatch_as_completed":
            return [output for _, output in sorted([item async for item in runnable.abatch_as_completed(TEXTS)])]
        case "stream":
            return [*runnable.stream(TEXTS[0])]
        case "astream":
            return [output async for output in runnable.astream(TEXTS[0])]
        case "transform":
            return [*runnable.transform(iter(TEXTS[:1]))]
        case _:
            events = [event async for event in runnable.astream_events(TEXTS[0], version="v2")]
            return [events[-1]["data"]["output"]]


ENTRIES = [
    *("invoke", "ainvoke", "batch", "abatch", "batch_as_completed", "abatch_as_completed"),
    *("stream", "astream", "transform", "astream_events"),
]


@pytest.mark.parametrize("entry", ENTRIES)
async def test_every_entry_point_is_traced_and_counted(
    runnable: LayaRunnable, traces: Traces, entry: str, agent: Any
) -> None:
    """In a chain: the right answers, a run of type llm for each input under the chain, its tokens once."""
    chain = runnable | AnswerParser(Ticket)
    with get_usage_metadata_callback() as usage:
        tickets = await entered(chain, entry)
    expected = [agent.predict(text, QUESTIONS) for text in TEXTS[: len(tickets)]]
    labels = [result["answers"]["department"]["choice"] for result in expected]
    assert [ticket.department for ticket in tickets] == labels
    runs = traces.named("LayaRunnable")
    assert len(runs) == len(tickets) and all(run.closed and run.run_type == "llm" for run in runs)
    assert traces.parents()["LayaRunnable"] == {"RunnableSequence"}
    tokens = sum(result["usage"]["input_tokens"] for result in expected)
    assert traces.usage()["input_tokens"] == tokens
    assert [found["input_tokens"] for found in usage.usage_metadata.values()] == [tokens]


@pytest.mark.parametrize("entry", ["ainvoke", "abatch", "astream", "invoke", "batch"])
async def test_an_async_handler_is_awaited(runnable: LayaRunnable, entry: str) -> None:
    """Its start and end for each input; on the caller's loop where the call is awaited."""

    class Handler(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.events: list[str] = []
            self.loops: set[Any] = set()

        async def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0)
            self.loops.add(asyncio.get_running_loop())
            self.events.append("start")

        async def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0)
            self.events.append("end")

    handler = Handler()
    outputs = await entered(runnable.with_config(callbacks=[handler]), entry)
    assert sorted(handler.events) == ["end"] * len(outputs) + ["start"] * len(outputs)
    if entry.startswith("a"):
        assert handler.loops == {asyncio.get_running_loop()}


def test_a_runnable_serves_one_loop_after_the_other(runnable: LayaRunnable) -> None:
    """It keeps nothing that is bound to a loop."""
    chain = runnable | AnswerParser("department")
    answers = [asyncio.run(chain.ainvoke(TEXTS[0])) for _ in range(2)]
    answers += asyncio.run(chain.abatch(TEXTS[:1]))
    assert len(set(answers)) == 1


def test_only_the_first_item_has_the_given_run_id(runnable: LayaRunnable, traces: Traces) -> None:
    """A run id stands for one run; the name, the tags and the metadata are for all."""
    run_id = uuid7()
    config: RunnableConfig = {"run_id": run_id, "run_name": "triage", "tags": ["prod"], "metadata": {"team": "a"}}
    with pytest.warns(RuntimeWarning, match="run_id"):
        runnable.batch(TEXTS, config)
    runs = traces.named("triage")
    assert len({run.id for run in runs}) == 3 and str(run_id) in {run.id for run in runs}
    assert all(run.fields["tags"] == ["prod"] and run.metadata["team"] == "a" for run in runs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_retried_batch_comes_back_in_order(agent: Any, asynchronous: bool) -> None:
    """Sync and async, also where the first attempt failed as a whole."""
    runnable = LayaRunnable(agent, questions=QUESTIONS)
    failing = LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(hooks=Failing(3)))
    retrying = failing.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    messages = await retrying.abatch(TEXTS) if asynchronous else retrying.batch(TEXTS)
    assert [m.usage_metadata for m in messages] == [m.usage_metadata for m in runnable.batch(TEXTS)]
    assert [m.result["answers"] for m in messages] == [m.result["answers"] for m in runnable.batch(TEXTS)]


async def test_a_fallback_answers_what_failed(agent: Any, runnable: LayaRunnable) -> None:
    """Awaited, one or many; the items that were answered keep their answer."""
    fallback = RunnableLambda(lambda _: "fallback")
    chain = runnable.with_fallbacks([fallback])
    assert await chain.ainvoke(UNREADABLE) == "fallback"
    answers = await chain.abatch([TEXTS[0], UNREADABLE, TEXTS[2]])
    assert answers[1] == "fallback"
    assert [answers[0].content, answers[2].content] == [m.content for m in runnable.batch([TEXTS[0], TEXTS[2]])]


async def test_fields_and_alternatives_follow_the_config(agent: Any, runnable: LayaRunnable) -> None:
    """Of one call and of each item of a batch."""
    other = LayaRunnable(agent, questions={"urgent": QUESTIONS["urgent"]})
    chosen = runnable.configurable_alternatives(ConfigurableField(id="which"), default_key="all", urgent=other)
    short: RunnableConfig = {"configurable": {"which": "urgent"}}
    assert list((await chosen.ainvoke(TEXTS[0], short)).result["answers"]) == ["urgent"]
    both = chosen.batch(TEXTS[:2], [{}, short])
    assert [len(message.result["answers"]) for message in both] == [3, 1]


def test_the_parser_is_a_runnable_of_its_own(runnable: LayaRunnable, traces: Traces) -> None:
    """Its config shapes its run, a bad message is its item's error, and it pickles in a chain."""
    message = runnable.invoke(TEXTS[0])
    parser = pickle.loads(pickle.dumps(AnswerParser(Ticket)))
    ticket, error = parser.batch([message, "no answers"], {"run_name": "parse"}, return_exceptions=True)
    assert isinstance(ticket, Ticket) and isinstance(error, ValueError)
    runs = traces.named("parse")
    assert len(runs) == 2 and sum(run.error is not None for run in runs) == 1 and all(run.closed for run in runs)
    graph = (runnable | parser).get_graph()
    assert "AnswerParser" in graph.draw_mermaid() and graph.first_node() is not None


def test_usage_without_a_model_name_counts_too() -> None:
    """A runner of one's own may name no model; LangChain's counter drops tokens without one."""

    class Nameless:
        def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
            answer = {"type": "noul", "noul": 0.7, "confidence": 0.7, "answer_confidence": 0.7}
            return {"answers": {"urgent": answer}, "usage": {"input_tokens": 5, "output_tokens": 0}}

    runnable = LayaRunnable(Nameless(), questions={"urgent": QUESTIONS["urgent"]})
    with get_usage_metadata_callback() as usage:
        runnable.invoke("hi")
        runnable.batch(["a", "b"])
    assert {name: tokens["input_tokens"] for name, tokens in usage.usage_metadata.items()} == {"laya": 15}


async def test_tokens_of_a_sync_tool_in_an_executor_count(runnable: LayaRunnable, traces: Traces) -> None:
    """An awaited tool that is a plain function runs in a thread, with the context."""

    @tool
    def triage(text: str) -> str:
        """Triage a message."""
        return str(runnable.invoke(text).content)

    with get_usage_metadata_callback() as usage:
        await triage.ainvoke({"text": TEXTS[0]})
    assert traces.parents() == {"triage": {None}, "LayaRunnable": {"triage"}}
    assert [tokens["input_tokens"] for tokens in usage.usage_metadata.values()] == [traces.usage()["input_tokens"]]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failing_items_hooks_see_its_own_config(
    runnable: LayaRunnable, traces: Traces, asynchronous: bool
) -> None:
    """Items that are asked one by one after a failed batch have their own run around their hooks."""

    def inside(ctx: Any) -> None:
        RunnableLambda(lambda text: text, name="inside").invoke("x")

    call: Callable[..., Awaitable[Any]] = runnable.abatch
    if not asynchronous:
        call = lambda *args, **kwargs: asyncio.to_thread(runnable.batch, *args, **kwargs)  # noqa: E731
    answered, _ = await call([TEXTS[0], UNREADABLE], return_exceptions=True, on_predict_start=inside)
    own = {run.metadata["laya_run_id"]: run.id for run in traces.named("LayaRunnable")}
    parents = [run.parent_id for run in traces.named("inside")]
    assert own[answered.run_id] in parents and UUID(own[answered.run_id])
