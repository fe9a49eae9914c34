"""LayaTool alone, in an agent, and under LangChain's standard suites."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core._api import LangChainBetaWarning
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import ToolException
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError, create_model

from laya_integrations.langchain import CallOptions, LayaMessage, LayaRunnable, LayaTool, state_of
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces
from tests.integration.langchain.scripted import ScriptedModel

TEXT = "My invoice is wrong, I want my money back"


def make_tool(agent: Any, **fields: Any) -> LayaTool:
    """A triage tool."""
    described = {"name": "triage", "description": "Triage a customer's message."}
    return LayaTool(**{"runner": agent, "questions": QUESTIONS, **described, **fields})


def call(**args: Any) -> dict[str, Any]:
    """A tool call as an agent sends it."""
    return {"name": "triage", "args": args, "id": "1", "type": "tool_call"}


class TriageTool:
    """The tool that LangChain's suites make."""

    @property
    def tool_constructor(self) -> type[LayaTool]:
        """The class under test."""
        return LayaTool

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        """How it is made; the suite reads this before any fixture ran."""
        model = str(CHECKPOINTS / "english")
        return {"model": model, "questions": QUESTIONS, "name": "triage", "description": "Triage."}

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        """What it is called with."""
        return {"state": TEXT}


class TestStandardUnit(TriageTool, ToolsUnitTests):
    """LangChain's suite for any tool."""


class TestStandardIntegration(TriageTool, ToolsIntegrationTests):
    """LangChain's suite for a tool that runs."""

    @pytest.fixture(autouse=True)
    def _loaded(self, tool: LayaTool) -> None:
        load_quietly(lambda: tool.invoke({"state": TEXT}))


def test_the_content_is_the_answers_and_the_artifact_the_result(agent: Any) -> None:
    """A tool message carries compact JSON, and laya's whole result beside it."""
    message = make_tool(agent).invoke(call(state=TEXT))
    assert isinstance(message, ToolMessage) and message.status == "success"
    expected = agent.predict(TEXT, QUESTIONS)
    assert message.artifact["answers"] == expected["answers"]
    assert json.loads(message.content)["department"] == expected["answers"]["department"]["choice"]
    assert message.content == json.dumps(json.loads(message.content), separators=(",", ":"))
    json.dumps(message.artifact)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (TEXT, TEXT),
        ({"subject": "invoice", "lines": [1, 2]}, {"subject": "invoice", "lines": [1, 2]}),
        ('{"subject": "invoice"}', {"subject": "invoice"}),
        ('[{"role": "user", "content": "hi"}]', [{"role": "user", "content": "hi"}]),
        ("{not json", "{not json"),
        ("3", "3"),
        ([HumanMessage("hi"), "there"], [{"role": "user", "content": "hi"}, "there"]),
        (HumanMessage("hi"), {"role": "user", "content": "hi"}),
    ],
)
async def test_the_state_is_read_leniently(agent: Any, sent: Any, read: Any) -> None:
    """Text, objects, JSON text and conversations all reach laya as what they are."""
    expected = agent.predict(read, QUESTIONS)["answers"]
    tool = make_tool(agent)
    assert tool.invoke(call(state=sent)).artifact["answers"] == expected
    assert (await tool.ainvoke(call(state=sent))).artifact["answers"] == expected


def test_the_model_sees_one_argument(agent: Any) -> None:
    """Runner, questions and options are no part of the schema."""
    schema = make_tool(agent).tool_call_schema.model_json_schema()
    assert list(schema["properties"]) == ["state"] and schema["required"] == ["state"]
    kinds = [option["type"] for option in schema["properties"]["state"]["anyOf"]]
    assert kinds == ["string", "object", "array"] and "$defs" not in schema


@pytest.mark.parametrize("args", [{}, {"text": "hi"}, {"state": "hi", "extra": 1}, {"state": 3}])
def test_bad_arguments_are_refused(agent: Any, args: dict[str, Any]) -> None:
    """The schema decides before laya is asked."""
    with pytest.raises(ValidationError):
        make_tool(agent).invoke(args)


