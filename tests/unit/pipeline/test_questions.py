"""Question sets: what the model reads of them, and what is refused."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

import pytest

from laya._pipeline.questions import Question, parse_questions
from laya.errors import QuestionError


def parse(**definition: Any) -> Question:
    """The one question of this definition, with instructions unless it has its own."""
    (question,) = parse_questions({"q": {"instructions": "Which?", **definition}})
    return question


def test_prompt_names_the_type() -> None:
    """The model reads the type before the instructions."""
    assert parse(type="noul").prompt == "noul question: Which?"


@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        (5, "5"),
        (False, "false"),
        (1.5, "1.5"),
        (["a", {"ü": None}], '["a", {"ü": null}]'),
        ({"en": "Ist ä?"}, '{"en": "Ist ä?"}'),
    ],
)
def test_instructions_that_are_no_string_are_json(instructions: Any, text: str) -> None:
    """JSON with blanks after separators and without ASCII escapes."""
    assert parse(type="noul", instructions=instructions).instructions == text


def test_choice_options_are_label_and_description() -> None:
    """None and "" describe nothing; 0 and False do."""
    criteria = {"a": None, "b": "", "c": "text", "d": 0, "e": False, "f": ["ü", 1], "g": " "}
    question = parse(type="choice", criteria=criteria)
    assert question.options == ("a", "b", "c: text", "d: 0", "e: false", 'f: ["ü", 1]', "g:  ")
    assert question.labels == tuple(criteria)


def test_choice_labels_keep_their_types() -> None:
    """Scalars are keys of the answer as they are; 1 and "1" are two."""
    question = parse(type="choice", criteria=[1, "1", 2.5, False, "", "False"])
    assert question.options == ("1", "1", "2.5", "False", "", "False")
    assert [type(label) for label in question.labels] == [int, str, float, bool, str, str]


def test_members_of_enumerations_read_as_their_values() -> None:
    """Whatever `str()` shows of them; as labels they stay the caller's own."""

    class Colour(str, enum.Enum):  # noqa: UP042 - the older way, with another str()
        RED = "red"
        BLUE = "blue"

    class Size(int, enum.Enum):
        SMALL = 1

    class Kind(str, enum.Enum):  # noqa: UP042
        SCORE = "score"

    question = parse(type="choice", instructions=Colour.RED, criteria=[*Colour, Size.SMALL])
    assert (question.prompt, question.options) == ("choice question: red", ("red", "blue", "1"))
    assert all(label is member for label, member in zip(question.labels, [*Colour, Size.SMALL], strict=True))
    described = parse(type="choice", criteria={Colour.RED: Colour.BLUE, "b": None})
    assert described.options == ("red: blue", "b")
    scored = parse(type=Kind.SCORE, criteria=[Colour.RED, "b"])
    assert (scored.prompt, scored.options) == ("score question: Which?", ("level 0: red", "level 1: b"))
    assert type(scored.kind) is type(scored.legend[0]) is str


def test_score_levels_are_numbered_and_described() -> None:
    """The legend holds the levels' texts."""
    question = parse(type="score", criteria=["low", 5, False, {"k": "ü"}, ""])
    assert question.legend == ("low", "5", "false", '{"k": "ü"}', "")
    assert question.options == tuple(f"level {i}: {text}" for i, text in enumerate(question.legend))
    assert question.labels == ("0", "1", "2", "3", "4")


def test_noul_options_are_false_then_true() -> None:
    """The order is fixed, whatever the order of the criteria."""
    assert parse(type="noul").options == (
        "false: no, the statement does not hold",
        "true: yes, the statement holds",
    )
    assert parse(type="noul", criteria={"true": "t", "false": "f"}).options == ("false: f", "true: t")


@pytest.mark.parametrize("key", ["true", "True", "TRUE", True])
def test_noul_criteria_keys_may_be_booleans_or_any_case(key: Any) -> None:
    """A true criterion is one however it is written."""
    assert parse(type="noul", criteria={key: "t"}).options[1] == "true: t"


@pytest.mark.parametrize("blank", [None, ""])
def test_a_blank_noul_criterion_takes_the_default_text(blank: Any) -> None:
    """0 and False are texts; None and "" are not."""
    question = parse(type="noul", criteria={"true": blank, "false": 0})
    assert question.options == ("false: 0", "true: yes, the statement holds")


def test_noul_labels_rename_the_options_alone() -> None:
    """The answer's keys stay false and true; blanks around a label are dropped."""
    question = parse(type="noul", labels={"true": " spam\n", "false": "ham"})
    assert question.options == ("ham: no, the statement does not hold", "spam: yes, the statement holds")
    assert question.labels == ("false", "true")


def test_option_order_changes_what_is_shown() -> None:
    """Slot s shows option order[s]; labels stay in the caller's order."""
    question = parse(type="choice", criteria=["a", "b", "c"], option_order=(2, 0, 1))
    assert question.shown == ("c", "a", "b")
    assert question.labels == ("a", "b", "c")


