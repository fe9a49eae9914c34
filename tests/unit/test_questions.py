"""Question models and the lowering of question sets."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from laya._lowering import lower_questions
from laya._pipeline.questions import parse_questions
from laya.errors import QuestionError
from laya.questions import Choice, Noul, Question, Score

SCALARS = st.one_of(st.text(), st.integers(), st.booleans())
JSON = st.recursive(SCALARS | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


def test_a_dict_of_dicts_is_the_same_object() -> None:
    """Hooks that share a question set see each other's changes in it."""
    questions = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}
    assert lower_questions(questions) is questions


def test_an_empty_question_set_is_the_same_object() -> None:
    """No questions is a valid question set."""
    questions: dict[str, Any] = {}
    assert lower_questions(questions) is questions


def test_a_mapping_that_is_no_dict_is_the_same_object() -> None:
    """A read-only view of a question set needs no copy."""
    questions = MappingProxyType({"q": MappingProxyType({"type": "noul", "instructions": "Is it?"})})
    assert lower_questions(questions) is questions


def test_models_are_lowered_into_a_new_dict_in_the_callers_order() -> None:
    """Models and dicts mix, and the given dict keeps its models."""
    plain = {"type": "noul", "instructions": "Is it urgent?"}
    questions = {
        "level": Score(instructions="How bad?", criteria=["mild", "severe"]),
        "urgent": plain,
        "team": Choice(instructions="Whose?", criteria={"billing": "invoices", "shipping": None}),
    }
    lowered = lower_questions(questions)
    assert list(lowered) == ["level", "urgent", "team"]
    assert lowered["level"] == {"type": "score", "instructions": "How bad?", "criteria": ["mild", "severe"]}
    assert lowered["urgent"] is plain
    assert lowered["team"]["criteria"] == {"billing": "invoices", "shipping": None}
    assert isinstance(questions["level"], Score)


def test_a_lowered_question_shares_nothing_with_its_model() -> None:
    """A hook that changes a lowered question leaves the caller's model alone."""
    model = Choice(instructions={"ask": ["Whose?"]}, criteria={"billing": {"about": "money"}})
    question = model.to_question()
    question["criteria"]["billing"]["about"] = "parcels"
    question["instructions"]["ask"].append("And?")
    assert model.criteria == {"billing": {"about": "money"}}
    assert model.instructions == {"ask": ["Whose?"]}


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        (
            Choice(option_order=[1, 0], criteria=["a", "b"], instructions="?"),
            "type instructions criteria option_order",
        ),
        (Score(criteria=["a", "b"], instructions="?"), "type instructions criteria"),
        (Noul(instructions="?"), "type instructions"),
        (
            Noul(labels={"true": "y", "false": "n"}, criteria={"true": "t"}, instructions="?"),
            "type instructions criteria labels",
        ),
        (Noul(instructions="?", criteria=None), "type instructions"),
    ],
)
def test_a_question_has_only_what_is_set_in_a_fixed_order(model: Any, keys: str) -> None:
    """Two equal models lower to dicts that compare and serialise the same."""
    assert list(model.to_question()) == keys.split()


@given(labels=st.lists(SCALARS, min_size=1, unique_by=lambda label: label), instructions=JSON)
def test_labels_and_instructions_survive_lowering(labels: list[Any], instructions: Any) -> None:
    """Labels keep their order and their type, whichever way they are given."""
    listed = Choice(instructions=instructions, criteria=labels).to_question()
    mapped = Choice(instructions=instructions, criteria=dict.fromkeys(labels)).to_question()
    for found in (listed["criteria"], list(mapped["criteria"])):
        assert [(type(label), label) for label in found] == [(type(label), label) for label in labels]
    assert listed.get("instructions") == instructions


@pytest.mark.parametrize(
    "model",
    [
        Choice(instructions="Whose?", criteria=[1, 2], option_order=[1, 0]),
        Score(instructions=["How bad?"], criteria=["mild", {"text": "severe"}], option_order=[1, 0]),
        Noul(instructions="Is it?", criteria={True: "it is"}, labels={"true": "yes", "false": "no"}),
    ],
)
def test_a_lowered_model_is_a_question_that_parses(model: Any) -> None:
    """What a model lowers to is accepted wherever a question dict is, and reads back as the model."""
    question = model.to_question()
    assert parse_questions({"q": question})[0].kind == model.type
    assert TypeAdapter(Question).validate_python(question) == model


def test_a_question_model_refuses_unknown_keys() -> None:
    """A misspelt option is not ignored."""
    with pytest.raises(ValidationError, match="criterias"):
        Noul.model_validate({"instructions": "?", "criterias": {}})
    with pytest.raises(ValidationError, match="labels"):
        Choice.model_validate({"instructions": "?", "criteria": ["a"], "labels": {}})


def test_a_question_model_is_frozen() -> None:
    """A model may be shared by calls."""
    question = Noul(instructions="?")
    with pytest.raises(ValidationError, match="frozen"):
        question.instructions = "!"  # type: ignore[misc]


def test_a_definition_of_another_type_is_left_for_parsing() -> None:
    """Validation stays in one place, where the error names the question."""
    lowered = lower_questions({"q": "Is it?", "r": Noul(instructions="?")})
    assert lowered == {"q": "Is it?", "r": {"type": "noul", "instructions": "?"}}
    with pytest.raises(QuestionError, match="'q'"):
        parse_questions(lowered)


class _Ticket(BaseModel):
    urgent: bool


@pytest.mark.parametrize(
    "spec",
    [
        _Ticket,
        _Ticket.model_json_schema(),
        {"$ref": "#/$defs/T", "$defs": {"T": _Ticket.model_json_schema()}},
    ],
)
def test_a_schema_stands_for_its_questions(spec: Any) -> None:
    """Model classes and JSON schemas are taken where a question set is."""
    assert lower_questions(spec) == {"urgent": {"type": "noul", "instructions": "Urgent?"}}


def test_each_lowering_of_a_schema_gives_a_new_dict() -> None:
    """A hook that changes one call's questions does not reach the next call."""
    lower_questions(_Ticket)["urgent"]["instructions"] = "changed"
    assert lower_questions(_Ticket)["urgent"]["instructions"] == "Urgent?"


def test_question_ids_named_like_schema_keywords_are_questions() -> None:
    """The ids "type" and "properties" are not mistaken for a JSON schema."""
    question = {"type": "noul", "instructions": "?"}
    questions = {"type": question, "properties": question, "$ref": question}
    assert lower_questions(questions) is questions


@pytest.mark.parametrize(
    ("questions", "hint"),
    [
        (None, "write {'urgent'"),
        (["q"], "write {'urgent'"),
        (Noul(instructions="?"), "give the question an id"),
        (_Ticket(urgent=True), "pass the class, _Ticket"),
        (int, "the class int"),
    ],
)
def test_what_is_no_question_set_is_refused_with_a_hint(questions: Any, hint: str) -> None:
    """The error says what was given and what to write instead."""
    with pytest.raises(TypeError, match="got ") as caught:
        lower_questions(questions)
    assert hint in str(caught.value)


def test_a_lenient_lowering_hands_back_what_is_no_question_set() -> None:
    """A start hook may still replace what would be refused."""
    assert lower_questions(None, strict=False) is None


def test_lowering_plain_dicts_imports_no_pydantic() -> None:
    """Plain dicts cost no import."""
    program = (
        "import sys; from laya._lowering import lower_questions;"
        "lower_questions({'q': {'type': 'noul', 'instructions': '?'}}); print('pydantic' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
