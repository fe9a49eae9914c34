"""Read the text in a message's content blocks, in every provider's form.

| block | read |
|---|---|
| a string, a text block | the text, and the title and context of a document |
| the result of a tool | its text, or its JSON |
| a thought, a tool call | nothing: a call is read from the message's `tool_calls` |
| any other, also an unknown one | all strings at any depth, but for media, addresses and ids |

Blocks of unknown types come last: what they hold may be long, and a long text loses its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
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
        *("image_generation_call", "mcp_approval_request", "mcp_list_tools", "reasoning_content", "web_search_call"),
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

_NOTES = frozenset(("cache_control", "extras", "index"))
"""Keys of what is said about a block, at any depth."""

_REFERENCE = frozenset(("base64", "bytes", "data", "file_data", "file_id", "file_uri", "fileUri", "uri", "url"))
"""Keys of a medium, or of where it lies."""

_ENCODED = re.compile(r"data:[^\s,]*;\s*base64,|[A-Za-z0-9+/_=-]{200}")
"""The beginning of an encoded file; no text goes on for so long without a space."""


def content_text(content: Any, plain: Callable[[Any], Any]) -> str:
    """The text of a message's content: its strings and blocks, a line each.

    `plain` gives the JSON form of a tool's result.
    """
    if isinstance(content, str):
        return content
    blocks = sorted(content, key=_is_unknown)
    return "\n".join(text for block in blocks for text in _texts(block, plain))


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


def _is_unknown(block: Any) -> bool:
    return isinstance(block, Mapping) and "type" in block and _kind(block) is None


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
        isinstance(value, Mapping) and not _REFERENCE.isdisjoint(value)
        if key in ("source", block["type"])
        else isinstance(value, str) and (key in ("base64", "data", "file_data") or value.startswith("data:"))
        for key, value in block.items()
    )


def _texts(value: Any, plain: Callable[[Any], Any]) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for item in value if not _is_encoded(item) for text in _texts(item, plain)]
    if not isinstance(value, Mapping):
        return []
    match _kind(value):
        case "text":
            keys = (_TEXT_KEYS[value["type"]], "title", "context")
            return [value[key] for key in keys if isinstance(value.get(key), str)]
        case "tool_result":
            return [_result_text(value["content"], plain)]
        case "unread":
            return []
        case _:
            return [text for key, item in value.items() for text in _field_texts(value, key, item, plain)]


def _field_texts(block: Mapping[str, Any], key: str, value: Any, plain: Callable[[Any], Any]) -> list[str]:
    if key in _NOTES or _is_encoded(value):
        return []
    if key in _RESULT_KEYS:
        return [_result_text(value, plain)]
    if not isinstance(value, str):
        return _texts(value, plain)
    return [value] if _is_text(block, key, value) else []


def _is_text(block: Mapping[str, Any], key: str, value: str) -> bool:
    if key not in _NO_TEXT and not key.endswith(("_id", "Id")):
        return True
    if key == "data" and "text" in (block.get("type"), block.get("source_type")):
        return True
    # Whatever the key promises: neither base64 nor an address nor an id has spaces or letters beyond ASCII.
    return " " in value or not value.isascii()


def _is_encoded(value: Any) -> bool:
    return isinstance(value, str) and _ENCODED.match(value) is not None


def _result_text(content: Any, plain: Callable[[Any], Any]) -> str:
    if content is None or isinstance(content, str | list | tuple):
        return content_text(content or "", plain)
    return json.dumps(_without_encoded(plain(content)), ensure_ascii=False, default=str)


def _without_encoded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_encoded(item) for key, item in value.items() if not _is_encoded(item)}
    if isinstance(value, list):
        return [_without_encoded(item) for item in value if not _is_encoded(item)]
    return value
