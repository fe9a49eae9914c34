"""What observers see of LlamaIndex programs that decide with laya: whole trees, closed spans, laya's tokens."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms import ChatMessage, MessageRole, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine, RouterQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from laya_integrations.llama_index import (
    CallOptions,
    LayaEvaluator,
    LayaNodePostprocessor,
    LayaQueryGuard,
    LayaSingleSelector,
    LayaTool,
    LlamaIndexHook,
)
from tests.integration.llama_index.conftest import QUESTIONS
from tests.integration.llama_index.recorder import Recording, name_of


class Echo(CustomQueryEngine):
    """Answers with its name."""

    name: str

    def custom_query(self, query_str: str) -> str:
        """The name."""
        return self.name


def routed(agent: Any, **options: Any) -> RouterQueryEngine:
    """Two engines behind a laya selector."""
    tools = [
        QueryEngineTool.from_defaults(Echo(name=name), name=name, description=text)
        for name, text in (("billing", "invoices and refunds"), ("technical", "bugs and outages"))
    ]
    selector = LayaSingleSelector(runner=agent, options=CallOptions(**options))
    return RouterQueryEngine(selector=selector, query_engine_tools=tools, llm=MockLLM())


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """The spans that OpenInference exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = LlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield exporter
    instrumentor.uninstrument()


def test_a_routed_query_shows_the_decision(agent: Any, recorded: Recording, counter: TokenCountingHandler) -> None:
    """Nothing is installed: as with a language model's selector, the call lies under the selection."""
    response = routed(agent).query("My invoice is wrong.")
    [span] = recorded.laya_spans
    assert recorded.path(span) == [
        "RouterQueryEngine.query",
        "RouterQueryEngine._query",
        "LayaSingleSelector._select",
        "LayaAgent.predict",
    ]
    selection = response.metadata["selector_result"].selections[0]
    assert span.tags["laya.run_id"] == selection.run_id == recorded.ends[0].response.raw["id"]
    assert counter.total_llm_token_count == recorded.ends[0].response.raw["usage"]["total_tokens"] > 0
    assert recorded.open_spans == {} and recorded.span_handler.dropped_spans == []


async def test_an_asynchronous_query_shows_the_same(agent: Any, recorded: Recording) -> None:
    """The decision is made in a thread, and still has its parent."""
    await routed(agent).aquery("My invoice is wrong.")
    [span] = recorded.laya_spans
    assert recorded.path(span) == [
        "RouterQueryEngine.aquery",
        "RouterQueryEngine._aquery",
        "LayaSingleSelector._aselect",
        "LayaAgent.predict",
    ]
    assert recorded.open_spans == {}


def test_an_installed_hook_adds_nothing_to_a_class(agent: Any, recorded: Recording) -> None:
    """One call is one span, whoever shows it."""
    LlamaIndexHook().install()
    try:
        routed(agent).query("My invoice is wrong.")
    finally:
        LlamaIndexHook.uninstall()
    assert len(recorded.laya_spans) == len(recorded.ends) == 1


def test_a_postprocessor_in_a_query_engine_shows_one_call(
    agent: Any, recorded: Recording, counter: TokenCountingHandler
) -> None:
    """All nodes are one laya call, between the reranking's events."""
    index = SummaryIndex.from_documents([Document(text=text) for text in ("Invoices.", "Bugs.", "Plans.")])
    engine = index.as_query_engine(
        llm=MockLLM(max_tokens=1), node_postprocessors=[LayaNodePostprocessor(runner=agent, top_n=2)]
    )
    engine.query("Where is my invoice?")
    [span] = recorded.laya_spans
    path = recorded.path(span)
    assert path[0] == "RetrieverQueryEngine.query" and path[-2:] == [
        "LayaNodePostprocessor._postprocess_nodes",
        "LayaAgent.predict",
    ]
    names = [event.class_name() for event in recorded.events]
    inside = names[names.index("ReRankStartEvent") : names.index("ReRankEndEvent")]
    assert inside == ["ReRankStartEvent", "LayaPredictStartEvent", "LayaPredictEndEvent"]
    counted = [event for event in counter.llm_token_counts if "Invoices." in event.prompt and not event.completion]
    assert [event.total_token_count for event in counted] == [recorded.ends[0].response.raw["usage"]["total_tokens"]]
    assert recorded.open_spans == {}


