"""Turn LangChain inputs into states that laya reads.

| input | state |
|---|---|
| text, `StringPromptValue` | the text |
| a message | `{"role", "content"}`, with `name` and `tool_calls` where it has them |
| messages, `ChatPromptValue` | a list of such dicts: every turn, tool results too |
| a dict or list | itself, with messages and content blocks inside it turned at any depth |
| a pydantic object, a dataclass | a dict of its fields, read the same way |
| dates and times, `UUID`, `Decimal`, `Enum` | the JSON form that pydantic gives them |
| content blocks (`[{"type": "text", ...}, ...]`) | their texts; images, audio and reasoning are left out (`_blocks`) |

laya takes a list for a conversation: a long one loses its oldest turns, anything else loses its end.
So from a graph's state select what the decision is about: `itemgetter("messages") | runnable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompt_values import PromptValue, StringPromptValue
from pydantic import BaseModel, RootModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from laya_integrations.langchain._blocks import content_text, is_content, is_message_content

try:
    from laya.errors import StateError
except ModuleNotFoundError:  # a laya release whose errors are Python's own
    StateError = TypeError  # type: ignore[misc,assignment]

_ROLES: tuple[tuple[type[BaseMessage], str], ...] = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (SystemMessage, "system"),
    (ToolMessage, "tool"),
    (FunctionMessage, "tool"),
)

ROLE_NAMES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""What prompts and chat models accept as a message's role, or as its `type`, with laya's name for it."""

_MESSAGE_KEYS = frozenset(
    (
        *("type", "content", "name", "id", "tool_call_id", "tool_calls", "invalid_tool_calls", "artifact", "status"),
        *("additional_kwargs", "response_metadata", "usage_metadata", "example"),
    )
)
"""Keys of LangChain's own messages as dicts; a record of the user's that has a type and a content has others."""

_PLAIN = (date, time, timedelta, Decimal, UUID)
"""Values in dicts and dataclasses that JSON lacks and everybody writes the same way."""


def state_of(value: Any) -> Any:
    """The state that laya reads: text, a dict or a list, free of LangChain objects.

    Raises StateError for what is nested too deeply, or contains itself, and for an object without a JSON form.
    """
    try:
        return _state(value)
    except RecursionError:
        raise StateError("the state is nested too deeply, or contains itself; pass a flatter one") from None
    except (UnicodeDecodeError, PydanticSerializationError):
        # Their messages quote the state.
        raise StateError("the state holds an object that has no JSON form; pass text, dicts and lists") from None


def message_role(item: Any) -> str | None:
    """The role of a message in any form that chat models take; None for what is no message.

    The forms: an object, a dict with `content` and a `role`, or with a `type` in its place and nothing that LangChain's
    messages lack, and a tuple of role and content.
    """
    match item:
        case BaseMessage():
            return _role(item)
        case {"role": str(role), "content": _}:
            return ROLE_NAMES.get(role)
        case {"type": str(role), "content": _} if item.keys() <= _MESSAGE_KEYS:
            return ROLE_NAMES.get(role)
        case (str(role), str() | list()) if isinstance(item, tuple):
            return ROLE_NAMES.get(role)
        case _:
            return None


def _state(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, BaseModel):
        return _object_state(value)
    if isinstance(value, Mapping):
        return _mapping_state(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return _list_state(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _state(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return _state(value.value)
    return to_jsonable_python(value) if isinstance(value, _PLAIN) else value


def _object_state(value: BaseModel) -> Any:
    if isinstance(value, StringPromptValue):
        return value.text
    if isinstance(value, PromptValue):
        return _list_state(value.to_messages())
    return _message_state(value) if isinstance(value, BaseMessage) else _model_state(value)


def _message_state(message: BaseMessage) -> dict[str, Any]:
    state: dict[str, Any] = {"role": _role(message)}
    if message.name:
        state["name"] = message.name
    state["content"] = _content_text(message.content)
    if isinstance(message, AIMessage) and message.tool_calls:
        state["tool_calls"] = [{"name": call["name"], "args": _state(call["args"])} for call in message.tool_calls]
    return state


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    return next((role for kind, role in _ROLES if isinstance(message, kind)), message.type)


def _model_state(model: BaseModel) -> Any:
    """The JSON form; what holds messages is read from the object, for their own JSON form is full of metadata."""
    held = {name: item for name, item in model if _holds_messages(item)}
    if not held:
        return _state(model.model_dump(mode="json"))
    if isinstance(model, RootModel):
        return _state(model.root)
    left_out = {name for name, field in type(model).model_fields.items() if field.exclude}
    read = {**model.model_dump(mode="json", exclude=set(held)), **held}
    order = [name for name, _ in model if name in read and name not in left_out]
    return {name: _state(read[name]) for name in dict.fromkeys([*order, *read]) if name not in left_out}


def _holds_messages(value: Any) -> bool:
    if isinstance(value, BaseMessage | PromptValue):
        return True
    if isinstance(value, BaseModel):
        return any(_holds_messages(item) for _, item in value)
    if isinstance(value, Mapping):
        return any(map(_holds_messages, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_messages, value))


def _mapping_state(value: Mapping[Any, Any]) -> dict[Any, Any]:
    state = {key: _state(item) for key, item in value.items()}
    if is_message_content(value.get("content")) and ("role" in value or message_role(value) is not None):
        state["content"] = _content_text(value["content"])
    return state


def _list_state(values: Sequence[Any]) -> Any:
    if is_content(values):
        return _content_text(values)
    return [_item_state(item) for item in values if not isinstance(item, RemoveMessage)]


def _item_state(item: Any) -> Any:
    if isinstance(item, tuple) and (role := message_role(item)) is not None:
        content = item[1]
        is_read = isinstance(content, str) or is_message_content(content)
        return {"role": role, "content": _content_text(content) if is_read else _state(content)}
    return _state(item)


def _content_text(content: Any) -> str:
    return content_text(content, _state)
