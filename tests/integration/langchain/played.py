"""A chat model that says given messages in turn and keeps what it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field


class PlayedModel(BaseChatModel):
    """Say `replies` one after the other; the last one from then on."""

    replies: list[AIMessage]
    read: list[list[BaseMessage]] = Field(default_factory=list)
    """The messages of each call."""
    tools: list[list[str]] = Field(default_factory=list)
    """The names of the tools of each call."""

    @property
    def _llm_type(self) -> str:
        return "played"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Keep their names."""
        self.tools.append([tool["name"] if isinstance(tool, dict) else tool.name for tool in tools])
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.read.append(messages)
        reply = self.replies[min(len(self.read), len(self.replies)) - 1]
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(update={"id": f"ai-{len(self.read)}"}))])
