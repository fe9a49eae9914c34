"""Sets of questions as tools of an agent; a scripted chat model stands where yours would.

python examples/langchain/tools.py [CHECKPOINT]
"""

import sys

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tracers.langchain import wait_for_all_tracers

import laya
from laya_integrations import presets
from laya_integrations.langchain import laya_tools


class ScriptedModel(BaseChatModel):
    """Calls both tools, then ends. In your code: `init_chat_model("...")`."""

    _llm_type = "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if messages[-1].type == "tool":
            reply = AIMessage("I looked at the message twice.")
        else:
            # A state is text, a JSON object (also as text), or a list of messages.
            calls = [("triage", messages[-1].text), ("moderation", {"text": messages[-1].text})]
            reply = AIMessage("", tool_calls=[{"name": n, "args": {"state": s}, "id": n} for n, s in calls])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(model: str) -> None:
    tools = laya_tools(
        {"triage": presets.triage(), "moderation": presets.moderation()},
        descriptions={"triage": "Find the topic and the urgency of a customer's message."},
        runner=laya.load(model),
    )
    for tool in tools:
        print(f"{tool.name}({', '.join(tool.args)}): {tool.description}")
    agent = create_agent(ScriptedModel(), tools=tools)
    answered = agent.invoke({"messages": [HumanMessage("My invoice is wrong and I need it today.")]})
    for message in answered["messages"]:
        print(f"{message.type}: {message.text}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
