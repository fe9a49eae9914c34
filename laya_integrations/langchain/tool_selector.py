"""Show an agent's model only the tools that fit the conversation.

agent = create_agent(model, tools=many, middleware=[LayaToolSelectorMiddleware(runner=laya_agent, max_tools=4)])
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Never, TypedDict, Unpack

from langchain_core.decisions import ClassifierRequest
from langchain_core.tools import BaseTool

from laya_integrations._fields import refuse_positional
from laya_integrations._options import CallOptions
from laya_integrations.langchain._agents import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    warn_of_unknown_tools,
)
from laya_integrations.langchain._deadline import TimedDecisionModel
from laya_integrations.langchain._interrupts import steers_graph
from laya_integrations.langchain.decision_model import LayaDecisionModel
from laya_integrations.langchain.responses import LayaClassifierResponse

logger = logging.getLogger(__name__)

INSTRUCTIONS = "Does the assistant need this tool for its next step in the conversation?"
"""What is asked about each tool, before its name and description."""


class RunnerOptions(TypedDict, total=False):
    """Who answers: the fields of a `LayaDecisionModel`."""

    runner: Any
    model: str | None
    options: CallOptions


class LayaToolSelectorMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Keep the `max_tools` tools that fit the conversation best, before each model call.

    `LayaToolSelectorMiddleware(runner=..., max_tools=4)`. Each tool is a question about the whole conversation
    (tool results too; laya cuts a long one at its oldest turns), and all are answered in one laya call. Tools
    in `always_include`, the tool that `tool_choice` names and a provider's own tools stay and don't count; a name
    that no tool has is a warning.
    Where no more than `max_tools` are left to choose from, laya isn't asked; where it fails, or gives no answer
    within `timeout` seconds (loading the model counts), the model sees all tools.
    """

    def __init__(
        self,
        *args: Never,
        max_tools: int = 5,
        always_include: Collection[str] = (),
        instructions: str = INSTRUCTIONS,
        timeout: float | None = None,
        **runner: Unpack[RunnerOptions],
    ) -> None:
        """Raise a ValueError for `max_tools` below 1, a `timeout` that is not positive, or two runners.

        A `max_tools` that is no whole number is a TypeError.
        """
        refuse_positional(self, args)
        super().__init__()
        if isinstance(max_tools, bool) or not hasattr(max_tools, "__index__"):
            raise TypeError(f"max_tools must be a whole number, got {type(max_tools).__name__}")
        if max_tools < 1:
            raise ValueError(f"max_tools must be at least 1, got {max_tools}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")
        if isinstance(always_include, str):
            raise ValueError(f"always_include must be a list of tool names, got the text {always_include!r}")
        self._max_tools = max_tools
        self._always_include = frozenset(always_include)
        self._unchecked = self._always_include
        """Tools named in `always_include` that were not looked for yet."""
        self._instructions = instructions
        self._timeout = timeout
        self._classifier = LayaDecisionModel(**runner)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the selected tools."""
        selection = self._selection(request)
        if selection is not None:
            try:
                request = selection.applied(self._asked().invoke(selection.question()))
            except Exception as error:
                _fall_open(error)
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """`wrap_model_call`, off the event loop."""
        selection = self._selection(request)
        if selection is not None:
            try:
                request = selection.applied(await self._asked().ainvoke(selection.question()))
            except Exception as error:
                _fall_open(error)
        return await handler(request)

    def _selection(self, request: ModelRequest[Any]) -> _Selection | None:
        named, self._unchecked = self._unchecked, frozenset()
        warn_of_unknown_tools("always_include", named, request)
        kept = self._always_include | _chosen(request.tool_choice)
        candidates = [tool for tool in request.tools if isinstance(tool, BaseTool) and tool.name not in kept]
        if len(candidates) <= self._max_tools:
            return None
        return _Selection(request, candidates, self._max_tools, self._instructions)

    def _asked(self) -> TimedDecisionModel:
        return TimedDecisionModel.of(self._classifier, self._classifier.options, self._timeout)


@dataclass(frozen=True)
class _Selection:
    """The tools that one model call may be spared."""

    request: ModelRequest[Any]
    candidates: list[BaseTool]
    count: int
    instructions: str

    def question(self) -> ClassifierRequest:
        """A yes-or-no question a tool, by its place; names may repeat."""
        questions: Any = {
            str(place): {"type": "noul", "instructions": f"{self.instructions}\n{tool.name}: {tool.description}"}
            for place, tool in enumerate(self.candidates)
        }
        return {"state": self.request.messages, "questions": questions}

    def applied(self, response: LayaClassifierResponse) -> ModelRequest[Any]:
        """The request without the tools that fit least; the others stay in order, earlier ones first in a tie."""
        needed = {place: response.nouls[str(place)].noul for place in range(len(self.candidates))}
        ranked = sorted(needed, key=needed.__getitem__, reverse=True)
        dropped = {id(self.candidates[place]) for place in ranked[self.count :]}
        return self.request.override(tools=[tool for tool in self.request.tools if id(tool) not in dropped])


def _chosen(tool_choice: Any) -> frozenset[str]:
    """The tool that the caller insists on, in any provider's form."""
    match tool_choice:
        case str():
            return frozenset([tool_choice])
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return frozenset([name])
        case _:
            return frozenset()


def _fall_open(error: Exception) -> None:
    if steers_graph(error):
        raise error
    # The type alone: an error's text may repeat the conversation.
    logger.warning("laya: the tools could not be selected (%s); the model sees all", type(error).__name__)
