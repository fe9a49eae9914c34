"""How LangChain's inputs become states."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from pydantic import BaseModel, Field, RootModel, computed_field

from laya_integrations.langchain import state_of

IMAGE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


class Order(BaseModel):
    """An object that a state may hold."""

    number: int


@pytest.mark.parametrize("state", ["text", "", {"a": [1, {"b": None}]}, ["a", 1, True, None], [], {}, None])
def test_plain_states_stay_as_they_are(state: Any) -> None:
    """Text, JSON objects and arrays are laya's own states."""
    assert state_of(state) == state and type(state_of(state)) is type(state)


@pytest.mark.parametrize(
    ("message", "state"),
    [
        (HumanMessage("hi"), {"role": "user", "content": "hi"}),
        (AIMessage("hi"), {"role": "assistant", "content": "hi"}),
        (AIMessageChunk("hi"), {"role": "assistant", "content": "hi"}),
        (SystemMessage("hi"), {"role": "system", "content": "hi"}),
        (ChatMessage("hi", role="critic"), {"role": "critic", "content": "hi"}),
        (HumanMessage("hi", name="ada"), {"role": "user", "name": "ada", "content": "hi"}),
        (
            ToolMessage("42", tool_call_id="1", name="sum"),
            {"role": "tool", "name": "sum", "content": "42"},
        ),
        (
            AIMessage("", tool_calls=[{"name": "sum", "args": {"of": [1, 2]}, "id": "1"}]),
            {"role": "assistant", "content": "", "tool_calls": [{"name": "sum", "args": {"of": [1, 2]}}]},
        ),
    ],
)
def test_a_message_is_a_role_and_its_text(message: Any, state: Any) -> None:
    """Name and tool calls stay; ids do not, for they say nothing."""
    assert state_of(message) == state


def test_a_dict_may_name_its_role_as_its_type() -> None:
    """As LangChain's own dumps do; blocks are read as text then too."""
    blocks = [{"type": "text", "text": "hi"}, IMAGE]
    assert state_of({"type": "human", "content": blocks}) == {"type": "human", "content": "hi"}
    assert state_of({"type": "note", "content": [{"type": "new"}]}) == {"type": "note", "content": [{"type": "new"}]}


def test_every_turn_is_kept_in_order() -> None:
    """Tool results too: a decision about a conversation needs them."""
    turns = [
        SystemMessage("s"),
        HumanMessage("q"),
        AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}]),
        ToolMessage("found", tool_call_id="1"),
        AIMessage("a"),
        RemoveMessage(id="x"),
    ]
    state = state_of(turns)
    assert [turn["role"] for turn in state] == ["system", "user", "assistant", "tool", "assistant"]
    assert state[3]["content"] == "found"
    assert state_of(tuple(turns)) == state


def test_messages_are_found_at_any_depth() -> None:
    """A graph's state is a dict with messages somewhere in it."""
    state = state_of({"thread": {"turns": [HumanMessage("q")], "last": AIMessage("a")}, "n": 1})
    assert state == {
        "thread": {
            "turns": [{"role": "user", "content": "q"}],
            "last": {"role": "assistant", "content": "a"},
        },
        "n": 1,
    }


def test_prompt_values_are_their_text_or_messages() -> None:
    """What a prompt makes can go straight to laya."""
    assert state_of(PromptTemplate.from_template("say {x}").invoke({"x": "hi"})) == "say hi"
    prompt = ChatPromptTemplate.from_messages([("system", "s"), ("user", "{x}")])
    assert state_of(prompt.invoke({"x": "hi"})) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hi"},
    ]


