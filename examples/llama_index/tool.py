"""laya as a tool of an agent; a scripted model stands where yours would.

python examples/llama_index/tool.py [CHECKPOINT]
"""

import asyncio
import sys

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

import laya
from laya_integrations.llama_index import LayaTool, LayaToolSpec

TRIAGE = {
    "questions": {
        "department": {
            "type": "choice",
            "instructions": "Which team should handle this message?",
            "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
        },
        "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
    },
    "name": "triage",
    "description": "Find the team and the urgency of a customer's message.",
}


def script(messages: list[ChatMessage], **kwargs: object) -> ChatMessage:
    """What the scripted model says: it calls the tool, then repeats its answer."""
    last = messages[-1]
    if last.role == MessageRole.TOOL:
        return ChatMessage(role="assistant", content=f"The triage says: {last.content}")
    call = ToolCallBlock(tool_call_id="1", tool_name="triage", tool_kwargs={"state": last.content})
    return ChatMessage(role="assistant", blocks=[call])


async def run(agent: FunctionAgent) -> None:
    handler = agent.run(user_msg="My invoice is wrong and I need it today.")
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            print("tool:", event.tool_output.content)
            print("the whole result:", event.tool_output.raw_output["usage"])
    print(await handler)


def main(model: str) -> None:
    runner = laya.load(model)
    llm = MockFunctionCallingLLM(response_generator=script)  # In your code: an LLM that calls functions.
    asyncio.run(run(FunctionAgent(tools=[LayaTool(runner=runner, **TRIAGE)], llm=llm)))

    # The same as LlamaIndex's own function tool.
    asyncio.run(run(FunctionAgent(tools=LayaToolSpec(runner=runner, **TRIAGE).to_tool_list(), llm=llm)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
