"""LayaTool and LayaToolSpec alone, in a FunctionAgent and in an AgentWorkflow."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.workflow import Context, JsonSerializer
from pydantic import ValidationError

from laya_integrations.llama_index import LayaTool, LayaToolSpec
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.llama_index.conftest import QUESTIONS
from tests.integration.llama_index.scripted_llm import ScriptedLLM

TEXT = "My invoice is wrong, I want my money back"
DESCRIBED = {"name": "triage", "description": "Triage a customer's message."}
BAD = {"a": {"type": "choice", "instructions": "?", "criteria": []}}


def make_tool(agent: Any, **fields: Any) -> LayaTool:
    """A triage tool."""
    return LayaTool(**{"runner": agent, "questions": QUESTIONS, **DESCRIBED, **fields})


def make_spec_tool(agent: Any, **fields: Any) -> AsyncBaseTool:
    """The same from a spec."""
    [tool] = LayaToolSpec(**{"runner": agent, "questions": QUESTIONS, **DESCRIBED, **fields}).to_tool_list()
    return tool


BOTH = pytest.mark.parametrize("make", [make_tool, make_spec_tool])


@BOTH
async def test_the_text_is_json_and_the_raw_output_the_result(agent: Any, make: Any) -> None:
    """The answers for the model, laya's whole result as a plain dict for programs."""
    tool = make(agent)
    expected = agent.predict(TEXT, QUESTIONS)["answers"]
    for output in (tool(state=TEXT), tool.call(TEXT), await tool.acall(state=TEXT)):
        assert not output.is_error and output.tool_name == "triage"
        assert output.raw_output["answers"] == expected and type(output.raw_output) is dict
        assert json.loads(output.content)["department"] == expected["department"]["choice"]
        assert output.content == json.dumps(json.loads(output.content), separators=(",", ":"))
        json.dumps(output.raw_output)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (TEXT, TEXT),
        ({"subject": "invoice", "lines": [1, 2]}, {"subject": "invoice", "lines": [1, 2]}),
        ('{"subject": "invoice"}', {"subject": "invoice"}),
        ('[{"role": "user", "content": "hi"}]', [{"role": "user", "content": "hi"}]),
        ("{not json", "{not json"),
        pytest.param("[" * 100_000, "[" * 100_000, id="nested"),
        ("3", "3"),
    ],
)
@BOTH
async def test_the_state_is_read_leniently(agent: Any, make: Any, sent: Any, read: Any) -> None:
    """Text, objects, JSON text and conversations reach laya as what they are, by either way of calling a tool."""
    expected = agent.predict(read, QUESTIONS)["answers"]
    tool = make(agent)
    assert call_tool(tool, {"state": sent}).raw_output["answers"] == expected
    assert (await acall_tool(tool, {"state": sent})).raw_output["answers"] == expected


@BOTH
def test_the_model_sees_one_argument(agent: Any, make: Any) -> None:
    """Runner, questions and options are no part of the schema, and the name and description are the given ones."""
    function = make(agent).metadata.to_openai_tool()["function"]
    assert (function["name"], function["description"]) == ("triage", DESCRIBED["description"])
    state = function["parameters"]["properties"].pop("state")
    assert function["parameters"]["properties"] == {} and function["parameters"]["required"] == ["state"]
    assert [option["type"] for option in state["anyOf"]] == ["string", "object", "array"]
    assert not make(agent).metadata.return_direct and make(agent, return_direct=True).metadata.return_direct


@pytest.mark.parametrize("args", [{}, {"text": "hi"}, {"state": "hi", "extra": 1}, {"state": 3}, {"state": None}])
async def test_bad_arguments_are_an_error_output(agent: Any, args: dict[str, Any]) -> None:
    """laya is not asked, the message names the argument and not its value, and what was sent is kept."""
    tool = make_tool(agent)
    for output in (tool.call(**args), await tool.acall(**args)):
        assert output.is_error and "state" in output.content and "hi" not in output.content
        assert isinstance(output.exception, TypeError) and output.raw_input == args
        json.dumps(output.raw_output)