def test_a_manager_of_the_engine_alone_counts_the_postprocessor(
    agent: Any, recorded: Recording, counter: TokenCountingHandler
) -> None:
    """The engine hands its manager on; its handlers get laya's number, and the shared ones nothing of it."""
    own = TokenCountingHandler(tokenizer=str.split)
    index = SummaryIndex.from_documents([Document(text=text) for text in ("Invoices.", "Bugs.")])
    RetrieverQueryEngine(
        index.as_retriever(),
        get_response_synthesizer(llm=MockLLM(max_tokens=1)),
        [LayaNodePostprocessor(runner=agent)],
        callback_manager=CallbackManager([own]),
    ).query("Where is my invoice?")
    counted = [event.total_token_count for event in own.llm_token_counts]
    assert counted == [recorded.ends[0].response.raw["usage"]["total_tokens"]]
    assert all("passage" not in event.prompt for event in counter.llm_token_counts)


async def test_an_agents_tool_call_shows_the_decision(agent: Any, recorded: Recording) -> None:
    """In an AgentWorkflow, laya's call lies under the tool's, and all of the run's spans are closed."""

    def reply(messages: Any, **kwargs: Any) -> ChatMessage:
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role="assistant", content=f"So: {messages[-1].content}")
        call = ToolCallBlock(tool_call_id="1", tool_name="triage", tool_kwargs={"state": "My invoice is wrong."})
        return ChatMessage(role="assistant", blocks=[call])

    tool = LayaTool(runner=agent, questions=QUESTIONS, name="triage", description="Triage a message.")
    llm = MockFunctionCallingLLM(response_generator=reply)
    workflow = AgentWorkflow(agents=[FunctionAgent(name="desk", description="", tools=[tool], llm=llm)])
    result = await workflow.run(user_msg="Help!")
    assert '"department":' in str(result)
    [span] = recorded.laya_spans
    path = recorded.path(span)
    assert path[-2:] == ["LayaTool.acall", "LayaAgent.predict"] and "AgentWorkflow.run" in path
    assert recorded.open_spans == {}


async def test_an_evaluation_is_a_span_of_its_own(agent: Any, recorded: Recording) -> None:
    """LlamaIndex gives evaluators none."""
    evaluator = LayaEvaluator.faithfulness(runner=agent)
    evaluator.evaluate(response="It rains.", contexts=["Rain.", "Sun."])
    await evaluator.aevaluate(response="It rains.", contexts=["Rain."])
    assert [recorded.path(span) for span in recorded.laya_spans] == [
        ["LayaEvaluator.evaluate", "LayaAgent.predict"],
        ["LayaEvaluator.aevaluate", "LayaAgent.predict"],
    ]
    assert recorded.open_spans == {}


def test_fifty_concurrent_queries_leave_a_whole_tree(agent: Any, recorded: Recording) -> None:
    """8 fail and 4 are cancelled while laya works: every call has its own query's span above it, all closed."""
    started, go_on = threading.Semaphore(0), threading.Event()

    def disturb(ctx: Any) -> None:
        if "fail" in ctx.states[0]:
            raise LookupError("this one fails")
        if "cancel" in ctx.states[0]:
            started.release()
            go_on.wait(30)

    engine = routed(agent, on_predict_start=disturb)

    async def run() -> list[Any]:
        cancelled = [asyncio.create_task(engine.aquery(f"cancel {number}")) for number in range(4)]
        for _ in cancelled:
            await asyncio.to_thread(started.acquire)
        texts = [f"fail {number}" for number in range(8)] + [f"query {number}" for number in range(38)]
        others = [asyncio.create_task(engine.aquery(text)) for text in texts]
        for task in cancelled:
            task.cancel()
        for _ in range(20):
            # From one task to the task that it waits for, a cancellation takes a turn of the loop.
            await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*cancelled, *others, return_exceptions=True)

    outcomes = Counter(type(outcome).__name__ for outcome in asyncio.run(run()))
    assert outcomes == {"CancelledError": 4, "LookupError": 8, "Response": 38}
    assert recorded.open_spans == {}
    paths = [
        ["RouterQueryEngine.aquery", "RouterQueryEngine._aquery", "LayaSingleSelector._aselect", "LayaAgent.predict"]
    ]
    assert [recorded.path(span) for span in recorded.laya_spans] == paths * 50
    assert len({span.parent_id for span in recorded.laya_spans}) == 50
    dropped = Counter(map(name_of, recorded.span_handler.dropped_spans))
    # A laya that can't be awaited works in a thread, where a cancelled call comes to its end.
    called_off = 4 if hasattr(agent, "apredict") else 0
    assert dropped["LayaAgent.predict"] == 8 + called_off and dropped["RouterQueryEngine.aquery"] == 12
    assert len(recorded.ends) == 42 - called_off


