"""laya behind LangChain's decision interface: alone, in a batch, and in LangChain's own middleware.

python examples/langchain/decision_model.py [CHECKPOINT]
"""

import sys
import warnings

from langchain.agents import create_agent
from langchain.agents.middleware import AutoModeMiddleware, ModelChoice, ModelRouterMiddleware
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.decisions import Choice, Noul
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers

import laya
from laya_integrations.langchain import LayaDecisionModel

QUESTIONS = {
    "urgent": Noul(instructions="Does this message need an answer today?"),
    "department": Choice(
        instructions="Which team should handle this message?",
        criteria={"billing": "invoices, refunds", "technical": "bugs, outages"},
    ),
}


class ScriptedModel(BaseChatModel):
    """Calls the tool, then repeats what came of it. In your code: `init_chat_model("...")`."""

    label: str
    _llm_type = "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(f"{self.label}: {last.text}")
        else:
            reply = AIMessage("", tool_calls=[{"name": "delete_file", "args": {"path": "notes.txt"}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted"


def main(model: str) -> None:
    classifier = LayaDecisionModel(runner=laya.load(model))

    # One request: typed answers, tokens, laya's id of the call.
    response = classifier.invoke({"state": HumanMessage("My invoice is wrong."), "questions": QUESTIONS})
    print(response.nouls["urgent"].noul, response.choices["department"].choice, response.request_id)

    # Many requests with the same questions share their forward passes.
    states = ["The app crashes.", "Thank you!", "I want my money back."]
    with get_usage_metadata_callback() as usage:
        for response in classifier.batch([{"state": state, "questions": QUESTIONS} for state in states]):
            print(response.choices["department"].choice, response.answers["department"].answer_confidence)
    print(usage.usage_metadata)

    # LangChain's middleware: one picks the model for the task, one stops risky tool calls.
    choices = {
        "fast": ModelChoice(model=ScriptedModel(label="fast"), criteria="simple, well-scoped tasks"),
        "strong": ModelChoice(model=ScriptedModel(label="strong"), criteria="tasks that need much thought"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain calls this middleware a beta.
        router = ModelRouterMiddleware(choices=choices, instructions="Which model fits?", classifier=classifier)
    guard = AutoModeMiddleware(tools=[delete_file], classifier=classifier)
    agent = create_agent(ScriptedModel(label="default"), tools=[delete_file], middleware=[router, guard])
    answered = agent.invoke({"messages": [HumanMessage("Please tidy up my notes.")]})
    print(answered["model_route"].choice, "->", answered["messages"][-1].text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
