"""laya as a step of a chain: a state goes in, a message with the answers comes out.

runnable = LayaRunnable(agent, questions=Ticket)
chain = prompt | runnable | AnswerParser(Ticket)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, RootModel

from laya_integrations._decisions import Decision
from laya_integrations.langchain._fields import DecisionFields
from laya_integrations.langchain._traced import TracedCall
from laya_integrations.langchain.callbacks import PROVIDER, run_metadata

StateInput = str | BaseMessage | PromptValue | Sequence[Any] | dict[str, Any]
"""What a decision can be about; `laya_integrations.langchain.messages` says how each is read."""


class LayaMessage(AIMessage):
    """The answers of one call: as compact JSON in `content`, whole in `result`.

    The JSON has a value for each question: a choice's label, true or false for a noul, a score's most
    probable level, counted from 0, null where the answer fell below `min_confidence`.

    In a graph's state keep the parsed answers: a message that a node returns is streamed to the user, and a
    checkpointer reads this class back only where its serializer's `allowed_msgpack_modules` names it.
    """

    result: dict[str, Any] = Field(default_factory=dict)
    """laya's result: answers with their probabilities, usage, and the routing where a Router chose."""
    run_id: str | None = None
    """laya's id of the call; items of an Agent's batch share it, and differ in `laya_batch_index`."""

    @classmethod
    def lc_id(cls) -> list[str]:
        """An AIMessage's: where a dump is loaded it becomes one, for `loads` admits LangChain's own classes."""
        return AIMessage.lc_id()


class LayaRunnableInput(RootModel[str | dict[str, Any] | list[Any]]):
    """Text, a JSON object, or a conversation: the inputs that have a JSON form."""


class LayaRunnable(DecisionFields, RunnableSerializable[StateInput, LayaMessage]):
    """Answer fixed questions about each input.

    `LayaRunnable(runner, questions=...)`. A call may override `questions` and single options by name, so
    `.bind(min_confidence=0.8)` works. Each call is one run of type llm. `batch` shares passes: it is one laya
    call per `max_concurrency` items, or one for all. Where a batch fails and `return_exceptions` is set, its
    items are asked one by one, so that only those at fault fail.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, runner: Any = None, **fields: Any) -> None:
        super().__init__(runner=runner, **fields)

    def invoke(self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any) -> LayaMessage:
        """Answer the questions about one state."""
        return self._call(kwargs).invoke(self, input, config)

    async def ainvoke(self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any) -> LayaMessage:
        """`invoke`, off the event loop."""
        return await self._call(kwargs).ainvoke(self, input, config)

    def batch(
        self,
        inputs: list[StateInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[LayaMessage]:
        """Answer the questions about each state, in order, in shared passes."""
        return self._call(kwargs, return_exceptions).batch(self, inputs, config)

    async def abatch(
        self,
        inputs: list[StateInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[LayaMessage]:
        """`batch`, off the event loop."""
        return await self._call(kwargs, return_exceptions).abatch(self, inputs, config)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Text, an object or an array; the other inputs have no JSON form."""
        return LayaRunnableInput

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """A `LayaTool` that asks the same questions; with `args_schema` or `arg_types`, LangChain's own tool."""
        if args_schema is not None or arg_types is not None:
            return super().as_tool(args_schema, name=name, description=description, arg_types=arg_types)
        from laya_integrations.langchain.tools import LayaTool

        return LayaTool(
            name=name or self.get_name(),
            description=description or f"Decide {', '.join(self.questions)} for a text, object or conversation.",
            runner=self.runner,
            model=self.model,
            questions=self.questions,
            options=self.options,
        )

    def _call(self, overrides: dict[str, Any], one_by_one: bool = False) -> TracedCall[LayaMessage]:
        return TracedCall(partial(self._decisions, overrides), message_of, one_by_one)


_EMPTY = LayaMessage(content="", result={}, run_id=None, usage_metadata=None, response_metadata={})
_CONTAINERS = {name: type(value) for name, value in _EMPTY if isinstance(value, list | dict)}
"""The fields that no two messages may share a value of."""

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def message_of(decision: Decision) -> LayaMessage:
    """The message that carries a decision."""
    metadata = {"model_name": decision.model_name, "model_provider": PROVIDER, **run_metadata(decision)}
    if "routing" in decision.result:
        metadata["routing"] = decision.result["routing"]
    fields = {
        "content": _COMPACT.encode(decision.values),
        "result": dict(decision.result),
        "run_id": decision.run_id,
        "usage_metadata": decision.usage,
        "response_metadata": metadata,
    }
    # Copied, not validated: that would cost as much as a third of an invoke, and nothing here comes from outside.
    return _EMPTY.model_copy(update={**{name: kind() for name, kind in _CONTAINERS.items()}, **fields})