async def test_a_failure_is_an_error_message(agent: Any) -> None:
    """The model reads what went wrong; `handle_tool_error=False` raises it."""
    bad = {"a": {"type": "choice", "instructions": "?", "criteria": []}}
    message = make_tool(agent, questions=bad).invoke(call(state=TEXT))
    assert message.status == "error" and "triage could not decide" in message.content
    assert (await make_tool(agent, questions=bad).ainvoke(call(state=TEXT))).content == message.content
    with pytest.raises(ToolException):
        make_tool(agent, questions=bad, handle_tool_error=False).invoke(call(state=TEXT))


def test_the_runner_is_in_no_copy_of_the_tool(agent: Any) -> None:
    """repr, dump and pickle leave it out; with model= a pickle works in another process."""
    tool = make_tool(agent)
    assert "runner" not in repr(tool) and "runner" not in tool.model_dump()
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(tool)).invoke({"state": TEXT})
    named = make_tool(None, model=str(CHECKPOINTS / "english"))
    copied = pickle.loads(pickle.dumps(named))
    assert load_quietly(lambda: copied.invoke({"state": TEXT})) == tool.invoke({"state": TEXT})


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_agent_traces_the_decision_under_the_tool(agent: Any, traces: Traces, asynchronous: bool) -> None:
    """In create_agent laya's run lies under the tool's, with usage on it alone."""
    graph = create_agent(ScriptedModel(tool="triage", args={"state": TEXT}), tools=[make_tool(agent)])
    asked = {"messages": [HumanMessage("What is this?")]}
    answered = await graph.ainvoke(asked) if asynchronous else graph.invoke(asked)
    *_, tool_message, last = answered["messages"]
    assert last.text == f"The tool said: {tool_message.content}"
    parents = traces.parents()
    assert parents["LayaRunnable"] == {"triage"} and parents["triage"] == {"tools"}
    assert parents["ScriptedModel"] == {"model"} and parents["tools"] == {"LangGraph"}
    assert all(run.closed and run.error is None for run in traces.runs())
    run = traces.only("LayaRunnable")
    assert run.run_type == "llm" and traces.only("triage").run_type == "tool"
    assert [r.name for r in traces.runs() if r.usage] == ["LayaRunnable"]
    usage = tool_message.artifact["usage"]
    assert traces.usage()["input_tokens"] == usage["input_tokens"]
    assert traces.usage()["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@pytest.mark.parametrize("args", [{"text": "hi"}, {"state": {"deep": {"list": [1]}}}])
def test_an_agent_survives_bad_arguments(agent: Any, args: dict[str, Any]) -> None:
    """What the schema refuses becomes an error message, and the agent goes on."""
    graph = create_agent(ScriptedModel(tool="triage", args=args), tools=[make_tool(agent)])
    *_, tool_message, last = graph.invoke({"messages": [HumanMessage("hi")]})["messages"]
    assert tool_message.status == ("success" if "state" in args else "error")
    assert last.text.startswith("The tool said: ")


def test_an_agent_survives_a_failing_tool(agent: Any, traces: Traces) -> None:
    """laya's error closes its run, and the model reads the message."""
    tool = make_tool(agent, questions={"a": {"type": "choice", "instructions": "?", "criteria": []}})
    graph = create_agent(ScriptedModel(tool="triage", args={"state": TEXT}), tools=[tool])
    *_, tool_message, last = graph.invoke({"messages": [HumanMessage("hi")]})["messages"]
    assert tool_message.status == "error" and "triage could not decide" in last.text
    run = traces.only("LayaRunnable")
    assert run.closed and run.error and traces.only("triage").closed


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_hook_may_interrupt_the_agent(agent: Any, asynchronous: bool) -> None:
    """LangGraph's `interrupt` is no failure of the tool: the graph pauses, and goes on when resumed."""

    class Approval:
        def on_predict_start(self, ctx: Any) -> None:
            interrupt("May I?")

    tool = make_tool(agent, options=CallOptions(hooks=Approval(), hooks_raise=True))
    model = ScriptedModel(tool="triage", args={"state": TEXT})
    graph = create_agent(model, tools=[tool], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    asked: Any
    for asked in ({"messages": [HumanMessage("hi")]}, Command(resume=True)):
        answered = await graph.ainvoke(asked, thread) if asynchronous else graph.invoke(asked, thread)
        if isinstance(asked, dict):
            assert [pause.value for pause in answered["__interrupt__"]] == ["May I?"]
    assert answered["messages"][-2].status == "success"


def test_the_graphs_messages_can_be_the_state(agent: Any) -> None:
    """An injected state stays out of what the model sees."""

    class FromGraph(BaseModel):
        state: Annotated[list[Any], InjectedState("messages")]

    tool = make_tool(agent, args_schema=FromGraph)
    assert tool.tool_call_schema.model_json_schema()["properties"] == {}
    graph = create_agent(ScriptedModel(tool="triage", args={}), tools=[tool])
    *before, tool_message, _ = graph.invoke({"messages": [HumanMessage("hi")]})["messages"]
    assert tool_message.artifact["answers"] == agent.predict(state_of(before), QUESTIONS)["answers"]


@pytest.mark.parametrize(
    "args_schema",
    [create_model("Args", text=(str, ...)), {"title": "x", "type": "object", "properties": {"text": {}}}],
)
def test_a_schema_without_the_state_is_refused(agent: Any, args_schema: Any) -> None:
    """When the tool is made, for a call would end the agent."""
    with pytest.raises(ValueError, match="one field, state; got text"):
        make_tool(agent, args_schema=args_schema)


def test_a_runnable_becomes_a_tool(agent: Any) -> None:
    """`as_tool` asks the same questions; with types of its own the arguments are the state."""
    runnable = LayaRunnable(agent, questions=QUESTIONS)
    tool = runnable.as_tool(name="triage")
    assert isinstance(tool, LayaTool) and "department" in tool.description
    assert tool.invoke({"state": TEXT}) == runnable.invoke(TEXT).content
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        typed = runnable.as_tool(name="triage", description="Triage.", arg_types={"text": str})
    assert typed.invoke({"text": TEXT}).content == runnable.invoke({"text": TEXT}).content


def test_streamed_messages_hold_no_classifier_json(agent: Any) -> None:
    """With stream_mode="messages" only the model's and the tool's messages appear."""
    graph = create_agent(ScriptedModel(tool="triage", args={"state": TEXT}), tools=[make_tool(agent)])
    asked = {"messages": [HumanMessage("hi")]}
    streamed = [message for message, _ in graph.stream(asked, stream_mode="messages")]
    assert {message.type for message in streamed} == {"ai", "tool"}
    assert not any(isinstance(message, LayaMessage) for message in streamed)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_tool_may_give_its_content_alone(agent: Any, asynchronous: bool) -> None:
    """As `response_format` says: the same text, and no artifact."""
    whole, alone = make_tool(agent), make_tool(agent, response_format="content")
    asked = call(state=TEXT)
    found = await alone.ainvoke(asked) if asynchronous else alone.invoke(asked)
    assert (found.content, found.artifact) == (whole.invoke(asked).content, None)
    assert alone.invoke({"state": TEXT}) == found.content


def test_text_that_only_looks_like_json_is_text(agent: Any) -> None:
    """Also where it opens more brackets than a parser takes."""
    assert make_tool(agent).invoke(call(state="[" * 50_000)).status == "success"


def test_a_type_of_question_that_laya_lacks_is_refused(agent: Any) -> None:
    """When the tool is made: no model could mend it."""
    with pytest.raises(ValidationError, match="question 'late' has the type 'nuol'; use choice or score or noul"):
        make_tool(agent, questions={"late": {"type": "nuol", "instructions": "Is it late?"}})


@pytest.mark.parametrize("args", [{"text": "a secret"}, {"state": 3, "text": "a secret"}])
def test_an_error_about_arguments_quotes_none(agent: Any, args: dict[str, Any]) -> None:
    """It is in traces and logs."""
    with pytest.raises(ValidationError, match="state") as refused:
        make_tool(agent).invoke(args)
    assert "secret" not in str(refused.value)
