"""Every way to call laya, with and without the hook: the same runs, the same tokens."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import MessagesState

from laya.hooks import add_default_hook, clear_default_hooks
from laya_integrations.langchain import AnswerParser, CallOptions, LangChainHook, LayaRouter, LayaRunnable, LayaTool
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces
from tests.integration.langchain.scripted import ScriptedModel

TEXT = "My invoice is wrong"
STATES = [f"message number {index} about an invoice" for index in range(8)]
ROUTE = {"instructions": "Which team?", "criteria": {"billing": "invoices", "technical": "crashes"}}
UNREADABLE = {"state": object()}

Runs = dict[tuple[str, str | None], int]
"""How often a run of some name occurs under a run of some name."""


class Totals:
    """laya's own sum of tokens."""

    def __init__(self) -> None:
        self.input_tokens = 0

    def on_predict_end(self, ctx: Any) -> None:
        self.input_tokens += ctx.usage["input_tokens"] if ctx.usage else 0


class Text(TypedDict):
    """A graph's state."""

    text: str


@pytest.fixture(params=[False, True], ids=["bare", "hooked"])
def totals(request: pytest.FixtureRequest) -> Iterator[Totals]:
    """laya's totals of the test, with and without the hook for the whole process."""
    totals = Totals()
    add_default_hook(totals)
    hook = LangChainHook()
    if request.param:
        hook.install()
    yield totals
    hook.uninstall()
    clear_default_hooks()


def own(agent: Any, **options: Any) -> LayaRunnable:
    """The agent with QUESTIONS and some options."""
    return LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(**options))


def edge(agent: Any) -> Any:
    """A graph that a LayaRouter steers."""
    graph = StateGraph(Text)
    graph.add_node("billing", lambda state: {"text": "billing"})
    graph.add_node("technical", lambda state: {"text": "technical"})
    graph.add_conditional_edges(START, LayaRouter(runner=agent, **ROUTE), ["billing", "technical"])
    graph.add_edge("billing", END)
    graph.add_edge("technical", END)
    return graph.compile()


def tooled(agent: Any) -> Any:
    """An agent that asks a LayaTool."""
    triage = LayaTool(runner=agent, questions=QUESTIONS, name="triage", description="Triage a message.")
    return create_agent(ScriptedModel(tool="triage", args={"state": TEXT}), tools=[triage])


async def invoke(agent: Any) -> Runs:
    """One call."""
    await asyncio.to_thread(own(agent).invoke, TEXT)
    return {("LayaRunnable", None): 1}


async def ainvoke(agent: Any) -> Runs:
    """One call, awaited."""
    await own(agent).ainvoke(TEXT)
    return {("LayaRunnable", None): 1}


async def batch(agent: Any) -> Runs:
    """Eight states."""
    await asyncio.to_thread(own(agent).batch, STATES)
    return {("LayaRunnable", None): 8}


async def abatch(agent: Any) -> Runs:
    """Eight states, awaited."""
    await own(agent).abatch(STATES)
    return {("LayaRunnable", None): 8}


async def parallel(agent: Any) -> Runs:
    """Three branches."""
    branches = {name: LayaRunnable(agent, questions={name: question}) for name, question in QUESTIONS.items()}
    await asyncio.to_thread(RunnableParallel(branches).invoke, TEXT)
    return {("RunnableParallel<department,urgent,frustration>", None): 1, ("LayaRunnable", "RunnableParallel"): 3}


async def aparallel(agent: Any) -> Runs:
    """Three branches, awaited."""
    branches = {name: LayaRunnable(agent, questions={name: question}) for name, question in QUESTIONS.items()}
    await RunnableParallel(branches).ainvoke(TEXT)
    return {("RunnableParallel<department,urgent,frustration>", None): 1, ("LayaRunnable", "RunnableParallel"): 3}


async def tool(agent: Any) -> Runs:
    """A tool of an agent."""
    await asyncio.to_thread(tooled(agent).invoke, {"messages": [HumanMessage(TEXT)]})
    return {("LayaRunnable", "triage"): 1, ("triage", "tools"): 1}


async def conditional_edge(agent: Any) -> Runs:
    """A graph's edge."""
    await asyncio.to_thread(edge(agent).invoke, {"text": TEXT})
    return {("LayaDecisionModel", "LayaRouter"): 1}


async def aconditional_edge(agent: Any) -> Runs:
    """A graph's edge, awaited."""
    await edge(agent).ainvoke({"text": TEXT})
    return {("LayaDecisionModel", "LayaRouter"): 1}


