"""Take an input apart into what a guardrail judges, and put it together again with its types kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue

from laya_integrations.langchain.messages import ROLE_NAMES, message_role, state_of
from laya_integrations.langchain.runnables import LayaMessage
from laya_integrations.langchain.verdicts import VERDICT_KEY

Item = Any
"""A text, message, document or object that is judged by itself."""


@dataclass(frozen=True)
class Parts:
    """The items of an input that are judged."""

    input: Any
    items: list[Item]
    """In the input's order."""
    positions: list[int | None]
    """Each item's place in its list; None where the input is one item."""
    rebuild: Callable[[list[Item]], Any]
    """Makes an input like this one of changed items."""

    def with_items(self, items: list[Item]) -> Any:
        """The input with these items; itself where none changed."""
        same = all(new is old for new, old in zip(items, self.items, strict=True))
        return self.input if same else self.rebuild(items)

    def answered_calls(self) -> frozenset[str]:
        """Ids of the tool calls that have results among the items."""
        return frozenset(call_id for item in self.items if isinstance(call_id := _answered_call(item), str))


def take_apart(input: Any) -> Parts:
    """The items of a conversation, a list, or the `messages` of a dict; everything else is one item.

    What such a dict holds beside its messages stays unjudged: in a graph's state those are ids, settings and results,
    which questions about a message take for attacks.
    """
    match input:
        case StringPromptValue():
            return Parts(input, [input.text], [None], lambda items: StringPromptValue(text=items[0]))
        case PromptValue():
            return _listed(input, input.to_messages(), lambda items: ChatPromptValue(messages=items))
        case {"messages": [*messages]}:
            like = _like(input["messages"])
            return _listed(input, messages, lambda items: {**input, "messages": like(items)})
        case [*items] if not _is_content(items):
            return _listed(input, items, _like(input))
        case _:
            return Parts(input, [input], [None], lambda items: items[0])


def item_state(item: Item) -> Any:
    """What laya reads of an item: of a message or document its text, where it has nothing else to read."""
    if isinstance(item, Document):
        return item.page_content
    state = state_of([item])
    # Content blocks are read as one text.
    state = state if isinstance(state, str) else state[0]
    role = message_role(item)
    if role is None or not isinstance(state, dict):
        return state
    # A tool's name is the developer's; a person's may say anything.
    ids = [key for key in ("id", "tool_call_id") if " " not in str(state.get(key))]
    read = {"content", "role", *ids, *(["name"] if role == "tool" else [])}
    if isinstance(item, Mapping) and "role" not in item:
        read.add("type")
    return state["content"] if state.keys() <= read else state


def replaced(item: Item, text: str, answered_calls: frozenset[str] = frozenset()) -> Item:
    """The item with `text` in place of all that it says; a TypeError for what has no text to replace.

    A message keeps its type and ids. Of its tool calls those that have results stay, without arguments; the
    others are dropped, for nothing may run that was judged to violate.
    """
    match item:
        case str():
            return text
        case BaseMessage():
            return _replaced_message(item, text, answered_calls)
        case Document():
            return item.model_copy(update={"page_content": text})
        case (str(role), str() | list()) if role in ROLE_NAMES:
            return _like(item)([role, text])
        case Mapping() if message_role(item) is not None:
            return _replaced_dict(item, text, answered_calls)
        case Mapping() | list() | tuple():
            try:
                if _holds_text(item):
                    return _replaced_texts(item, text)
            except RecursionError:
                raise _no_text(item) from None
    raise _no_text(item)


def annotated(item: Item, note: dict[str, Any]) -> Item:
    """The item with the note, where it has a place for one; text and `(role, text)` pairs have none."""
    match item:
        case BaseMessage():
            # Providers are sent `additional_kwargs`, but not this.
            return item.model_copy(update={"response_metadata": {**item.response_metadata, VERDICT_KEY: note}})
        case Document():
            return item.model_copy(update={"metadata": {**item.metadata, VERDICT_KEY: note}})
        case Mapping() if message_role(item) is None:
            return {**item, VERDICT_KEY: note}
        case _:
            return item


