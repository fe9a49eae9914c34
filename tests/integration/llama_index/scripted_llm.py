"""A function calling model that says what a test tells it to, so that agents run without a service."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection


class ScriptedLLM(FunctionCallingLLM):
    """Calls one tool, then repeats what the tool said."""

    tool: str
    args: dict[str, Any]

    @property
    def metadata(self) -> LLMMetadata:
        """A chat model that calls functions."""
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True, model_name="scripted")

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The next message of the script."""
        last = messages[-1]
        if last.role == MessageRole.TOOL:
            return ChatResponse(message=ChatMessage(role="assistant", content=f"The tool said: {last.content}"))
        call = {"id": "1", "name": self.tool, "arguments": json.dumps(self.args)}
        return ChatResponse(message=ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call]}))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The same."""
        return self.chat(messages, **kwargs)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        """The same, in one chunk."""

        async def chunks() -> AsyncGenerator[ChatResponse, None]:
            yield self.chat(messages, **kwargs)

        return chunks()

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The call in a message of this model."""
        calls = response.message.additional_kwargs.get("tool_calls", [])
        return [
            ToolSelection(tool_id=call["id"], tool_name=call["name"], tool_kwargs=json.loads(call["arguments"]))
            for call in calls
        ]

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> Any:
        # What an API would refuse has to fail here too.
        return {"messages": list(chat_history or []), "tools": [tool.metadata.to_openai_tool() for tool in tools]}

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Agents never complete."""
        return MockLLM().complete(prompt)

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The same."""
        return self.complete(prompt)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        """Agents stream asynchronously."""
        raise NotImplementedError

    stream_complete = stream_chat
    astream_complete = stream_chat
