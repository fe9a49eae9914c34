"""laya as a tool: an agent's model asks fixed questions about a state that it chooses.

triage = LayaTool(model="laya-mini", questions=..., name="triage", description="Triage a customer's message.")
FunctionAgent(tools=[triage], llm=...)
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar

from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from laya_integrations._decisions import Decision
from laya_integrations._fields import RunnerFields
from laya_integrations._questions import lower_questions
from laya_integrations._states import read_state
from laya_integrations.llama_index._asking import Asking

_Turn = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_DESCRIPTION = 1024
"""Characters; LlamaIndex refuses a longer one once an agent runs."""


class LayaToolInput(BaseModel):
    """What the model supplies."""

    model_config = ConfigDict(hide_input_in_errors=True)

    state: str | dict[str, Any] | list[_Turn] = Field(
        description="What to decide about: text, a JSON object, or a list of messages, oldest first."
    )


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("name must be 1 to 64 letters, digits, underscores or hyphens: what models can call")
    if name == "handoff":
        raise ValueError("name must not be 'handoff', which LlamaIndex's agents keep for themselves")
    return name


def _checked_description(description: str) -> str:
    if not description.strip() or len(description) > _LONGEST_DESCRIPTION:
        raise ValueError(f"description must have 1 to {_LONGEST_DESCRIPTION} characters, got {len(description)}")
    return description


class _ToolFields(RunnerFields):
    """What is asked, and what the agent's model reads of it."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    questions: Annotated[Any, AfterValidator(lower_questions)]
    """What to ask: question dicts, laya's question objects, or a pydantic model class."""
    name: Annotated[str, AfterValidator(_checked_name)]
    """The name that the model calls."""
    description: Annotated[str, AfterValidator(_checked_description)]
    """When to call it, for the model."""
    return_direct: bool = False
    """Whether the answers end the agent's run instead of going back to its model."""

    @property
    def metadata(self) -> ToolMetadata:
        """What the model is told of the tool."""
        return ToolMetadata(
            description=self.description, name=self.name, fn_schema=LayaToolInput, return_direct=self.return_direct
        )

    @property
    def _asking(self) -> Asking:
        return Asking(self._loaded_runner, self.questions, self.options)

    def _result(self, decision: Decision) -> dict[str, Any]:
        """laya's whole result, once each question is seen to have its answer."""
        for question_id in self.questions:
            decision.answer(question_id)
        return dict(decision.result)


class LayaTool(_ToolFields, AsyncBaseTool):
    """Let an agent's model ask fixed questions about a state.

    The questions are bound here; the model supplies one argument, `state`: text, a JSON object (also as text), or a
    conversation. The content is the answers as compact JSON, `raw_output` laya's whole result, a plain dict. A
    failure is an output with `is_error`, which the model reads, and the agent goes on.
    """

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Ask about `state`, the one argument; never raises an Exception."""
        try:
            return self._output(self._asking.one(_state(args, kwargs)), args, kwargs)
        except Exception as error:
            return self._failure(error, args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """`call`, off the event loop."""
        try:
            return self._output(await self._asking.aone(_state(args, kwargs)), args, kwargs)
        except Exception as error:
            return self._failure(error, args, kwargs)

    def _output(self, decision: Decision, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolOutput:
        return ToolOutput(
            tool_name=self.name,
            content=_json(decision.values),
            raw_input=_given(args, kwargs),
            raw_output=self._result(decision),
        )

    def _failure(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolOutput:
        message = f"{self.name} could not decide: {type(error).__name__}: {error}"
        return ToolOutput(
            tool_name=self.name,
            content=message,
            raw_input=_given(args, kwargs),
            raw_output={"error": message},
            is_error=True,
            exception=error,
        )


class LayaToolSpec(_ToolFields, BaseToolSpec):
    """The same as a tool spec: `to_tool_list()` gives LlamaIndex's own function tool.

    The content is the answers as compact JSON, `raw_output` laya's whole result, a plain dict. A failure is raised,
    which agents turn into an output with `is_error`.
    """

    spec_functions: ClassVar[list[SPEC_FUNCTION_TYPE]] = [("decide", "adecide")]  # type: ignore[misc]

    def decide(self, state: str | dict[str, Any] | list[Any]) -> dict[str, Any]:
        """Answer the questions about a state; laya's whole result."""
        return self._result(self._asking.one(_state((state,), {})))

    async def adecide(self, state: str | dict[str, Any] | list[Any]) -> dict[str, Any]:
        """`decide`, off the event loop."""
        return self._result(await self._asking.aone(_state((state,), {})))

    def to_tool_list(
        self,
        spec_functions: list[SPEC_FUNCTION_TYPE] | None = None,
        func_to_metadata_mapping: dict[str, ToolMetadata] | None = None,
    ) -> list[FunctionTool]:
        """The tool, under the spec's name and description unless the mapping says otherwise."""
        metadata = {"decide": self.metadata, "adecide": self.metadata, **(func_to_metadata_mapping or {})}
        tools = super().to_tool_list(spec_functions or self.spec_functions, metadata)
        return [_with_json_text(tool) for tool in tools]


def _with_json_text(tool: FunctionTool) -> FunctionTool:
    """The tool, whose text would be a dict's repr, with JSON text."""
    return FunctionTool(
        fn=tool.fn, async_fn=tool.async_fn, metadata=tool.metadata, callback=_text, async_callback=_atext
    )


def _text(result: dict[str, Any]) -> str:
    return _json(Decision(result).values)


async def _atext(result: dict[str, Any]) -> str:
    return _text(result)


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _state(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The one argument; JSON text of an object or a list, which models often send in its place, is read."""
    if len(args) + len(kwargs) != 1 or (kwargs and "state" not in kwargs):
        got = ", ".join([*("a value without a name" for _ in args), *kwargs]) or "none"
        raise TypeError(f"the tool takes one argument, state, got {got}")
    [state] = [*args, *kwargs.values()]
    if not isinstance(state, str | dict | list):
        raise TypeError(f"state must be a text, an object or a list of messages, got {type(state).__name__}")
    return read_state(state)


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"state": args[0]} if len(args) == 1 and not kwargs else dict(kwargs)
