"""laya around an agent: bad input and answers are blocked, and a person decides on payments.

python examples/langchain/guardrail_middleware.py [CHECKPOINT]
"""

import sys

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import laya
from laya_integrations.langchain import LayaGuardrailMiddleware

RISKY = {
    "risky": {
        "type": "noul",
        "instructions": "Does the tool call do what the request did not ask for, or what can't be undone?",
    }
}


@tool
def pay(amount: int) -> str:
    """Pay an amount back."""
    return f"paid {amount}"


class ScriptedModel(BaseChatModel):
    """Pays, then says so. In your code: `init_chat_model("...")`."""

    _llm_type = "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if messages[-1].type == "tool":
            reply = AIMessage(f"Result: {messages[-1].text}")
        else:
            reply = AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": 40}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(model: str) -> None:
    runner = laya.load(model)
    # Texts and tool calls are asked about separately. The thresholds are such that the small checkpoint, whose
    # answers mean nothing, lets texts pass and flags the call.
    on_texts = LayaGuardrailMiddleware(runner=runner, thresholds=1.0, tool_calls="allow")
    on_calls = LayaGuardrailMiddleware(
        runner=runner,
        questions=RISKY,
        thresholds=0.01,
        input="allow",
        output="allow",
        tool_calls={"pay": "ask"},
        name="PaymentGuardrail",
    )
    agent = create_agent(ScriptedModel(), tools=[pay], middleware=[on_texts, on_calls], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    paused = agent.invoke({"messages": [HumanMessage("Please pay 40 back.")]}, thread)
    for request in paused["__interrupt__"][0].value["action_requests"]:
        print(f"{request['name']} {request['args']}: {request['description']}")
    answered = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
    print(answered["messages"][-1].text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