def _listed(input: Any, items: Sequence[Any], rebuild: Callable[[list[Any]], Any]) -> Parts:
    """One part an item, but for system messages: they are the developer's, not a guest's."""
    places = [place for place, item in enumerate(items) if not _is_system(item)]

    def with_changed(changed: list[Any]) -> Any:
        found = dict(zip(places, changed, strict=True))
        return rebuild([found.get(place, item) for place, item in enumerate(items)])

    return Parts(input, [items[place] for place in places], [*places], with_changed)


def _like(value: Any) -> Callable[[list[Any]], Any]:
    return tuple if isinstance(value, tuple) else list


def _is_system(item: Any) -> bool:
    return isinstance(item, RemoveMessage) or message_role(item) in ("system", "developer")


def _answered_call(item: Any) -> Any:
    """The id of the tool call that it is the result of."""
    if isinstance(item, ToolMessage):
        return item.tool_call_id
    is_result = isinstance(item, Mapping) and message_role(item) == "tool"
    return item.get("tool_call_id") if is_result else None


def _is_content(items: list[Any]) -> bool:
    """Whether the list is one message's content."""
    if not any(isinstance(item, Mapping) and "type" in item for item in items):
        return False
    try:
        return isinstance(state_of(items), str)
    except TypeError:  # nested too deeply; the run of its judging shows it
        return False


def _replaced_message(message: BaseMessage, text: str, answered_calls: frozenset[str]) -> BaseMessage:
    # Providers' raw copies of tool calls and reasoning lie in additional_kwargs.
    update: dict[str, Any] = {"content": text, "additional_kwargs": {}}
    if isinstance(message, AIMessage):
        kept = _answered(message.tool_calls, answered_calls)
        update |= {"tool_calls": kept, "invalid_tool_calls": []}
        if "tool_call_chunks" in type(message).model_fields:
            update["tool_call_chunks"] = []
    if isinstance(message, ToolMessage):
        update["artifact"] = None
    if isinstance(message, LayaMessage):
        update["result"] = {}
    return message.model_copy(update=update)


def _replaced_dict(message: Mapping[str, Any], text: str, answered_calls: frozenset[str]) -> dict[str, Any]:
    role = "role" if "role" in message else "type"
    kept = {key: message[key] for key in (role, "name", "id", "tool_call_id") if key in message}
    calls = _answered(message.get("tool_calls"), answered_calls)
    return {**kept, "content": text, **({"tool_calls": calls} if calls else {})}


def _answered(calls: Any, answered_calls: frozenset[str]) -> list[dict[str, Any]]:
    """The tool calls that have results, without their arguments."""
    kept = []
    for call in calls if isinstance(calls, list | tuple) else ():
        match call:
            case {"id": str(call_id), "function": {"name": name}} if call_id in answered_calls:
                kept.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}})
            case {"id": str(call_id), "name": name} if call_id in answered_calls:
                kept.append({"name": name, "args": {}, "id": call_id, "type": "tool_call"})
    return kept


def _replaced_texts(value: Any, text: str) -> Any:
    match value:
        case str() | BaseMessage() | Document():
            return replaced(value, text)
        case Mapping():
            return {key: _replaced_texts(item, text) for key, item in value.items()}
        case [*items] if _is_content(items):
            return [{"type": "text", "text": text}]
        case list() | tuple():
            return _like(value)([_replaced_texts(item, text) for item in value])
        case None | bool() | int() | float():
            return value
        case _:
            # It would pass with what it says.
            raise _no_text(value)


def _holds_text(value: Any) -> bool:
    match value:
        case Mapping():
            return any(map(_holds_text, value.values()))
        case list() | tuple():
            return any(map(_holds_text, value))
        case _:
            return not isinstance(value, int | float | None)


def _no_text(value: Any) -> TypeError:
    return TypeError(
        f'the guardrail can\'t replace the text of a {type(value).__name__}; use action="raise", or guard text, '
        "messages, or dicts of them"
    )