def test_role_and_text_pairs_are_messages() -> None:
    """As in a chat model's input; a pair with another first word is data."""
    assert state_of([("human", "q"), ("ai", "a")]) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
    ]
    assert state_of([("height", "2 m")]) == [["height", "2 m"]]
    assert state_of([("user", [{"type": "text", "text": "q"}, IMAGE])]) == [{"role": "user", "content": "q"}]
    assert state_of([("user", [{"q": 1}])]) == [{"role": "user", "content": [{"q": 1}]}]


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (["a", {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": "a"}, IMAGE], "a"),
        ([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"}], "a"),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "42"}]}], "42"),
        ([{"type": "tool_result", "content": "42"}], "42"),
        ([IMAGE], ""),
        ([], ""),
    ],
)
def test_content_blocks_are_read_as_their_text(blocks: list[Any], text: str) -> None:
    """Not as the list that holds them; also in plain role and content dicts."""
    assert state_of(HumanMessage(blocks)) == {"role": "user", "content": text}
    assert state_of([{"role": "user", "content": blocks}]) == [{"role": "user", "content": text}]


def test_a_bare_list_of_blocks_is_text_and_other_lists_are_not() -> None:
    """An own list whose items happen to have a "type" stays data."""
    assert state_of([{"type": "text", "text": "a"}, IMAGE]) == "a"
    events = [{"type": "click", "text": "a"}, {"type": "text", "text": "b"}]
    assert state_of(events) == events


@pytest.mark.parametrize(
    "block",
    [
        IMAGE,
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ],
)
def test_images_alone_say_nothing(block: Any) -> None:
    """As in a message: they are no list of objects, whose base64 would be read."""
    assert state_of([block, block]) == "" == state_of(HumanMessage([block]))["content"]


@pytest.mark.parametrize(
    "records", [[{"type": "image", "url": "a.png", "width": 9}], [{"type": "document", "source": "wiki", "page": 3}]]
)
def test_records_of_images_are_the_users_own(records: Any) -> None:
    """They have no image with them."""
    assert state_of(records) == records


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ({"type": "file", "source_type": "text", "text": "a", "mime_type": "text/plain"}, "a"),
        ({"type": "file", "source_type": "base64", "data": "AAAA", "mime_type": "text/plain"}, ""),
        ({"type": "text-plain", "text": "a", "title": "b", "mime_type": "text/plain"}, "a\nb"),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}, "a"),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}}, "a"),
        ({"type": "document", "source": {"type": "base64", "data": "AAAA"}, "title": "a", "context": "b"}, "a\nb"),
        ({"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "a"}]}, "s\nt\na"),
        ({"type": "mcp_tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}]}, "a"),
        ({"type": "server_tool_result", "tool_call_id": "1", "status": "success", "output": "a"}, "a"),
        ({"type": "server_tool_result", "output": {"a": "é"}}, '{"a": "é"}'),
        ({"type": "web_search_tool_result", "content": [{"title": "a", "url": "b", "encrypted_content": "x"}]}, "a"),
        ({"text": "a"}, "a"),
        ({"toolResult": {"toolUseId": "1", "content": [{"text": "a"}, {"json": {"b": 1}}]}}, 'a\n{"b": 1}'),
        ({"type": "json", "json": {"a": 1}}, '{"a": 1}'),
        ({"type": "non_standard", "value": {"text": "a", "score": 0.5}}, "a"),
        ({"type": "new", "parts": [["a"], {"code": "b"}]}, "a\nb"),
        ({"type": "image", "url": "https://a.b/c", "text": "a"}, "a"),
        ({"type": "image", "url": "do this now"}, "do this now"),
        ({"type": "new", "data": "mach das für mich"}, "mach das für mich"),
        ({"image": {"format": "png", "source": {"bytes": b"a"}}}, ""),
        ({"type": "thinking", "thinking": "a", "signature": "AAAA"}, ""),
        ({"type": "tool_use", "id": "1", "name": "pay", "input": {"a": "b"}}, ""),
    ],
)
def test_every_block_is_read_for_its_text(block: Any, read: str) -> None:
    """Also a provider's own and an unknown one; media, addresses and ids are no text."""
    assert state_of(HumanMessage([block]))["content"] == read
    lines = state_of(ToolMessage([block, "end"], tool_call_id="1"))["content"].split("\n")
    assert sorted(lines) == sorted([*read.split("\n"), "end"] if read else ["end"])


LONG = "iVBORw0KGgo" * 40


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_generation_call", "id": "ig", "result": LONG},
        {"type": "mcp_list_tools", "tools": [{"name": "find", "description": "Find a thing."}]},
        {"type": "reasoning_content", "reasoning_content": {"text": "a thought", "signature": "s"}},
        {"type": "unheard_of", "extras": {"why": "a note"}, "index": "lc_0", "images": [LONG], "held": {"file": LONG}},
        {"type": "unheard_of", "value": "data:image/png; base64,iVBO"},
    ],
)
def test_files_thoughts_and_lists_of_tools_are_not_read(block: Any) -> None:
    """Whatever key a file has; what is said beside them is read."""
    assert state_of([HumanMessage([block, {"type": "text", "text": "a cat"}])])[0]["content"].strip() == "a cat"


def test_what_unknown_blocks_hold_comes_last() -> None:
    """A long text loses its end, and that is to be the least known; the rest keeps its order."""
    document = {"type": "document", "source": {"type": "text", "data": "first"}}
    blocks = [{"type": "unheard_of", "words": "last"}, document, {"text": "second"}, {"type": "text", "text": "third"}]
    assert state_of(HumanMessage(blocks))["content"] == "first\nsecond\nthird\nlast"


