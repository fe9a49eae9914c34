"""Turn LangChain inputs into states that laya reads.

| input | state |
|---|---|
| text, `StringPromptValue` | the text |
| a message | `{"role", "content"}`, with `name` and `tool_calls` where it has them |
| messages, `ChatPromptValue` | a list of such dicts: every turn, tool results too |
| a dict or list | itself, with messages and content blocks inside it turned at any depth |
| a pydantic object, a dataclass | a dict of its fields, read the same way |
| dates and times, `UUID`, `Decimal`, `Enum` | the JSON form that pydantic gives them |
| content blocks (`[{"type": "text", ...}, ...]`) | their texts; images, audio and reasoning are left out |

laya takes a list for a conversation: a long one loses its oldest turns, anything else loses its end.
So from a graph's state select what the decision is about: `itemgetter("messages") | runnable`.
"""

from __future__ import annotations

import json
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

_ROLE_NAMES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}
"""First elements of a `(role, text)` pair, as prompts and chat models accept them."""

_TEXT_KEYS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "text-plain": "text",
    "refusal": "refusal",
}
"""Block types that hold text, and the key that holds it."""

_OTHER_BLOCKS = frozenset(
    (
        *("audio", "document", "file", "image", "image_url", "media", "video", "video_url"),
        *("input_audio", "input_file", "input_image"),
        *("reasoning", "redacted_thinking", "thinking"),
        *("computer_call", "custom_tool_call", "function_call", "tool_call", "tool_call_chunk", "tool_use"),
        *("invalid_tool_call", "server_tool_call", "server_tool_call_chunk", "server_tool_use"),
        *("server_tool_result", "web_search_call", "web_search_tool_result"),
        "non_standard",
    )
)
"""Block types without text of their own. A tool call is read from the message's `tool_calls`."""

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
    if "role" in value and _is_message_content(value.get("content")):
        state["content"] = _content_text(value["content"])
    return state


def _is_message_content(content: Any) -> bool:
    """Tell a message's blocks, some perhaps unknown, from a list of objects in a record that has a role."""
    if not isinstance(content, list | tuple):
        return False
    blocks = [block for block in content if not isinstance(block, str)]
    typed = all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in blocks)
    return typed and (len(blocks) < len(content) or not content or any(map(_block_kind, blocks)))


def _list_state(values: Sequence[Any]) -> Any:
    if _is_content(values):
        return _content_text(values)
    return [_item_state(item) for item in values if not isinstance(item, RemoveMessage)]


def _item_state(item: Any) -> Any:
    match item:
        case (str(role), str(text)) if isinstance(item, tuple) and role in _ROLE_NAMES:
            return {"role": _ROLE_NAMES[role], "content": text}
        case _:
            return _state(item)


def _is_content(values: Sequence[Any]) -> bool:
    """Tell a message's content blocks from a list of the user's own objects that have a "type" too."""
    kinds = [_block_kind(value) for value in values]
    return any(kind in ("text", "tool_result") for kind in kinds) and None not in kinds


def _block_kind(block: Any) -> str | None:
    """`text`, `tool_result`, `other`, or None for what is no content block."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str):
        return None
    if kind in _TEXT_KEYS and isinstance(block.get(_TEXT_KEYS[kind]), str):
        return "text"
    if kind == "tool_result" and "content" in block:
        return "tool_result"
    return "other" if kind in _OTHER_BLOCKS else None


def _content_text(content: Any) -> str:
    """The text of a message's content: its strings and text blocks, a line each."""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in content for text in _block_texts(block))


def _block_texts(block: Any) -> list[str]:
    if isinstance(block, str):
        return [block]
    match _block_kind(block):
        case "text":
            return [block[_TEXT_KEYS[block["type"]]]]
        case "tool_result":
            return [_tool_result_text(block["content"])]
        case _:
            return []


def _tool_result_text(content: Any) -> str:
    if content is None or isinstance(content, str | list | tuple):
        return _content_text(content or "")
    return json.dumps(_state(content), ensure_ascii=False, default=str)
