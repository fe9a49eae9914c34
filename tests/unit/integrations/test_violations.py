"""Which answers violate, what is judged of an input, and what is put in its place."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue

from laya_integrations.langchain import GuardrailError, LayaClassifierResponse, Violation
from laya_integrations.langchain._parts import annotated, item_state, replaced, take_apart
from laya_integrations.langchain._violations import ViolationRule, violation_probability

NOUL = {"type": "noul", "instructions": "?"}
SCORE = {"type": "score", "instructions": "?", "criteria": ["polite", "blunt", "rude", "abusive"]}
CHOICE = {"type": "choice", "instructions": "?", "criteria": {"fine": None, "hate": "hatred", "spam": "adverts"}}
RECORDS = [{"type": "document", "source": {"file": "a"}, "body": "b"}, {"type": "system", "content": "c", "level": 1}]
CALL = {"name": "pay", "args": {"sum": 9}, "id": "c1", "type": "tool_call"}


def score(*masses: float) -> dict[str, Any]:
    """A score answer with these probabilities."""
    return {"type": "score", "probabilities": {str(level): mass for level, mass in enumerate(masses)}, "score": 0.0}


@pytest.mark.parametrize(
    ("answer", "violating", "probability"),
    [
        ({"type": "noul", "noul": 0.3}, None, 0.3),
        ({"type": "noul", "noul": 0.3}, [False], 0.7),
        ({"type": "noul", "noul": 0.3}, [True, False], 1.0),
        (score(0.45, 0.0, 0.55), None, 0.55),
        (score(0.5, 0.3, 0.2), None, 0.5),
        (score(0.1, 0.2, 0.3, 0.4), None, 0.7),
        (score(0.1, 0.2, 0.3, 0.4), [0], 0.1),
        (score(0.4, 0.6), None, 0.6),
        ({"type": "choice", "choice": "fine", "probabilities": {"fine": 0.5, "hate": 0.2, "spam": 0.3}}, ["hate"], 0.2),
        (
            {"type": "choice", "choice": "fine", "probabilities": {"fine": 0.5, "hate": 0.2, "spam": 0.3}},
            ["hate", "spam", "hate"],
            0.5,
        ),
        ({"type": "choice", "choice": 1, "probabilities": {1: 0.4, 2: 0.6}}, [2], 0.6),
    ],
)
def test_the_violation_probability_is_a_mass(answer: dict[str, Any], violating: Any, probability: float) -> None:
    """P(yes), the mass at or above a score's middle, or that of the answers named; not the expected level."""
    assert violation_probability(answer, violating) == probability


def response(**answers: Any) -> LayaClassifierResponse:
    """A response whose result has these answers."""
    return LayaClassifierResponse(model="m", answers={}, request_id="run", result={"answers": answers})


@pytest.mark.parametrize(
    ("thresholds", "flagged"), [(0.3, ["a", "b"]), (0.31, ["b"]), ({"a": 0.2}, ["a", "b"]), ({"b": 0.7}, [])]
)
def test_a_question_violates_from_its_threshold_on(thresholds: Any, flagged: list[str]) -> None:
    """A mapping's other questions have one half; the threshold itself violates."""
    rule = ViolationRule({"a": NOUL, "b": NOUL}, thresholds, {}, True)
    verdict = rule.verdict(response(a={"type": "noul", "noul": 0.3}, b={"type": "noul", "noul": 0.5}))
    assert [violation.question for violation in verdict.violations] == flagged
    assert verdict.flagged == bool(flagged) and verdict.run_id == "run"
    assert verdict.probabilities == {"a": 0.3, "b": 0.5}


def test_a_verdict_on_a_part_of_the_text_says_so() -> None:
    """What lay beyond the token budget was not judged."""
    rule = ViolationRule({"a": NOUL}, 0.5, {}, True)
    found = response(a={"type": "noul", "noul": 0.3})
    assert not rule.verdict(found).truncated
    cut = found.model_copy(update={"truncated": True})
    assert rule.verdict(cut).truncated


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (TimeoutError("late"), "TimeoutError"),
        (response(), "KeyError"),
        (response(a={"type": "odd"}), "ValueError"),
        (response(a={"type": "noul"}), "KeyError"),
        (response(a=None), "TypeError"),
    ],
)
def test_what_is_no_answer_is_a_failure(answer: Any, failure: str, closed: bool) -> None:
    """It is flagged where the guardrail fails closed, never taken for harmless."""
    verdict = ViolationRule({"a": NOUL}, 0.5, {}, closed).verdict(answer)
    assert (verdict.failure, verdict.flagged, verdict.violations) == (failure, closed, [])


