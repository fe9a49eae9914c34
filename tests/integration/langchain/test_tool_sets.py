"""laya_tools: a tool for each set of questions."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from laya_integrations import presets
from laya_integrations.langchain import CallOptions, LayaTool, laya_tools
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.scripted import ScriptedModel

TEXT = "My invoice is wrong, I want my money back"
SETS = {"triage": presets.triage(), "guard": presets.guard()}


class GuardTool:
    """One of a set, as LangChain's suites take it."""

    @property
    def tool_constructor(self) -> LayaTool:
        """The tool under test."""
        return laya_tools(SETS, model=str(CHECKPOINTS / "english"))[1]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        """What it is called with."""
        return {"state": TEXT}


class TestSetUnit(GuardTool, ToolsUnitTests):
    """LangChain's suite for any tool."""


class TestSetIntegration(GuardTool, ToolsIntegrationTests):
    """LangChain's suite for a tool that runs."""

    @pytest.fixture(autouse=True)
    def _loaded(self, tool: LayaTool) -> None:
        load_quietly(lambda: tool.invoke({"state": TEXT}))


def test_each_set_becomes_a_tool(agent: Any) -> None:
    """By its name, in order, with a description of what it answers or the one given."""
    options = CallOptions(min_confidence=0.6)
    triage, guard = laya_tools(SETS, descriptions={"guard": "Check a text."}, runner=agent, options=options)
    assert (triage.name, guard.name, guard.description) == ("triage", "guard", "Check a text.")
    assert "What is this message about? How urgent is this message?" in triage.description
    assert triage.options == guard.options == options
    expected = agent.predict(TEXT, presets.guard(), min_confidence=0.6)["answers"]
    assert (
        guard.invoke({"name": "guard", "args": {"state": TEXT}, "id": "1", "type": "tool_call"}).artifact["answers"]
        == expected
    )
    assert laya_tools({}, runner=agent) == []


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"descriptions": {"other": "x"}}, ValueError, "descriptions names 'other', which is no set"),
        ({"nothing": 1}, ValueError, "Extra inputs"),
        ({"question_sets": {"triage": 3}}, TypeError, "questions must be"),
    ],
)
def test_bad_arguments_are_refused(agent: Any, fields: dict[str, Any], error: type[Exception], message: str) -> None:
    """Before a model is loaded."""
    with pytest.raises(error, match=message):
        laya_tools(**{"question_sets": SETS, "runner": agent, **fields})


def test_an_agent_chooses_among_the_sets(agent: Any) -> None:
    """Each tool asks its own questions."""
    tools = laya_tools({"triage": QUESTIONS, "guard": presets.guard()}, runner=agent)
    graph = create_agent(ScriptedModel(tool="guard", args={"state": TEXT}), tools=tools)
    *_, message, _ = graph.invoke({"messages": [HumanMessage("hi")]})["messages"]
    assert message.artifact["answers"].keys() == presets.guard().keys()
