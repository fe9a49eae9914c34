"""laya before an agent's model: of many tools it is shown those that fit the conversation.

python examples/langchain/tool_selector.py [CHECKPOINT]
"""

import sys

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.tracers.langchain import wait_for_all_tracers

import laya
from laya_integrations.langchain import LayaToolSelectorMiddleware

DESCRIPTIONS = {
    "refund": "Pay money back to a customer.",
    "weather": "Tell today's weather in a city.",
    "invoice": "Send an invoice again.",
    "restart": "Restart a server.",
    "translate": "Translate a text.",
    "handover": "Hand the conversation over to a person.",
}


class ScriptedModel(BaseChatModel):
    """Says which tools it was shown. In your code: `init_chat_model("...")`."""

    _llm_type = "scripted"

    def bind_tools(self, tools, **kwargs):
        return self.bind(shown=[tool.name for tool in tools])

    def _generate(self, messages, stop=None, run_manager=None, *, shown=(), **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I see {', '.join(shown)}."))])


def main(model: str) -> None:
    tools = [
        StructuredTool.from_function(lambda text: "done", name=name, description=description)
        for name, description in DESCRIPTIONS.items()
    ]
    selector = LayaToolSelectorMiddleware(
        runner=laya.load(model), max_tools=2, always_include=["handover"], timeout=10.0
    )
    agent = create_agent(ScriptedModel(), tools=tools, middleware=[selector])
    answered = agent.invoke({"messages": [HumanMessage("My invoice is wrong, I want my money back.")]})
    print(answered["messages"][-1].text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
