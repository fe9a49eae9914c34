"""LayaToolSelectorMiddleware in a real agent."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from laya_integrations._decisions import Decisions
from laya_integrations.langchain import CallOptions, LayaRunnable, LayaToolSelectorMiddleware, state_of
from laya_integrations.langchain._deadline import TimedDecisions
from laya_integrations.langchain.tool_selector import INSTRUCTIONS
from tests.integration.langchain.langsmith_server import Traces
from tests.integration.langchain.played import PlayedModel

TEXT = "My invoice is wrong, I want my money back"
NAMES = ["refund", "weather", "invoice", "search", "restart", "translate"]
TOOLS = [
    StructuredTool.from_function(lambda what: "done", name=name, description=f"Do {name} for the customer.")
    for name in NAMES
]

BOTH = pytest.mark.parametrize("asynchronous", [False, True])


class Calls:
    """A hook that keeps each call's questions and states."""

    def __init__(self) -> None:
        self.questions: list[Any] = []
        self.states: list[Any] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.questions.append(ctx.questions)
        self.states.extend(ctx.states)


def make_agent(agent: Any, *replies: AIMessage, **fields: Any) -> tuple[Any, PlayedModel]:
    """An agent with all tools, and its model."""
    checkpointer = fields.pop("checkpointer", None)
    tools = fields.pop("tools", TOOLS)
    model = PlayedModel(replies=list(replies) or [AIMessage("done")])
    middleware = LayaToolSelectorMiddleware(**{"runner": agent, **fields})
    return create_agent(model, tools=tools, middleware=[middleware], checkpointer=checkpointer), model


async def ask(graph: Any, asynchronous: bool) -> Any:
    """The agent's answer to TEXT."""
    given: Any = {"messages": [HumanMessage(TEXT)]}
    return await graph.ainvoke(given) if asynchronous else graph.invoke(given)


def best(agent: Any, count: int, names: list[str] = NAMES) -> list[str]:
    """The tools that laya finds needed most for TEXT, in the tools' order."""
    asked = {
        name: {"type": "noul", "instructions": f"{INSTRUCTIONS}\n{name}: Do {name} for the customer."} for name in names
    }
    answers = agent.predict(state_of([HumanMessage(TEXT)]), asked)["answers"]
    ranked = sorted(names, key=lambda name: answers[name]["noul"], reverse=True)
    return [name for name in names if name in ranked[:count]]


@BOTH
async def test_the_tools_that_fit_are_kept(agent: Any, asynchronous: bool) -> None:
    """In their order, decided in one laya call over the whole conversation before each model call."""
    calls = Calls()
    call = AIMessage("", tool_calls=[{"name": best(agent, 2)[0], "args": {"what": "x"}, "id": "c"}])
    graph, model = make_agent(agent, call, AIMessage("done"), max_tools=2, options=CallOptions(hooks=calls))
    answered = await ask(graph, asynchronous)
    assert model.tools[0] == best(agent, 2) != NAMES[:2] and len(model.tools) == 2 == len(model.tools[1])
    assert [len(questions) for questions in calls.questions] == [len(NAMES)] * 2
    assert calls.states == [state_of(answered["messages"][:1]), state_of(answered["messages"][:3])]


@BOTH
async def test_some_tools_stay_beside_the_selected(agent: Any, asynchronous: bool) -> None:
    """`always_include` and a provider's own tools don't count, and are not asked about."""
    calls = Calls()
    own = {"type": "web_search", "name": "web_search"}
    fields = {"always_include": ["weather", "web_search"], "tools": [*TOOLS, own], "options": CallOptions(hooks=calls)}
    graph, model = make_agent(agent, max_tools=2, **fields)
    await ask(graph, asynchronous)
    others = [name for name in NAMES if name != "weather"]
    kept = {"weather", *best(agent, 2, others)}
    assert model.tools == [[*(name for name in NAMES if name in kept), "web_search"]]
    assert len(calls.questions[0]) == len(others)


@BOTH
async def test_a_name_that_no_tool_has_is_a_warning(agent: Any, asynchronous: bool) -> None:
    """Once: the tool that was meant would be missing without a word."""
    graph, _ = make_agent(agent, max_tools=2, always_include=["wheather"])
    with pytest.warns(RuntimeWarning, match="always_include names 'wheather', .* tools are: invoice, .*weather"):
        await ask(graph, asynchronous)
    await ask(graph, asynchronous)


@BOTH
async def test_few_tools_are_not_judged(agent: Any, asynchronous: bool) -> None:
    """Where all may stay, laya is not asked."""
    calls = Calls()
    graph, model = make_agent(agent, max_tools=len(NAMES), options=CallOptions(hooks=calls))
    await ask(graph, asynchronous)
    assert model.tools == [NAMES] and calls.questions == []


