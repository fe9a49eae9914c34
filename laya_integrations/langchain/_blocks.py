"""Read the text in a message's content blocks, in every provider's form.

| block | read |
|---|---|
| a string, a text block | the text, and the title and context of a document |
| the result of a tool | its text, or its JSON |
| a thought, a tool call | nothing: a call is read from the message's `tool_calls` |
| any other, also an unknown one | all strings at any depth, but for media, addresses and ids |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_TEXT_KEYS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "text-plain": "text",
    "refusal": "refusal",
}
"""Block types that hold text, and the key that holds it."""

_MEDIA = frozenset(
    (
        *("audio", "document", "file", "image", "image_url", "media", "video", "video_url"),
        *("input_audio", "input_file", "input_image"),
    )
)

_UNREAD = frozenset(
    (
        *("reasoning", "redacted_thinking", "thinking"),
        *("computer_call", "custom_tool_call", "function_call", "tool_call", "tool_call_chunk", "tool_use"),
        *("invalid_tool_call", "server_tool_call", "server_tool_call_chunk", "server_tool_use", "mcp_tool_use"),
        "web_search_call",
    )
)

_OTHER = frozenset(
    (
        *("json", "non_standard", "search_result"),
        *("mcp_tool_result", "server_tool_result", "web_search_tool_result", "web_fetch_tool_result"),
        *("bash_code_execution_tool_result", "code_execution_tool_result", "text_editor_code_execution_tool_result"),
    )
)

_RESULT_KEYS = frozenset(("json", "output"))
"""Keys of any block that hold what a tool gave, in any form."""

_NO_TEXT = frozenset(
    (
        *("audio", "b64_json", "base64", "blob", "bytes", "data", "file_data", "image", "video"),
        *("file_uri", "file_url", "fileUri", "image_url", "uri", "url", "video_url"),
        *("detail", "format", "id", "media_type", "mime_type", "mimeType", "source_type", "status", "type"),
        *("encrypted_content", "encrypted_index", "signature", "thought_signature", "thoughtSignature"),
    )
)
"""Keys of media, addresses, ids and forms."""


def content_text(content: Any) -> str:
    """The text of a message's content: its strings and blocks, a line each."""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in content for text in _texts(block))


def is_content(values: Sequence[Any]) -> bool:
    """Tell a message's content blocks from a list of the user's own objects that have a "type" too."""
    kinds = [_kind(value) for value in values]
    if None in kinds:
        return False
    return any(kind in ("text", "tool_result") for kind in kinds) or any(map(_holds_media, values))


def is_message_content(content: Any) -> bool:
    """Tell a message's blocks, some perhaps unknown, from a list of objects in a record that has a role."""
    if not isinstance(content, list | tuple):
        return False
    blocks = [block for block in content if not isinstance(block, str)]
    typed = all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in blocks)
    return typed and (len(blocks) < len(content) or not content or any(map(_kind, blocks)))


def _kind(block: Any) -> str | None:
    """`text`, `tool_result`, `unread`, `other`, or None for what is no content block, or an unknown one."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str):
        return None
    if kind in _TEXT_KEYS and isinstance(block.get(_TEXT_KEYS[kind]), str):
        return "text"
    if kind == "tool_result" and "content" in block:
        return "tool_result"
    if kind in _UNREAD:
        return "unread"
    return "other" if kind in _MEDIA or kind in _OTHER else None


def _holds_media(block: Mapping[str, Any]) -> bool:
    """Whether it has its image or sound with it, which no record of the user's own has in such a form."""
    return block["type"] in _MEDIA and any(
        isinstance(value, Mapping) if key in ("source", block["type"]) else _is_encoded(key, value)
        for key, value in block.items()
    )


def _is_encoded(key: str, value: Any) -> bool:
    return isinstance(value, str) and (key in ("base64", "data", "file_data") or value.startswith("data:"))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    if not isinstance(value, Mapping):
        return []
    match _kind(value):
        case "text":
            keys = (_TEXT_KEYS[value["type"]], "title", "context")
            return [value[key] for key in keys if isinstance(value.get(key), str)]
        case "tool_result":
            return [_result_text(value["content"])]
        case "unread":
            return []
        case _:
            return [text for key, item in value.items() for text in _field_texts(value, key, item)]


def _field_texts(block: Mapping[str, Any], key: str, value: Any) -> list[str]:
    if key in _RESULT_KEYS:
        return [_result_text(value)]
    if not isinstance(value, str):
        return _texts(value)
    return [value] if _is_text(block, key, value) else []


def _is_text(block: Mapping[str, Any], key: str, value: str) -> bool:
    if key not in _NO_TEXT and not key.endswith(("_id", "Id")):
        return True
    if key == "data" and "text" in (block.get("type"), block.get("source_type")):
        return True
    # Whatever the key promises: neither base64 nor an address nor an id has spaces or letters beyond ASCII.
    return " " in value or not value.isascii()


def _result_text(content: Any) -> str:
    if content is None or isinstance(content, str | list | tuple):
        return content_text(content or "")
    return json.dumps(content, ensure_ascii=False, default=str)