def test_a_probability_that_is_no_number_violates() -> None:
    """A comparison with it is always false, so the safe side is chosen."""
    verdict = ViolationRule({"a": NOUL}, 0.5, {}, True).verdict(response(a={"type": "noul", "noul": float("nan")}))
    assert verdict.flagged


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"questions": {}}, "questions is empty"),
        ({"thresholds": {"b": 0.5}}, "thresholds names 'b', which is no question"),
        ({"violating": {"b": ["x"]}}, "violating names 'b', which is no question"),
        ({"questions": {"a": CHOICE}}, "name the labels that violate: violating={'a'"),
        ({"questions": {"a": CHOICE}, "violating": {"a": ["scam"]}}, "'scam', which is no answer of this choice"),
        ({"violating": {"a": []}}, "is empty, so nothing could violate"),
        ({"violating": {"a": [1]}}, "has 1, which is no answer of this noul; use some of True, False"),
        ({"questions": {"a": SCORE}, "violating": {"a": [4]}}, "has 4, which is no answer of this score"),
        ({"questions": {"a": SCORE}, "violating": {"a": [True]}}, "has True, which is no answer"),
        ({"questions": {"a": {"type": "odd"}}}, "has the type 'odd'"),
    ],
)
def test_parts_of_a_rule_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    """The argument and the question are named."""
    rule = ViolationRule(
        **{"questions": {"a": NOUL}, "thresholds": 0.5, "violating": {}, "fails_closed": True, **fields}
    )
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        rule.check()


def test_the_error_survives_a_pickle() -> None:
    """With what was found, laya's id and its message."""
    for error in (
        GuardrailError([Violation(question="a", probability=0.9, threshold=0.5, position=2)], "run"),
        GuardrailError(failure="TimeoutError"),
    ):
        copied = pickle.loads(pickle.dumps(error))
        assert (copied.violations, copied.run_id, copied.failure) == (error.violations, error.run_id, error.failure)
        assert str(copied) == str(error)
    assert str(GuardrailError([Violation(question="a", probability=0.9, threshold=0.5, position=2)], "run")) == (
        "the guardrail found a in item 2 (0.9, threshold 0.5); laya run run"
    )


@pytest.mark.parametrize(
    ("given", "states", "positions"),
    [
        ("hi", ["hi"], [None]),
        (StringPromptValue(text="hi"), ["hi"], [None]),
        (HumanMessage("hi"), ["hi"], [None]),
        (HumanMessage("hi", name="me"), [{"role": "user", "name": "me", "content": "hi"}], [None]),
        ({"role": "user", "content": "hi"}, ["hi"], [None]),
        ([{"type": "text", "text": "hi"}, {"type": "image", "url": "x"}], ["hi"], [None]),
        ({"question": "q", "answer": "a"}, [{"question": "q", "answer": "a"}], [None]),
        (Document("page", metadata={"source": "s"}), ["page"], [None]),
        ([], [], []),
        (
            [
                SystemMessage("rules"),
                HumanMessage("a"),
                RemoveMessage("1"),
                ToolMessage("b", tool_call_id="1", name="t"),
            ],
            ["a", "b"],
            [1, 3],
        ),
        ([("system", "rules"), ("user", "a"), {"role": "developer", "content": "x"}, "b"], ["a", "b"], [1, 3]),
        (ChatPromptValue(messages=[SystemMessage("rules"), HumanMessage("a")]), ["a"], [1]),
        ({"messages": [AIMessage("a")], "question": "q", "count": 1}, ["a"], [0]),
        ({"messages": (), "question": "q"}, [], []),
        (RECORDS, RECORDS, [0, 1]),
        (
            [
                {"type": "system", "content": "rules"},
                {"type": "human", "content": "a", "id": "1"},
                {"type": "human", "content": "b", "name": "me"},
                ("user", [{"type": "text", "text": "c"}]),
                ("system", [{"type": "text", "text": "rules"}]),
            ],
            ["a", {"type": "human", "content": "b", "name": "me"}, "c"],
            [1, 2, 3],
        ),
        ({"role": "say this", "content": "hi"}, [{"role": "say this", "content": "hi"}], [None]),
        (HumanMessage([{"text": "a"}, {"type": "json", "json": {"b": 1}}]), ['a\n{"b": 1}'], [None]),
        ([Document("a"), Document("b")], ["a", "b"], [0, 1]),
        ([["user", "hi"]], [["user", "hi"]], [0]),
        (HumanMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), ["a\nb"], [None]),
        (
            AIMessage("", tool_calls=[CALL]),
            [{"role": "assistant", "content": "", "tool_calls": [{"name": "pay", "args": {"sum": 9}}]}],
            [None],
        ),
    ],
)
def test_what_is_judged_of_an_input(given: Any, states: list[Any], positions: list[int | None]) -> None:
    """Each message by its text, tool results too; system messages not; content blocks as text."""
    parts = take_apart(given)
    assert [item_state(item) for item in parts.items] == states and parts.positions == positions
    assert parts.with_items(list(parts.items)) is given


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("bad", "X"),
        (HumanMessage("bad", id="1", name="me"), HumanMessage("X", id="1", name="me")),
        (ToolMessage("bad", tool_call_id="7", artifact="bad"), ToolMessage("X", tool_call_id="7")),
        (("user", "bad"), ("user", "X")),
        ({"role": "user", "content": "bad", "tool_calls": ["bad"]}, {"role": "user", "content": "X"}),
        (("user", [{"type": "text", "text": "bad"}]), ("user", "X")),
        (["user", "bad"], ["user", "X"]),
        (("bad", "bad"), ("X", "X")),
        (
            {"type": "human", "content": "bad", "name": "me", "example": "bad"},
            {"type": "human", "content": "X", "name": "me"},
        ),
        ({"role": "bad", "content": "bad"}, {"role": "X", "content": "X"}),
        ({"q": "bad", "n": 1, "deep": [{"t": "bad"}, True]}, {"q": "X", "n": 1, "deep": [{"t": "X"}, True]}),
        ({"type": "bad", "m": HumanMessage("bad")}, {"type": "X", "m": HumanMessage("X")}),
        ([{"type": "text", "text": "bad"}], [{"type": "text", "text": "X"}]),
        (Document("bad", metadata={"source": "s"}), Document("X", metadata={"source": "s"})),
    ],
)
def test_the_text_is_replaced_and_the_type_stays(item: Any, expected: Any) -> None:
    """With ids, names and numbers."""
    changed = replaced(item, "X")
    assert changed == expected and type(changed) is type(item) and changed is not item