@BOTH
@pytest.mark.parametrize("failure", ["error", "late", "answer"])
async def test_a_failure_leaves_all_tools(
    agent: Any, failure: str, asynchronous: bool, traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent goes on, the log says why without the text, and the run of the call is closed."""
    opened = threading.Event()

    class Failing:
        def on_predict_start(self, ctx: Any) -> None:
            if failure == "answer":
                ctx.skip([{"model": "laya", "answers": {}, "usage": {}}])
            elif failure == "error":
                raise ConnectionError(f"no answer for {ctx.states}")
            else:
                assert opened.wait(20)

    timeout = 0.2 if failure == "late" else 20.0
    graph, model = make_agent(agent, max_tools=2, timeout=timeout, options=CallOptions(hooks=Failing()))
    with caplog.at_level(logging.WARNING):
        answered = await ask(graph, asynchronous)
    opened.set()
    assert model.tools == [NAMES] and answered["messages"][-1].text == "done"
    name = {"error": "ConnectionError", "late": "TimeoutError", "answer": "KeyError"}[failure]
    assert f"could not be selected ({name})" in caplog.text and TEXT not in caplog.text
    assert all(run.closed for run in traces.runs())
    assert bool(traces.only("LayaDecisionModel").error) == (failure != "answer")


def test_an_answer_is_due_also_where_no_hook_of_ours_is_needed(agent: Any) -> None:
    """As after any call that nobody listened to."""
    LayaRunnable(agent, questions={"a": {"type": "noul", "instructions": "?"}}).invoke(TEXT)
    graph, model = make_agent(agent, max_tools=2, timeout=1e-9)
    graph.invoke({"messages": [HumanMessage(TEXT)]})
    assert model.tools == [NAMES]


def test_a_deadline_holds_for_every_way_of_asking() -> None:
    """A way that it doesn't know would wait as long as laya takes."""
    public = {name for name, value in vars(Decisions).items() if callable(value) and not name.startswith("_")}
    assert public <= vars(TimedDecisions).keys()


@BOTH
async def test_the_selection_is_one_traced_call(agent: Any, traces: Traces, asynchronous: bool) -> None:
    """Of type llm, under the model's node, with its tokens once; nothing of it is streamed."""
    graph, _ = make_agent(agent, max_tools=2)
    given: Any = {"messages": [HumanMessage(TEXT)]}
    if asynchronous:
        streamed = [message async for message, _ in graph.astream(given, stream_mode="messages")]
    else:
        streamed = [message for message, _ in graph.stream(given, stream_mode="messages")]
    assert [message.text for message in streamed] == ["done"]
    run = traces.only("LayaDecisionModel")
    assert run.run_type == "llm" and run.usage == {**traces.usage()} and run.metadata["laya_run_id"]
    (above,) = traces.parents()["LayaDecisionModel"]
    assert above in (
        "model",
        "LayaToolSelectorMiddleware.wrap_model_call",
        "LayaToolSelectorMiddleware.awrap_model_call",
    )
    assert all(run.closed and run.error is None for run in traces.runs())


@pytest.mark.parametrize("tool_choice", ["translate", {"type": "function", "function": {"name": "translate"}}])
def test_a_tool_that_is_demanded_stays(agent: Any, tool_choice: Any) -> None:
    """The provider would refuse a choice of a tool that it isn't shown."""
    from langchain.agents.middleware import wrap_model_call

    @wrap_model_call
    def demand(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_choice=tool_choice))

    model = PlayedModel(replies=[AIMessage("done")])
    selector = LayaToolSelectorMiddleware(runner=agent, max_tools=1)
    create_agent(model, tools=TOOLS, middleware=[demand, selector]).invoke({"messages": [HumanMessage(TEXT)]})
    assert model.tools == [[name for name in NAMES if name in {"translate", *best(agent, 1, NAMES[:-1])}]]


def test_an_interrupt_in_a_hook_is_no_failure(agent: Any) -> None:
    """The graph pauses, and goes on when resumed."""

    class Approval:
        def on_predict_start(self, ctx: Any) -> None:
            interrupt("May I?")

    options = CallOptions(hooks=Approval(), hooks_raise=True)
    graph, model = make_agent(agent, max_tools=2, options=options, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    paused = graph.invoke({"messages": [HumanMessage(TEXT)]}, thread)
    assert [pause.value for pause in paused["__interrupt__"]] == ["May I?"] and model.tools == []
    graph.invoke(Command(resume=True), thread)
    assert model.tools == [best(agent, 2)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tools": 0}, "max_tools must be at least 1, got 0"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"timeout": float("nan")}, "timeout must be a positive number"),
        ({"max_tools": -3}, "max_tools must be at least 1, got -3"),
        ({"always_include": "search"}, "must be a list of tool names"),
        ({"model": "also"}, "either runner= or model="),
    ],
)
def test_bad_fields_are_refused(agent: Any, fields: dict[str, Any], message: str) -> None:
    """When the middleware is made."""
    with pytest.raises(ValueError, match=message):
        LayaToolSelectorMiddleware(**{"runner": agent, **fields})


@pytest.mark.parametrize("max_tools", [2.5, "3", True, None])
def test_a_number_of_tools_is_whole(agent: Any, max_tools: Any) -> None:
    """Else every selection would fail, and all tools be shown."""
    with pytest.raises(TypeError, match=f"max_tools must be a whole number, got {type(max_tools).__name__}"):
        LayaToolSelectorMiddleware(runner=agent, max_tools=max_tools)
