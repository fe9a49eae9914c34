"""laya as a tool of an agent; a scripted chat model stands where yours would.

python examples/langchain/tool_agent.py [CHECKPOINT]
"""

import sys

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tracers.langchain import wait_for_all_tracers

import laya
from laya_integrations.langchain import LayaTool

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
}


class ScriptedModel(BaseChatModel):
    """Calls the tool, then repeats its answer. In your code: `init_chat_model("...")`."""

    _llm_type = "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(f"The triage says: {last.text}")
        else:
            reply = AIMessage("", tool_calls=[{"name": "triage", "args": {"state": last.text}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(model: str) -> None:
    triage = LayaTool(
        runner=laya.load(model),
        questions=QUESTIONS,
        name="triage",
        description="Find the team and the urgency of a customer's message.",
    )
    agent = create_agent(ScriptedModel(), tools=[triage])
    answered = agent.invoke({"messages": [HumanMessage("My invoice is wrong and I need it today.")]})
    for message in answered["messages"]:
        message.pretty_print()
    tool_message = answered["messages"][-2]
    print("\nThe whole result is the tool message's artifact:", tool_message.artifact["usage"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