async def test_a_failure_asks_laya_once(agent: Any) -> None:
    """LlamaIndex calls a tool that raises a second time; an error output it takes as it is."""
    asked: list[Any] = []

    class Failing:
        def predict(self, state: Any, questions: Any, **options: Any) -> Any:
            asked.append(state)
            raise RuntimeError("out of memory")

    tool = make_tool(Failing())
    assert call_tool(tool, {"state": TEXT}).content == "triage could not decide: RuntimeError: out of memory"
    assert (await acall_tool(tool, {"state": TEXT})).is_error
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "handoff"}, "handoff"),
        ({"name": "my tool"}, "letters, digits"),
        ({"name": "x" * 65}, "1 to 64"),
        ({"description": "x" * 1025}, "1 to 1024 characters, got 1025"),
        ({"description": " "}, "1 to 1024"),
        ({"questions": [1]}, "questions"),
        ({"runner": 3}, "predict"),
        ({"nmae": "x"}, "nmae"),
    ],
)
@pytest.mark.parametrize("kind", [LayaTool, LayaToolSpec])
def test_a_bad_field_is_refused_when_it_is_given(agent: Any, kind: Any, fields: dict[str, Any], said: str) -> None:
    """Where it is written, not in an agent's run."""
    with pytest.raises((ValidationError, TypeError), match=said):
        kind(**{"runner": agent, "questions": QUESTIONS, **DESCRIBED, **fields})


def test_the_runner_is_in_no_copy_of_the_tool(agent: Any) -> None:
    """repr and pickle leave it out; with model= a pickle works in another process."""
    tool = make_tool(agent)
    assert "runner" not in repr(tool)
    lost = pickle.loads(pickle.dumps(tool)).call(state=TEXT)
    assert lost.is_error and "model=" in lost.content
    named = pickle.loads(pickle.dumps(make_tool(None, model=str(CHECKPOINTS / "english"))))
    assert load_quietly(lambda: named.call(state=TEXT)).content == tool.call(state=TEXT).content
    spec = LayaToolSpec(model=str(CHECKPOINTS / "english"), questions=QUESTIONS, **DESCRIBED)
    assert pickle.loads(pickle.dumps(spec)).decide(TEXT)["answers"] == tool.call(state=TEXT).raw_output["answers"]


async def run_agent(runner: Any, ctx: Context | None = None) -> tuple[str, Any]:
    """What an agent answers, and the output of its one tool call."""
    handler = runner.run(user_msg="What is this?", ctx=ctx)
    outputs = [event.tool_output async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    [output] = outputs
    return str(await handler), output


@BOTH
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_function_agent_reads_the_answers(agent: Any, make: Any, streaming: bool) -> None:
    """The model's next message repeats the tool's JSON; the context, with the output in it, can be stored."""
    runner = FunctionAgent(
        tools=[make(agent)], llm=ScriptedLLM(tool="triage", args={"state": TEXT}), streaming=streaming
    )
    ctx = Context(runner)
    answered, output = await run_agent(runner, ctx)
    assert not output.is_error and answered == f"The tool said: {output.content}"
    assert output.raw_output["answers"] == agent.predict(TEXT, QUESTIONS)["answers"]
    with pytest.warns(Warning, match="unserializable key: memory"):
        stored = ctx.to_dict(serializer=JsonSerializer())
    json.dumps(stored)


@BOTH
async def test_an_agent_workflow_reads_the_answers(agent: Any, make: Any) -> None:
    """With several agents, of which one has the tool."""
    llm = ScriptedLLM(tool="triage", args={"state": TEXT})
    reader = FunctionAgent(name="reader", description="Reads.", tools=[make(agent)], llm=llm)
    writer = FunctionAgent(name="writer", description="Writes.", tools=[], llm=llm)
    answered, output = await run_agent(AgentWorkflow(agents=[reader, writer], root_agent="reader"))
    assert not output.is_error and answered == f"The tool said: {output.content}"


@BOTH
@pytest.mark.parametrize(
    ("args", "questions"), [({"text": "hi"}, QUESTIONS), ({"state": 3}, QUESTIONS), ({"state": TEXT}, BAD)]
)
async def test_an_agent_survives_a_failure(agent: Any, make: Any, args: dict[str, Any], questions: Any) -> None:
    """The model reads what went wrong, and the run goes on."""
    runner = FunctionAgent(tools=[make(agent, questions=questions)], llm=ScriptedLLM(tool="triage", args=args))
    answered, output = await run_agent(runner)
    assert output.is_error and answered == f"The tool said: {output.content}"


async def test_the_answers_can_end_the_run(agent: Any) -> None:
    """With `return_direct` they are the agent's answer, and the result its raw output."""
    runner = FunctionAgent(
        tools=[make_tool(agent, return_direct=True)], llm=ScriptedLLM(tool="triage", args={"state": TEXT})
    )
    output = await runner.run(user_msg="What is this?")
    assert "department" in json.loads(output.response.content) and "answers" in output.raw


def test_an_error_about_arguments_quotes_none(agent: Any) -> None:
    """A workflow that checks them by the tool's schema logs it."""
    schema = make_tool(agent).metadata.fn_schema
    assert schema is not None
    with pytest.raises(ValidationError, match="state") as refused:
        schema.model_validate({"text": "a secret"})
    assert "secret" not in str(refused.value)
