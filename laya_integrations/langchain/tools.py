"""laya as a tool: a model asks fixed questions about a state that it chooses.

triage = LayaTool(runner=agent, questions=..., name="triage", description="Triage a message.")
create_agent(model, tools=[triage])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForToolRun, CallbackManagerForToolRun
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import patch_config
from langchain_core.tools import ArgsSchema, BaseTool, ToolException
from langchain_core.utils.pydantic import get_fields
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator

from laya_integrations._states import read_state
from laya_integrations.langchain._fields import DecisionFields
from laya_integrations.langchain._interrupts import steers_graph
from laya_integrations.langchain.messages import state_of
from laya_integrations.langchain.questions import lower_questions
from laya_integrations.langchain.runnables import LayaMessage, LayaRunnable

_Turn = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})]


def _without_message(value: Any) -> Any:
    return state_of(value) if isinstance(value, BaseMessage) else value


class LayaToolInput(BaseModel):
    """What the model supplies."""

    # An error is shown to the model, and lies in traces.
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    state: Annotated[str | dict[str, Any] | list[_Turn], BeforeValidator(_without_message)] = Field(
        description="What to decide about: text, a JSON object, or a list of messages, oldest first."
    )


class LayaTool(DecisionFields, BaseTool):
    """Let a model ask fixed questions about a state.

    `LayaTool(runner=..., questions=..., name=..., description=...)`. The questions are bound here; the model
    supplies one argument, `state`: text, a JSON object (also as text), or a conversation. The content is the
    answers as compact JSON, the artifact laya's whole result. A failure reaches the model as an error
    message, and the agent goes on; `handle_tool_error=False` raises it instead. The call's run of type llm
    lies under the tool's run.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    args_schema: Annotated[ArgsSchema | None, Field(repr=False)] = LayaToolInput
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool | str | Callable[[ToolException], Any] | None = True

    @field_validator("args_schema")
    @classmethod
    def _takes_state(cls, args_schema: Any) -> Any:
        if args_schema is None:
            return args_schema
        fields = args_schema.get("properties", {}) if isinstance(args_schema, dict) else get_fields(args_schema)
        if [*fields] != ["state"]:
            raise ValueError(f"args_schema must have one field, state; got {', '.join(fields) or 'none'}")
        return args_schema

    def _run(self, state: Any, *, config: RunnableConfig, run_manager: CallbackManagerForToolRun | None = None) -> Any:
        runnable = self._runnable()
        try:
            return self._answer(runnable.invoke(read_state(state), _child(config, run_manager)))
        except Exception as error:
            if steers_graph(error):
                raise
            raise _failure(self.name, error) from error

    async def _arun(
        self, state: Any, *, config: RunnableConfig, run_manager: AsyncCallbackManagerForToolRun | None = None
    ) -> Any:
        runnable = self._runnable()
        try:
            return self._answer(await runnable.ainvoke(read_state(state), _child(config, run_manager)))
        except Exception as error:
            if steers_graph(error):
                raise
            raise _failure(self.name, error) from error

    def _answer(self, message: LayaMessage) -> Any:
        """What `response_format` says a tool returns: the content alone, or with the artifact."""
        content = str(message.content)
        return content if self.response_format == "content" else (content, message.result)

    def _runnable(self) -> LayaRunnable:
        self._check_kept()
        return LayaRunnable(self.runner, model=self.model, questions=self.questions, options=self.options)


def laya_tools(
    question_sets: Mapping[str, Any], *, descriptions: Mapping[str, str] | None = None, **fields: Any
) -> list[LayaTool]:
    """A `LayaTool` for each set of questions, by the tool's name, in order.

    `laya_tools({"triage": triage(), "email": email()}, runner=agent)`. A tool that `descriptions` doesn't name is
    described by what its questions ask. `fields` are those of `LayaTool`, the same for all. Raises ValueError
    for a description without a set.
    """
    descriptions = descriptions or {}
    if unknown := descriptions.keys() - question_sets.keys():
        raise ValueError(f"descriptions names {min(unknown)!r}, which is no set of questions")
    return [
        LayaTool(name=name, description=descriptions.get(name) or _described(questions), questions=questions, **fields)
        for name, questions in question_sets.items()
    ]


def _described(questions: Any) -> str:
    asked = (question.get("instructions") for question in lower_questions(questions).values())
    return "Answer about a text, object or conversation: " + " ".join(text for text in asked if isinstance(text, str))


def _child(config: RunnableConfig, run_manager: Any) -> RunnableConfig:
    return config if run_manager is None else patch_config(config, callbacks=run_manager.get_child())


def _failure(name: str, error: Exception) -> ToolException:
    return ToolException(f"{name} could not decide: {type(error).__name__}: {error}")