async def failing(agent: Any) -> Runs:
    """A call that laya refuses."""
    with pytest.raises(TypeError):
        await asyncio.to_thread(own(agent).invoke, UNREADABLE)
    return {("LayaRunnable", None): 1}


async def cancelled(agent: Any) -> Runs:
    """A call that is given up while laya works."""
    entered, opened, ended = threading.Event(), threading.Event(), threading.Event()

    def hold(ctx: Any) -> None:
        entered.set()
        assert opened.wait(20)
        raise ConnectionError("nobody waits")

    runnable = own(agent, on_predict_start=hold, on_predict_end=lambda ctx: ended.set())
    task = asyncio.create_task(runnable.ainvoke(TEXT))
    await asyncio.to_thread(entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    opened.set()
    await asyncio.to_thread(ended.wait, 20)
    return {("LayaRunnable", None): 1}


async def under_a_timeout(agent: Any) -> Runs:
    """A call whose hooks run in threads, and start a run of their own."""

    def nested(ctx: Any) -> None:
        RunnableLambda(lambda text: text, name="inside").invoke("x")

    await asyncio.to_thread(own(agent, hooks_timeout=20, on_predict_start=nested).invoke, TEXT)
    return {("LayaRunnable", None): 1, ("inside", "LayaRunnable"): 1}


@pytest.mark.parametrize(
    "call",
    [
        *(invoke, ainvoke, batch, abatch, parallel, aparallel, tool, conditional_edge, aconditional_edge),
        *(failing, cancelled, under_a_timeout),
    ],
)
async def test_a_call_leaves_exactly_its_runs(
    call: Callable[[Any], Awaitable[Runs]], agent: Any, totals: Totals, traces: Traces
) -> None:
    """Each under the right run, all closed, and each laya token on one of them."""
    expected = await call(agent)
    found = traces.runs()
    names = {run.id: run.name for run in found}
    counted = Counter((run.name, names[run.parent_id].partition("<")[0] if run.parent_id else None) for run in found)
    ours = ("Laya", "laya", "triage", "inside", "Runnable")
    assert {key: n for key, n in counted.items() if key[0].startswith(ours) and key[0] != "LayaRouter"} == expected
    assert len({run.id for run in found}) == len(found) and all(run.closed for run in found)
    assert all(run.run_type == "llm" for run in found if run.usage)
    usage = traces.usage()
    assert usage == {"input_tokens": totals.input_tokens, "output_tokens": 0, "total_tokens": totals.input_tokens}
    if call in (failing, cancelled):
        assert totals.input_tokens == 0 and all(run.error for run in found)
    else:
        assert totals.input_tokens > 0 and not any(run.error for run in found)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("where", ["edge", "tool", "node"])
async def test_no_classifier_json_is_streamed(agent: Any, totals: Totals, where: str, asynchronous: bool) -> None:
    """`stream_mode="messages"` shows the user what a model says, and nothing of a decision."""
    if where == "edge":
        graph, given = edge(agent), {"text": TEXT}
    elif where == "tool":
        graph, given = tooled(agent), {"messages": [HumanMessage(TEXT)]}
    else:
        chain = own(agent) | AnswerParser("department")
        builder = StateGraph(MessagesState)
        builder.add_node("node", lambda state: chain.invoke(state["messages"]) and {"messages": []})
        builder.add_edge(START, "node")
        graph, given = builder.compile(), {"messages": [HumanMessage(TEXT)]}
    if asynchronous:
        chunks = [chunk async for chunk in graph.astream(given, stream_mode="messages")]
    else:
        chunks = [*graph.stream(given, stream_mode="messages")]
    spoken = [message for message, metadata in chunks if metadata["langgraph_node"] != "tools"]
    assert not any("department" in message.text for message in spoken if "The tool said" not in message.text)
    assert totals.input_tokens > 0


def test_a_raw_message_of_a_node_is_streamed(agent: Any) -> None:
    """Like any message that a node returns: so a graph's state keeps the parsed answers."""
    builder = StateGraph(MessagesState)
    builder.add_node("node", lambda state: {"messages": [own(agent).invoke(state["messages"])]})
    builder.add_edge(START, "node")
    chunks = [*builder.compile().stream({"messages": [HumanMessage(TEXT)]}, stream_mode="messages")]
    assert any("department" in message.text for message, _ in chunks)
