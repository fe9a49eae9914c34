"""A guardrail around an agent: what goes in, what the model says, and the tools that it calls.

agent = create_agent(model, tools=[...], middleware=[LayaGuardrailMiddleware(runner=laya_agent)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Never, Unpack

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from laya_integrations._fields import refuse_positional
from laya_integrations.langchain._agents import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    Runtime,
    hook_config,
    warn_of_unknown_tools,
)
from laya_integrations.langchain._parts import item_state, replaced
from laya_integrations.langchain._reviews import Flagged, rejected
from laya_integrations.langchain.guardrail import GuardrailOptions, LayaGuardrail
from laya_integrations.langchain.messages import state_of
from laya_integrations.langchain.verdicts import VERDICT_KEY, GuardrailVerdict

GuardAction = Literal["block", "ask", "allow"]
"""What to do about a violation: stop it, ask a person, or nothing; what is allowed is not judged."""

_ACTIONS = ("block", "ask", "allow")
_BLOCKED = "laya_guardrail_blocked"
"""In the `response_metadata` of the message that stands for a blocked call."""

Judged = list[tuple[Flagged, Any]]
"""What is judged, before its verdict is known, with its state."""


class LayaGuardrailMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Judge an agent's input, its answers and its tool calls; block what violates, or ask a person.

    `LayaGuardrailMiddleware(runner=..., questions=..., tool_calls={"pay": "ask"})`; who judges, by which
    questions and thresholds, are the fields of `LayaGuardrail`. Two in one agent need a `name=` each.

    - `input`, before each model call: the messages after the model's last one (a user's turn, tool results),
      each by itself. Blocked: their text is replaced in the agent's state, so that no later turn reads it, and
      the agent ends with `message`. Earlier turns were judged when they came. Where the client sends the history
      with each request, in place of a checkpointer, it may send what was blocked again, or a model's turn that
      never was: `judge_history=True` judges every message that is not the model's, each time.
    - `output`, after each model call: what the model says. Blocked: `message` stands in its place, its tool
      calls are dropped, and the agent ends. A streamed answer has reached the user by then.
    - `tool_calls`: each call by `{"tool_call": {"name", "args"}, "request": the user's newest text}`. Blocked:
      the call gets an error message and does not run; the model goes on. By tool name too, where other tools
      are allowed.

    Answers and calls of one turn share their passes. `ask` interrupts the agent, which needs a checkpointer,
    with LangChain's `HITLRequest`; see `HumanInTheLoopMiddleware` for how it is resumed, by approve or reject.
    """

    def __init__(
        self,
        *args: Never,
        input: GuardAction = "block",
        output: GuardAction = "block",
        tool_calls: GuardAction | Mapping[str, GuardAction] = "block",
        judge_history: bool = False,
        message: str = "I can't help with that.",
        name: str | None = None,
        **guardrail: Unpack[GuardrailOptions],
    ) -> None:
        """Check the actions and make the guardrail; raises ValueError as `LayaGuardrail` does.

        A `message` that is no text, and an `action`, are a TypeError.
        """
        refuse_positional(self, args)
        if "action" in guardrail:
            raise TypeError(
                "action is LayaGuardrail's; here input=, output= and tool_calls= take block, ask or allow instead"
            )
        if not isinstance(message, str):
            raise TypeError(f"message must be a text, got {type(message).__name__}")
        super().__init__()
        self._input = _checked("input", input)
        self._output = _checked("output", output)
        self._tool_calls = (
            {tool: _checked(f"tool_calls[{tool!r}]", action) for tool, action in tool_calls.items()}
            if isinstance(tool_calls, Mapping)
            else _checked("tool_calls", tool_calls)
        )
        self._judge_history = judge_history
        self._unchecked = frozenset(self._tool_calls) if isinstance(self._tool_calls, dict) else frozenset()
        """Tools named in `tool_calls` that were not looked for yet."""
        self._message = message
        self._name = name or type(self).__name__
        self.guardrail = LayaGuardrail(**guardrail)
        """Who judges; its `action` plays no part here."""

    @property
    def name(self) -> str:
        """The middleware's name in the graph."""
        return self._name

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge what the model is about to read."""
        judged = self._incoming(state)
        return self._admitted(judged, self.guardrail.judge(_states(judged))) if judged else None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """`before_model`, off the event loop."""
        judged = self._incoming(state)
        return self._admitted(judged, await self.guardrail.ajudge(_states(judged))) if judged else None

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge what the model said and which tools it calls."""
        judged = self._outgoing(state)
        return self._released(state, judged, self.guardrail.judge(_states(judged))) if judged else None

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """`after_model`, off the event loop."""
        judged = self._outgoing(state)
        return self._released(state, judged, await self.guardrail.ajudge(_states(judged))) if judged else None

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model; warns once of tools in `tool_calls` that the agent does not have."""
        self._check_names(request)
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """`wrap_model_call`, off the event loop."""
        self._check_names(request)
        return await handler(request)

    def _check_names(self, request: ModelRequest[Any]) -> None:
        named, self._unchecked = self._unchecked, frozenset()
        warn_of_unknown_tools("tool_calls", named, request)

    def _incoming(self, state: AgentState[Any]) -> Judged:
        if self._input == "allow":
            return []
        messages = state["messages"] if self._judge_history else _last_turn(state["messages"])[1]
        return [
            (_subject("input", {"text": message.text}, message, self._input), item_state(message))
            for message in messages
            if not isinstance(message, SystemMessage | AIMessage) and not _is_own(message)
        ]

    def _admitted(self, judged: Judged, verdicts: Sequence[GuardrailVerdict]) -> dict[str, Any] | None:
        blocked = rejected(_flagged(judged, verdicts))
        if not blocked:
            return None
        removed = [replaced(item.subject, self.guardrail.replacement) for item in blocked]
        return {"messages": [*removed, AIMessage(self._refusal(blocked))], "jump_to": "end"}

    def _outgoing(self, state: AgentState[Any]) -> Judged:
        message, results = _last_turn(state["messages"])
        if message is None:
            return []
        judged: Judged = []
        structured = state.get("structured_response") is not None
        if self._output != "allow" and (message.text or structured):
            said = state_of(message) if structured else message.text
            judged.append((_subject("output", {"text": message.text}, message, self._output), said))
        answered = {result.tool_call_id for result in results if isinstance(result, ToolMessage)}
        request = _request(state["messages"])
        for call in message.tool_calls:
            action = self._tool_action(call["name"])
            if action != "allow" and call["id"] not in answered:
                shown = {"tool_call": {"name": call["name"], "args": call["args"]}, "request": request}
                judged.append((_subject(call["name"], call["args"], call, action), shown))
        return judged

    def _released(
        self, state: AgentState[Any], judged: Judged, verdicts: Sequence[GuardrailVerdict]
    ) -> dict[str, Any] | None:
        blocked = rejected(_flagged(judged, verdicts))
        said = [item for item in blocked if isinstance(item.subject, BaseMessage)]
        if said:
            message, results = _last_turn(state["messages"])
            # Removed and said anew: LangGraph streams no message twice, and this one it has streamed.
            removed = [RemoveMessage(id=old.id) for old in (message, *results) if old is not None and old.id]
            update = {"messages": [*removed, AIMessage(self._refusal(said))], "jump_to": "end"}
            return {**update, "structured_response": None} if "structured_response" in state else update
        return {"messages": [_blocked_call(item) for item in blocked]} if blocked else None

    def _tool_action(self, tool: str) -> str:
        return self._tool_calls.get(tool, "allow") if isinstance(self._tool_calls, dict) else self._tool_calls

    def _refusal(self, blocked: Sequence[Flagged]) -> str:
        return next((item.rejection for item in blocked if item.rejection), self._message)


def _checked(argument: str, action: Any) -> str:
    if action not in _ACTIONS:
        raise ValueError(f"{argument} must be one of {', '.join(_ACTIONS)}, got {action!r}")
    return str(action)


def _subject(name: str, args: dict[str, Any], subject: Any, action: str) -> Flagged:
    return Flagged(name, args, GuardrailVerdict(flagged=False), subject, action)


def _states(judged: Judged) -> list[Any]:
    return [state for _, state in judged]


def _flagged(judged: Judged, verdicts: Sequence[GuardrailVerdict]) -> list[Flagged]:
    return [
        Flagged(item.name, item.args, verdict, item.subject, item.action)
        for (item, _), verdict in zip(judged, verdicts, strict=True)
        if verdict.flagged
    ]


def _last_turn(messages: Sequence[BaseMessage]) -> tuple[AIMessage | None, list[BaseMessage]]:
    """The model's last message, and what came after it."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AIMessage):
            return message, list(messages[place + 1 :])
    return None, list(messages)


def _request(messages: Sequence[BaseMessage]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")


def _is_own(message: BaseMessage) -> bool:
    """Whether it says that a call was blocked, which quotes the finding."""
    return isinstance(message, ToolMessage) and message.status == "error" and _BLOCKED in message.response_metadata


def _blocked_call(item: Flagged) -> ToolMessage:
    reason = f" A person rejected it: {item.rejection}" if item.rejection else ""
    return ToolMessage(
        f"The call of {item.name} was blocked by a guardrail, for {item.finding}. It was not run.{reason}",
        name=item.name,
        tool_call_id=item.subject["id"],
        status="error",
        response_metadata={_BLOCKED: True, VERDICT_KEY: item.verdict.model_dump()},
    )