@pytest.mark.parametrize("kind", [AIMessage, AIMessageChunk])
def test_a_replaced_message_calls_no_tool(kind: type[BaseMessage]) -> None:
    """A call with a result keeps its id, so that the result has its call; an open one is dropped."""
    other = {**CALL, "id": "c2"}
    raw = {"tool_calls": [{"function": {"arguments": "bad"}}]}
    message = kind("bad", tool_calls=[CALL, other], additional_kwargs=raw)
    changed: Any = replaced(message, "X", frozenset(["c1"]))
    assert type(changed) is kind and changed.content == "X" and changed.additional_kwargs == {}
    assert changed.tool_calls == [{**CALL, "args": {}}] and "sum" not in repr(changed)
    assert replaced(message, "X").tool_calls == []


def test_a_replaced_dict_calls_no_tool_either() -> None:
    """In OpenAI's form and in LangChain's."""
    asked = {"id": "c2", "type": "function", "function": {"name": "pay", "arguments": "bad"}}
    open_call = {**asked, "id": "c3"}
    message = {"role": "assistant", "content": None, "tool_calls": [CALL, asked, open_call], "refusal": "bad"}
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"type": "tool", "tool_call_id": "c2", "content": "found"},
    ]
    parts = take_apart([message, *results])
    assert parts.answered_calls() == {"c1", "c2"}
    emptied = {"id": "c2", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    assert replaced(message, "X", parts.answered_calls()) == {
        "role": "assistant",
        "content": "X",
        "tool_calls": [{**CALL, "args": {}}, emptied],
    }
    assert replaced(message, "X") == {"role": "assistant", "content": "X"}


def test_a_dict_is_put_together_as_it_was() -> None:
    """With its messages' kind of sequence, its keys in their order and what is no text."""
    given = {"question": "bad", "messages": (HumanMessage("bad"), SystemMessage("rules")), "count": 3}
    parts = take_apart(given)
    changed = parts.with_items([replaced(item, "X") for item in parts.items])
    assert changed == {"question": "bad", "messages": (HumanMessage("X"), SystemMessage("rules")), "count": 3}
    assert [*changed] == [*given]


def test_what_has_no_text_to_replace_is_refused() -> None:
    """Rather than passed on."""
    with pytest.raises(TypeError, match='can\'t replace the text of a int; use action="raise"'):
        replaced(3, "X")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (HumanMessage("a"), HumanMessage("a", response_metadata={"laya_guardrail": {"n": 1}})),
        (Document("a"), Document("a", metadata={"laya_guardrail": {"n": 1}})),
        ({"q": "a"}, {"q": "a", "laya_guardrail": {"n": 1}}),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a"}),
        ({"type": "human", "content": "a"}, {"type": "human", "content": "a"}),
        ("a", "a"),
    ],
)
def test_a_note_goes_where_a_place_for_it_is(item: Any, expected: Any) -> None:
    """Nowhere that a provider would be sent it."""
    assert annotated(item, {"n": 1}) == expected