RERANKED = [NodeWithScore(node=TextNode(text="Invoices are sent monthly."))]


@pytest.mark.parametrize(
    "use",
    [
        lambda agent, options: LayaNodePostprocessor(
            runner=agent, options=options, on_failure="open"
        ).apostprocess_nodes(RERANKED, query_str="Invoices?"),
        lambda agent, options: LayaQueryGuard(
            runner=agent, query_engine=Echo(name="billing"), options=options, on_failure="open"
        ).aquery("words " * 600),
    ],
    ids=["postprocessor", "guard"],
)
def test_a_cancelled_call_is_called_off(agent: Any, recorded: Recording, use: Any) -> None:
    """laya is asked nothing further, and what it was asked ends as dropped where laya itself can be awaited."""
    calls: list[Any] = []
    started, go_on = threading.Event(), threading.Event()

    def hold(ctx: Any) -> None:
        calls.append(ctx)
        started.set()
        go_on.wait(30)

    async def cancel() -> None:
        task = asyncio.create_task(use(agent, CallOptions(on_predict_start=hold)))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        go_on.set()

    asyncio.run(cancel())
    awaited = hasattr(agent, "apredict")
    assert len(calls) == 1 and recorded.open_spans == {}
    [call] = recorded.laya_spans
    assert (call in recorded.span_handler.dropped_spans, recorded.ends == []) == (awaited, awaited)


def test_openinference_shows_layas_tokens(
    agent: Any, exported: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """It understands every event, files the call as a model's, under the selection, and warns of nothing."""
    with caplog.at_level(logging.WARNING):
        response = routed(agent).query("My invoice is wrong.")
        assert LayaTool(runner=agent, questions=QUESTIONS, name="n", description="d").call({1: object()}).is_error
    assert caplog.records == []
    spans = {span.name: span for span in exported.get_finished_spans()}
    done = [span for span in exported.get_finished_spans() if span.name == "LayaAgent.predict"]
    call, failed = done
    assert call.parent.span_id == spans["LayaSingleSelector._select"].context.span_id
    assert call.attributes["openinference.span.kind"] == "LLM" and call.status.is_ok
    assert call.attributes["llm.input_messages.0.message.content"] == "My invoice is wrong."
    counts = [call.attributes[f"llm.token_count.{name}"] for name in ("prompt", "completion", "total")]
    assert counts[0] == counts[2] > 0 and counts[1] == 0
    assert response.metadata["selector_result"].selections
    assert not failed.status.is_ok


def test_openinference_keeps_the_requests_of_a_batch_apart(
    router: Any, exported: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls that overlap in one thread do not become each other's parents."""
    requests = [{"state": state, "questions": QUESTIONS} for state in ("a", "b", "c")]
    with caplog.at_level(logging.WARNING):
        results = router.predict_batch(requests, hooks=LlamaIndexHook())
    spans = exported.get_finished_spans()
    assert [span.parent for span in spans] == [None] * 3 and caplog.records == []
    counted = [span.attributes["llm.token_count.total"] for span in spans]
    assert sorted(counted) == sorted(result["usage"]["input_tokens"] for result in results)