def test_ids_come_back_as_given() -> None:
    """Numbers are ids too."""
    ids = ["a", 1, "1", "\ud800"]
    parsed = parse_questions({qid: {"type": "noul", "instructions": "x"} for qid in ids})
    assert [question.id for question in parsed] == ids


def test_unknown_keys_are_ignored_and_a_str_enum_is_a_type() -> None:
    """A definition may carry the caller's own notes."""

    class Kind(enum.StrEnum):
        NOUL = "noul"

    assert parse(type=Kind.NOUL, note=SimpleNamespace()).options == parse(type="noul").options


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "bool"},
        {"type": "NOUL"},
        {"type": None},
        {"type": ["noul"]},
        {"type": "noul", "instructions": None},
        {"type": "noul", "instructions": " \n"},
        {"type": "noul", "instructions": []},
        {"type": "noul", "instructions": {}},
        {"type": "noul", "instructions": ()},
        {"type": "noul", "instructions": b"x"},
        {"type": "choice"},
        {"type": "choice", "criteria": None},
        {"type": "choice", "criteria": []},
        {"type": "choice", "criteria": {}},
        {"type": "choice", "criteria": "ab"},
        {"type": "choice", "criteria": ("a", "b")},
        {"type": "choice", "criteria": ["a", "a"]},
        {"type": "choice", "criteria": [1, 1.0]},
        {"type": "choice", "criteria": [1, True]},
        {"type": "choice", "criteria": ["a", None]},
        {"type": "choice", "criteria": ["a", ["b"]]},
        {"type": "choice", "criteria": [b"a"]},
        {"type": "choice", "criteria": ["a"], "labels": {"true": "x", "false": "y"}},
        {"type": "choice", "criteria": ["a"], "labels": None},
        {"type": "score"},
        {"type": "score", "criteria": []},
        {"type": "score", "criteria": ("low",)},
        {"type": "score", "criteria": {"0": "low"}},
        {"type": "score", "criteria": ["low", None]},
        {"type": "score", "criteria": ["low"], "labels": {}},
        {"type": "noul", "criteria": {"yes": "x"}},
        {"type": "noul", "criteria": {1: "x"}},
        {"type": "noul", "criteria": []},
        {"type": "noul", "criteria": ""},
        {"type": "noul", "criteria": False},
        {"type": "noul", "labels": {}},
        {"type": "noul", "labels": []},
        {"type": "noul", "labels": {"true": "x"}},
        {"type": "noul", "labels": {"true": "x", "false": "x "}},
        {"type": "noul", "labels": {"true": "x", "false": " "}},
        {"type": "noul", "labels": {"true": "x", "false": 1}},
        {"type": "noul", "labels": {True: "x", False: "y"}},
        {"type": "noul", "labels": {"true": "x", "false": "y", "maybe": "z"}},
        {"type": "noul", "option_order": None},
        {"type": "noul", "option_order": []},
        {"type": "noul", "option_order": [0]},
        {"type": "noul", "option_order": [0, 0]},
        {"type": "noul", "option_order": [0, 1, 2]},
        {"type": "noul", "option_order": [0.0, 1.0]},
        {"type": "noul", "option_order": [False, True]},
        {"type": "noul", "option_order": "01"},
        {"type": "noul", "option_order": {0, 1}},
        None,
        "noul",
        ["noul"],
    ],
    ids=repr,
)
def test_a_bad_question_is_named(definition: Any) -> None:
    """The error is a ValueError that carries the question's id."""
    entry = {"instructions": "Which?", **definition} if isinstance(definition, dict) else definition
    with pytest.raises(ValueError, match="'the_bad_one'") as caught:
        parse_questions({"good": {"type": "noul", "instructions": "x"}, "the_bad_one": entry})
    assert isinstance(caught.value, QuestionError)
    assert caught.value.question_id == "the_bad_one"


def test_missing_instructions_are_refused() -> None:
    """A question needs a text."""
    with pytest.raises(QuestionError, match=r"'q'.*instructions"):
        parse_questions({"q": {"type": "noul"}})


@pytest.mark.parametrize("qid", ["", " \n", None, 1.5, ("a",), b"a"], ids=repr)
def test_a_question_id_is_text_or_a_whole_number(qid: Any) -> None:
    """A blank id could not be read in the answers."""
    with pytest.raises(QuestionError, match="question id"):
        parse_questions({qid: {"type": "noul", "instructions": "x"}})


@pytest.mark.parametrize("questions", [None, [], "q", 5, [("q", {})]], ids=repr)
def test_a_question_set_is_a_dict(questions: Any) -> None:
    """Anything else is a TypeError that names the type."""
    with pytest.raises(TypeError, match=type(questions).__name__):
        parse_questions(questions)


def test_no_questions_are_fine() -> None:
    """An empty set asks nothing."""
    assert parse_questions({}) == ()