def test_a_tool_result_has_the_json_of_everything_else() -> None:
    """Messages, times and dataclasses in it too, but no files."""
    content = {"said": HumanMessage("hi"), "at": datetime(2024, 1, 1), "file": LONG}
    assert json.loads(state_of([{"type": "tool_result", "content": content}])) == {
        "said": {"role": "user", "content": "hi"},
        "at": "2024-01-01T00:00:00",
    }


def test_pydantic_objects_are_their_json() -> None:
    """An object inside a state has no other form that laya could read."""
    assert state_of({"order": Order(number=3)}) == {"order": {"number": 3}}


class Plan(Enum):
    """A value that JSON lacks."""

    FREE = "free"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00Z"),
        (timedelta(minutes=90), "PT1H30M"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("9.90"), "9.90"),
        (Plan.FREE, "free"),
    ],
)
def test_plain_values_that_json_lacks_have_their_json_form(value: Any, read: str) -> None:
    """In dicts and lists as in pydantic objects."""
    assert state_of({"a": [value]}) == {"a": [read]}
    assert RootModel[Any](value).model_dump(mode="json") == read


def test_the_callers_objects_stay_unchanged() -> None:
    """A hook that edits a state edits a copy."""
    given = {"turns": [HumanMessage("q")], "tags": ["a"]}
    state_of(given)["tags"].append("b")
    assert given == {"turns": [HumanMessage("q")], "tags": ["a"]}


@pytest.mark.parametrize(
    "state",
    [
        [{"type": ["string", "null"]}],
        {"issues": [{"type": {"name": "bug"}, "text": "It crashes."}]},
        {"role": "manager", "content": [{"id": 1, "note": "Call back."}]},
        {"role": "manager", "content": [{"type": "note", "text": "Call back."}]},
    ],
)
def test_a_record_that_looks_like_a_message_stays_whole(state: Any) -> None:
    """ "type", "role" and "content" are words of many records."""
    assert state_of(state) == state


@pytest.mark.parametrize(
    ("content", "text"),
    [([], ""), (["a", "b"], "a\nb"), ([IMAGE], ""), ([{"type": "text", "text": "a"}, {"type": "new"}], "a")],
)
def test_a_message_dicts_blocks_are_its_text(content: Any, text: str) -> None:
    """As those of a message object; unknown blocks are left out."""
    assert state_of({"role": "user", "content": content}) == {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("content", "text"), [("x", "x"), (None, ""), (5, "5"), ({"a": "é"}, '{"a": "é"}'), ([IMAGE], "")]
)
def test_a_tool_result_of_any_form_is_text(content: Any, text: str) -> None:
    """Tools return numbers and objects too."""
    assert state_of([{"type": "tool_result", "content": content}]) == text


def test_an_objects_messages_are_read_as_messages() -> None:
    """A graph's state may be a pydantic object or a dataclass; the rest keeps its JSON form and order."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    turns = [{"role": "user", "content": "hi"}]
    thread = Thread(at=at, messages=[HumanMessage("hi")], secret=[HumanMessage("key")], last="x")
    assert state_of(thread) == {"at": "2026-01-02T00:00:00Z", "messages": turns, "last": "x", "size": 1}
    assert list(state_of(thread)) == ["at", "messages", "last", "size"]
    assert state_of({"thread": thread})["thread"]["messages"] == turns
    assert state_of(Turns([HumanMessage("hi")])) == turns
    assert state_of(Case(id=3, turns=[HumanMessage("hi")])) == {"id": 3, "turns": turns}


def test_a_state_that_contains_itself_is_refused() -> None:
    """With laya's own error, which is a TypeError."""
    errors = pytest.importorskip("laya.errors")
    state: dict[str, Any] = {}
    state["again"] = state
    with pytest.raises(errors.StateError, match="contains itself"):
        state_of(state)


def test_an_object_without_a_json_form_is_refused() -> None:
    """With laya's own error, which doesn't quote it."""
    errors = pytest.importorskip("laya.errors")
    with pytest.raises(errors.StateError, match="no JSON form") as caught:
        state_of(Raw(content=b"\xff secret"))
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


class Raw(BaseModel):
    """Holds bytes that are no text."""

    content: bytes


class Thread(BaseModel):
    """A graph's state."""

    at: datetime
    messages: list[AnyMessage]
    secret: list[AnyMessage] = Field(exclude=True)
    last: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        """How many turns."""
        return len(self.messages)


class Turns(RootModel[list[AnyMessage]]):
    """A bare list of turns."""


@dataclass
class Case:
    """A graph's state as a dataclass."""

    id: int
    turns: list[Any]
