"""Pydantic models and JSON schemas as question sets, and answers as their instances."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, get_args

import pytest
from annotated_types import Interval
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    ValidationError,
    create_model,
    model_validator,
)

from laya._pipeline.questions import parse_questions
from laya.errors import QuestionError
from laya.questions import Describe, Levels, Schema, answer_value


class Team(enum.Enum):
    """Labels as text."""

    BILLING = "billing"
    SHIPPING = "shipping"


class Numbered(enum.Enum):
    """Numbers that mean nothing."""

    BILLING = enum.auto()
    LATE_PARCEL = enum.auto()


class Urgency(enum.IntEnum):
    """Numbers that are levels."""

    CAN_WAIT = 1
    SOON = 2
    NOW = 3


class Status(enum.IntEnum):
    """Numbers that are codes, not levels."""

    FINE = 200
    MISSING = 404


class Mood(enum.StrEnum):
    """Labels that are text themselves."""

    CALM = "calm"
    CROSS = "cross"


class Ticket(BaseModel):
    """A customer's message."""

    category: Literal["billing", "shipping", "other"] = Field(description="What is it about?")
    team: Team
    needs_human: bool
    stars: Annotated[int, Field(ge=1, le=5)]
    urgency: Urgency | None = None


def ask(annotation: Any, **field: Any) -> dict[str, Any]:
    """Return the question of a model whose only field has this annotation."""
    model = create_model("Asked", value=(annotation, Field(**field)))
    return Schema.from_spec(model).questions["value"]


def fill(annotation: Any, answer: dict[str, Any]) -> Any:
    """Return the field's value for an answer."""
    model = create_model("Filled", value=(annotation, ...))
    return Schema.from_spec(model).instance({"value": answer}).value


def choice(label: Any, **more: Any) -> dict[str, Any]:
    """Return the answer to a choice."""
    return {"type": "choice", "choice": label, "probabilities": {label: 1.0}, **more}


def noul(p: float, **more: Any) -> dict[str, Any]:
    """Return the answer to a noul."""
    return {"type": "noul", "noul": p, **more}


def score(*probabilities: float, **more: Any) -> dict[str, Any]:
    """Return the answer to a score with these probabilities, lowest level first."""
    levels = {str(level): p for level, p in enumerate(probabilities)}
    return {"type": "score", "score": 0.0, "probabilities": levels, **more}


def test_a_model_is_a_question_set_in_the_order_of_its_fields() -> None:
    """Each field is one question, worded by its description or its name, not by an enum's docstring."""
    questions = Schema.from_spec(Ticket).questions
    assert questions == {
        "category": {
            "type": "choice",
            "instructions": "What is it about?",
            "criteria": ["billing", "shipping", "other"],
        },
        "team": {"type": "choice", "instructions": "Team?", "criteria": ["billing", "shipping"]},
        "needs_human": {"type": "noul", "instructions": "Needs human?"},
        "stars": {"type": "score", "instructions": "Stars?", "criteria": ["1", "2", "3", "4", "5"]},
        "urgency": {
            "type": "score",
            "instructions": "Urgency?",
            "criteria": ["can wait", "soon", "now"],
        },
    }
    assert list(questions) == list(Ticket.model_fields)


def test_the_questions_of_a_schema_parse() -> None:
    """Whatever a schema asks, the pipeline accepts."""
    kinds = [question.kind for question in parse_questions(Schema.from_spec(Ticket).questions)]
    assert kinds == ["choice", "choice", "noul", "score", "score"]


def test_answers_come_back_as_an_instance() -> None:
    """Labels become the Literal or enum member, levels the number in the field's own range."""
    ticket = Schema.from_spec(Ticket).instance(
        {
            "category": choice("shipping"),
            "team": choice("billing"),
            "needs_human": noul(0.5),
            "stars": score(0.1, 0.2, 0.4, 0.2, 0.1),
            "urgency": score(0.0, 0.1, 0.9),
        }
    )
    assert ticket == Ticket(category="shipping", team=Team.BILLING, needs_human=True, stars=3, urgency=Urgency.NOW)
    assert type(ticket) is Ticket


def test_a_model_and_its_json_schema_ask_the_same() -> None:
    """A schema that crossed a process asks what its model asks."""
    schema = Schema.from_spec(Ticket.model_json_schema())
    expected = Schema.from_spec(Ticket).questions
    # The names of an enum's members are no part of its JSON schema.
    expected["urgency"]["criteria"] = ["1", "2", "3"]
    assert schema.questions == expected


@pytest.mark.parametrize(
    ("annotation", "kind", "criteria"),
    [
        (Literal["a", "b"], "choice", ["a", "b"]),
        (Literal["a"] | Literal["b"], "choice", ["a", "b"]),
        (Literal["a", "b", None], "choice", ["a", "b"]),
        (Union[Literal["a", "b"], None], "choice", ["a", "b"]),  # noqa: UP007
        (Literal[Team.SHIPPING, Team.BILLING], "choice", ["shipping", "billing"]),
        (Mood, "choice", ["calm", "cross"]),
        (Numbered, "choice", {1: "billing", 2: "late parcel"}),
        (Status, "choice", {200: "fine", 404: "missing"}),
        (Literal[3, 1, 2], "choice", [3, 1, 2]),
        (Literal[1, 2, 3], "score", ["1", "2", "3"]),
        (Literal[1, 3, 5, 8], "score", ["1", "3", "5", "8"]),
        (Urgency, "score", ["can wait", "soon", "now"]),
        (Annotated[int, Field(ge=-1, le=1)], "score", ["-1", "0", "1"]),
        (Annotated[int, Field(gt=0, lt=4)], "score", ["1", "2", "3"]),
        (Annotated[int, Interval(ge=0, lt=2)], "score", ["0", "1"]),
        (Annotated[int, Field(ge=0, le=100, multiple_of=50)], "score", ["0", "50", "100"]),
        (Annotated[int, Field(ge=0, le=1)] | None, "score", ["0", "1"]),
        (Annotated[Literal["low", "high"], Levels()], "score", ["low", "high"]),
        (Annotated[Literal["low", "high"], Levels("can wait", "now")] | None, "score", ["can wait", "now"]),
        (Annotated[Team, Levels("one", "two")], "score", ["one", "two"]),
        (Annotated[Numbered, Levels()], "score", ["billing", "late parcel"]),
        (Annotated[Literal["a", "b"], Describe({"b": "bees"})], "choice", {"a": None, "b": "bees"}),
        (
            Annotated[Team, Describe({Team.BILLING: "money"})],
            "choice",
            {"billing": "money", "shipping": None},
        ),
        (Annotated[int, Field(ge=1, le=2), Describe({1: "poor"})], "score", ["poor", "2"]),
        (bool, "noul", None),
        (Literal[True, False], "noul", None),
        (bool | None, "noul", None),
        (Annotated[bool, Describe({True: "it does"})], "noul", {"true": "it does"}),
    ],
)
def test_a_fields_type_says_what_is_asked(annotation: Any, kind: str, criteria: Any) -> None:
    """The type gives the question type and its options, in the order of the type's values."""
    question = ask(annotation)
    assert (question["type"], question.get("criteria")) == (kind, criteria)
    if isinstance(criteria, dict):
        assert list(question["criteria"]) == list(criteria)


@pytest.mark.parametrize(
    ("extra", "annotation", "expected"),
    [
        ("score", Literal["low", "high"], {"type": "score", "criteria": ["low", "high"]}),
        ("choice", Literal[1, 2], {"type": "choice", "criteria": [1, 2]}),
        ({"type": "choice"}, bool, {"type": "choice", "criteria": [False, True]}),
        ({"criteria": ["x", "y"]}, Literal["a", "b"], {"type": "choice", "criteria": {"a": "x", "b": "y"}}),
        ({"criteria": {"2": "two"}}, Literal[1, 2], {"type": "score", "criteria": ["1", "two"]}),
        (
            {"labels": {"true": "yes", "false": "no"}},
            bool,
            {"type": "noul", "labels": {"true": "yes", "false": "no"}},
        ),
        (
            {"option_order": [1, 0]},
            Team,
            {"type": "choice", "criteria": ["billing", "shipping"], "option_order": [1, 0]},
        ),
    ],
)
def test_the_laya_keyword_says_what_a_type_cannot(extra: Any, annotation: Any, expected: dict[str, Any]) -> None:
    """One keyword works in pydantic fields and in plain JSON schemas alike."""
    model = create_model("Asked", value=(annotation, Field(json_schema_extra={"laya": extra})))
    for spec in (model, model.model_json_schema()):
        assert Schema.from_spec(spec).questions["value"] == {"instructions": "Value?", **expected}


@pytest.mark.parametrize(
    ("name", "field", "instructions"),
    [
        ("needs_human", {}, "Needs human?"),
        ("needsHuman", {}, "Needs human?"),
        ("URL", {}, "URL?"),
        ("class_", {}, "Class?"),
        ("needs_human", {"title": "Must a person answer?"}, "Must a person answer?"),
        ("needs_human", {"title": "Person", "description": "Must a person answer?"}, "Must a person answer?"),
    ],
)
def test_a_field_without_a_description_is_worded_by_its_name(
    name: str, field: dict[str, Any], instructions: str
) -> None:
    """The description comes first, then a title of one's own, then the name."""
    model = create_model("Asked", **{name: (bool, Field(**field))})
    assert Schema.from_spec(model).questions[name]["instructions"] == instructions


class Nested(BaseModel):
    """A model in a model."""

    inner: Ticket


class Pair(enum.Enum):
    """Values that no label can be."""

    ONE = (1, 2)
    TWO = (3, 4)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (str, "its type is string"),
        (float, "its type is number"),
        (int, "without both bounds"),
        (Annotated[int, Field(ge=1)], "without both bounds"),
        (Annotated[int, Field(ge=0, le=1000)], "1001 levels"),
        (Annotated[int, Field(ge=-(10**40), le=10**40)], "levels, not 2 to 101"),
        (Annotated[int, Field(ge=5, le=1)], "0 levels"),
        (list[bool], "its type is array"),
        (Nested, "its type is object"),
        (Any, "no type"),
        (int | str, "union of several types"),
        (Literal["only"], "one value only"),
        (Annotated[Urgency, Field(ge=3)], "its bounds allow 1 of its values"),
        (Annotated[Literal[1, 2], Field(gt=2)], "its bounds allow 0 of its values"),
        (Literal["a", 1], "of several types"),
        (Literal[True, 2], "of several types"),
        (Pair, "no string, number or bool"),
        (Callable[[], int], "its type is callable"),
        (None, "its type is null"),
        (Annotated[Literal["a", "b"], Levels("one")], "a list of 2 texts"),
        (Annotated[Literal["a", "b"], Describe({"c": "sea"})], "'c', which is none of its values"),
    ],
)
def test_an_unsupported_field_is_named_with_the_reason(annotation: Any, reason: str) -> None:
    """The error names the field, also where the field has a default, and says what to use."""
    for default in (..., None):
        model = create_model("Asked", urgent=(bool, ...), odd=(annotation, default))
        with pytest.raises(QuestionError, match="field 'odd'") as caught:
            Schema.from_spec(model)
        assert reason in str(caught.value)
        assert caught.value.question_id == "odd"


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"type": "string", "laya": {"kind": "score"}}, "its type is string"),
        ({"enum": ["a", "b"], "laya": {"kind": "score"}}, "unknown key 'kind'"),
        ({"enum": ["a", "b"], "laya": "scale"}, "'scale'"),
        ({"enum": ["a", "b"], "laya": "noul"}, "only a bool"),
        ({"enum": list(range(102))}, "102 levels"),
        ({"enum": ["a", "a"]}, "repeated"),
        ({"enum": ["a", ["b"]]}, "no string, number or bool"),
        ({"$ref": "#/$defs/Missing"}, "points nowhere"),
        ({"$ref": "https://example.com/schema"}, "points outside"),
        ({"$ref": "#/properties/odd"}, "leads back to itself"),
        ({"type": ["integer", "string"]}, "union of several types"),
        ({"type": "integer", "minimum": True, "maximum": 5}, "no finite number"),
        ({"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 0}, "no whole number above 0"),
        ({"enum": [1, 2, 3], "minimum": "2"}, "no finite number"),
        (True, "no object"),
    ],
)
def test_an_unreadable_property_is_named_with_the_reason(definition: Any, reason: str) -> None:
    """JSON schemas written by hand get the same care as generated ones."""
    with pytest.raises(QuestionError, match="field 'odd'") as caught:
        Schema.from_spec({"type": "object", "properties": {"odd": definition}})
    assert reason in str(caught.value)


@pytest.mark.parametrize("spec", [int, BaseModel, "Ticket", {"urgent": {"type": "noul"}}, Ticket.model_construct()])
def test_what_is_no_schema_is_refused(spec: Any) -> None:
    """Question sets and instances are not schemas."""
    with pytest.raises(TypeError, match="pydantic model class or a JSON schema"):
        Schema.from_spec(spec)


@pytest.mark.parametrize("spec", [{"type": "object"}, {"type": "object", "properties": {}}, RootModel[int]])
def test_a_schema_without_fields_is_refused(spec: Any) -> None:
    """There must be something to ask."""
    with pytest.raises(QuestionError):
        Schema.from_spec(spec)


def test_a_skipped_field_keeps_its_default() -> None:
    """A model may hold more than what is asked."""

    class Noted(BaseModel):
        urgent: bool
        note: str = Field("none yet", json_schema_extra={"laya": "skip"})
        call: Callable[[], int] = Field(int, json_schema_extra={"laya": "skip"})

    schema = Schema.from_spec(Noted)
    assert list(schema.questions) == ["urgent"]
    assert schema.instance({"urgent": noul(0.9)}).note == "none yet"


def test_a_skipped_field_needs_a_default() -> None:
    """Without one there would be no instance."""
    with pytest.raises(QuestionError, match=r"field 'value'.*no default"):
        ask(str, json_schema_extra={"laya": "skip"})


def test_a_hand_written_json_schema_is_read() -> None:
    """References, described constants and null are understood; the instance is a dict."""
    schema = Schema.from_spec(
        {
            "type": "object",
            "definitions": {"Stars": {"type": "integer", "minimum": 1, "maximum": 3}},
            "properties": {
                "stars": {"allOf": [{"$ref": "#/definitions/Stars"}], "description": "How good?"},
                "team": {
                    "oneOf": [
                        {"const": "billing", "description": "invoices"},
                        {"const": "other", "title": "the rest"},
                        {"type": "null"},
                    ]
                },
                "urgent": {"type": ["boolean", "null"]},
                "from": {"enum": ["us", "them", None]},
            },
        }
    )
    assert schema.questions == {
        "stars": {"type": "score", "instructions": "How good?", "criteria": ["1", "2", "3"]},
        "team": {
            "type": "choice",
            "instructions": "Team?",
            "criteria": {"billing": "invoices", "other": "the rest"},
        },
        "urgent": {"type": "noul", "instructions": "Urgent?"},
        "from": {"type": "choice", "instructions": "From?", "criteria": ["us", "them"]},
    }
    answers = {
        "stars": score(0.1, 0.2, 0.7),
        "team": choice("other"),
        "urgent": noul(0.2),
        "from": choice("us"),
    }
    assert schema.instance(answers) == {"stars": 3, "team": "other", "urgent": False, "from": "us"}


def test_questions_are_a_new_dict_each_time() -> None:
    """A hook that changes the questions of one call does not reach the next."""
    schema = Schema.from_spec(Ticket)
    schema.questions["category"]["criteria"].append("more")
    assert schema.questions["category"]["criteria"] == ["billing", "shipping", "other"]


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (choice("billing"), "billing"),
        (choice(7), 7),
        (noul(0.5), True),
        (noul(0.4999), False),
        (score(0.2, 0.5, 0.3), 1),
        (score(0.4, 0.2, 0.4), 0),
        (score(*[0.0] * 10, 1.0), 10),
        (choice("billing", low_confidence=True), None),
        (noul(0.9, low_confidence=True), None),
        (score(0.2, 0.8, low_confidence=True), None),
        (score(0.2, 0.8, abstention="passed", abstention_threshold=0.5), 1),
    ],
)
def test_an_answer_has_one_value(answer: dict[str, Any], value: Any) -> None:
    """Label, truth at one half, the most probable level (the lowest of equals); None below the gate."""
    found = answer_value(answer)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("answer", [{}, {"type": "rank"}, {"type": "score", "score": 1.2}, {"type": "choice"}])
def test_what_is_no_answer_is_refused(answer: dict[str, Any]) -> None:
    """A payload that a hook made up is named as such, by its field in a schema."""
    with pytest.raises(ValueError, match="answer"):
        answer_value(answer)
    with pytest.raises(QuestionError, match="'value'"):
        fill(bool, answer)


@given(low=st.integers(-50, 50), count=st.integers(2, 101), data=st.data())
def test_a_score_is_the_level_plus_the_minimum(low: int, count: int, data: st.DataObject) -> None:
    """A bounded integer comes back in its own range, wherever that begins."""
    level = data.draw(st.integers(0, count - 1))
    answer = score(*[1.0 if index == level else 0.0 for index in range(count)])
    assert fill(Annotated[int, Field(ge=low, lt=low + count)], answer) == low + level


@pytest.mark.parametrize(
    ("annotation", "answer", "value"),
    [
        (Literal[1, 3, 5], score(0.1, 0.8, 0.1), 3),
        (Annotated[Literal["low", "high"], Levels()], score(0.1, 0.9), "high"),
        (Literal[Team.SHIPPING, Team.BILLING], choice("billing"), Team.BILLING),
        (Numbered, choice(2), Numbered.LATE_PARCEL),
        (Status, choice(404), Status.MISSING),
        (Literal[True, False], noul(0.3), False),
        (Annotated[bool, Field(json_schema_extra={"laya": "choice"})], choice(False), False),
        (Annotated[int, Field(ge=0, le=100, multiple_of=50)], score(0.1, 0.2, 0.7), 100),
    ],
)
def test_an_instance_holds_the_members_of_its_types(annotation: Any, answer: dict[str, Any], value: Any) -> None:
    """Values are the type's own, not their JSON forms."""
    found = fill(annotation, answer)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("annotation", "criteria", "answer", "value"),
    [
        (Annotated[Urgency, Field(ge=2)], ["soon", "now"], score(0.9, 0.1), Urgency.SOON),
        (Annotated[Urgency, Field(lt=3)] | None, ["can wait", "soon"], score(0.1, 0.9), Urgency.SOON),
        (Annotated[Urgency, Describe({1: "x", 3: "y"}), Field(gt=1)], ["2", "y"], score(0.1, 0.9), Urgency.NOW),
        (Annotated[Literal[1, 2, 3], Levels("low", "mid", "high"), Field(le=2)], ["low", "mid"], score(0.1, 0.9), 2),
        (Annotated[Literal[9, 1, 2], Field(ge=2)], [9, 2], choice(9), 9),
        (Annotated[Literal["a", "b"], Describe({"a": "x"})], {"a": "x", "b": None}, choice("a"), "a"),
    ],
)
def test_values_outside_of_the_bounds_are_not_asked(
    annotation: Any, criteria: Any, answer: dict[str, Any], value: Any
) -> None:
    """The model would refuse them, after the question was paid for."""
    assert ask(annotation)["criteria"] == criteria
    assert fill(annotation, answer) is value


@pytest.mark.parametrize(
    ("bounds", "criteria"),
    [
        ({"minimum": 2}, ["2", "3", "4"]),
        ({"exclusiveMinimum": 2}, ["3", "4"]),
        ({"maximum": 2.5}, ["1", "2"]),
        ({"exclusiveMaximum": 4}, ["1", "2", "3"]),
        ({"minimum": 2, "maximum": 3}, ["2", "3"]),
        ({"minimum": 0, "maximum": 9}, ["1", "2", "3", "4"]),
    ],
)
def test_bounds_of_a_json_schema_hold_for_its_enumeration(bounds: dict[str, Any], criteria: list[str]) -> None:
    """Every keyword of JSON schema that bounds a number."""
    definition = {"type": "integer", "enum": [1, 2, 3, 4], **bounds}
    assert Schema.from_spec({"type": "object", "properties": {"n": definition}}).questions["n"]["criteria"] == criteria


def test_enums_of_any_scalar_come_back_as_members() -> None:
    """Values without a JSON type of their own are asked by their text."""

    class Rate(enum.Enum):
        LOW = Decimal("1.5")
        HIGH = Decimal("2.5")

    class Day(enum.Enum):
        FIRST = datetime.date(2024, 1, 1)
        LAST = datetime.date(2024, 12, 31)

    assert fill(Rate, choice("2.5")) is Rate.HIGH
    assert fill(Day, choice("2024-01-01")) is Day.FIRST


def test_strict_models_are_filled() -> None:
    """A strict model takes members only, and gets members."""

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

        team: Team
        stars: Annotated[int, Field(ge=1, le=2)]

    filled = Schema.from_spec(Strict).instance({"team": choice("billing"), "stars": score(0.1, 0.9)})
    assert filled == Strict(team=Team.BILLING, stars=2)


def test_aliases_play_no_part() -> None:
    """Question ids are the names of the fields, as the program reads them."""

    class Aliased(BaseModel):
        urgent: bool = Field(alias="isUrgent")
        team: Team = Field(validation_alias="theTeam")

    schema = Schema.from_spec(Aliased)
    assert list(schema.questions) == ["urgent", "team"]
    filled = schema.instance({"urgent": noul(0.9), "team": choice("billing")})
    assert (filled.urgent, filled.team) == (True, Team.BILLING)


def test_an_answer_below_the_gate_is_none_where_none_is_admitted() -> None:
    """The model's validators run, as the value is one they must expect."""
    seen = []

    class Watched(BaseModel):
        team: Team | None
        urgent: bool

        @model_validator(mode="after")
        def _watch(self) -> Watched:
            seen.append(self.team)
            return self

    filled = Schema.from_spec(Watched).instance({"team": choice("billing", low_confidence=True), "urgent": noul(0.9)})
    assert filled == Watched.model_construct(team=None, urgent=True)
    assert seen == [None]


def test_an_answer_below_the_gate_is_none_where_none_is_not_admitted() -> None:
    """The instance is built without the model's validators; other fields and defaults are as ever."""

    class Watched(BaseModel):
        model_config = ConfigDict(frozen=True)

        team: Team = Field(alias="theTeam")
        urgent: Annotated[bool, AfterValidator(lambda value: not value)]
        note: str = Field("none yet", json_schema_extra={"laya": "skip"})

        @model_validator(mode="after")
        def _never(self) -> Watched:
            raise AssertionError("a validator saw an instance with a gated field")

    filled = Schema.from_spec(Watched).instance({"team": choice("billing", low_confidence=True), "urgent": noul(0.9)})
    assert type(filled) is Watched
    assert (filled.team, filled.urgent, filled.note) == (None, True, "none yet")


@pytest.mark.parametrize(
    "alias",
    [
        {"alias": "urgent"},
        {"validation_alias": "urgent"},
        {"validation_alias": AliasChoices("theTeam", "urgent")},
        {"validation_alias": AliasPath("urgent")},
    ],
)
@pytest.mark.parametrize("config", [{}, {"populate_by_name": True}, {"extra": "allow"}])
def test_an_alias_that_is_another_fields_name_takes_nothing_from_it(alias: Any, config: Any) -> None:
    """Below the gate as well, where no validator reads the values; skipped fields and private ones are as ever."""

    class Crossed(BaseModel):
        model_config = ConfigDict(**config)

        team: Team = Field(**alias)
        urgent: bool
        note: str = Field("none yet", alias="team", json_schema_extra={"laya": "skip"})
        both: str = Field(
            default_factory=lambda data: f"{data['team']}, {data['urgent']}", json_schema_extra={"laya": "skip"}
        )
        _seen: list[bool] = PrivateAttr(default_factory=list)

        def model_post_init(self, context: Any) -> None:
            self._seen.append(self.urgent)

    filled = Schema.from_spec(Crossed).instance({"team": choice("billing", low_confidence=True), "urgent": noul(0.9)})
    assert vars(filled) == {"team": None, "urgent": True, "note": "none yet", "both": "None, True"}
    assert (filled.model_fields_set, filled._seen) == ({"team", "urgent"}, [True])
    assert filled.model_extra == ({} if config.get("extra") else None)
    assert filled.model_copy() == filled


def test_a_root_model_holds_an_answer_below_the_gate() -> None:
    """Its questions are those of the model inside."""

    class Inner(BaseModel):
        team: Team
        urgent: bool = Field(alias="team")

    filled = Schema.from_spec(RootModel[Inner]).instance(
        {"team": choice("billing"), "urgent": noul(0.9, low_confidence=True)}
    )
    assert (filled.root.team, filled.root.urgent) == (Team.BILLING, None)


@pytest.mark.parametrize("gated", [True, False])
def test_enum_values_are_used_where_the_model_asks_for_them(gated: bool) -> None:
    """Both ways to build an instance follow the model's configuration."""

    class Valued(BaseModel):
        model_config = ConfigDict(use_enum_values=True)

        team: Team
        urgent: bool

    gate = {"low_confidence": True} if gated else {}
    filled = Schema.from_spec(Valued).instance({"team": choice("billing"), "urgent": noul(0.9, **gate)})
    assert filled.team == "billing"


def test_a_validators_refusal_reaches_the_caller() -> None:
    """What the model itself refuses is the model's own error."""

    class Picky(BaseModel):
        urgent: bool

        @model_validator(mode="after")
        def _refuse(self) -> Picky:
            raise ValueError("never urgent")

    with pytest.raises(ValidationError, match="never urgent"):
        Schema.from_spec(Picky).instance({"urgent": noul(0.9)})


def test_a_missing_answer_is_named() -> None:
    """A hook that skipped a question is found out by the field's name."""
    with pytest.raises(QuestionError, match="field 'team' has no answer") as caught:
        Schema.from_spec(Ticket).instance({"category": choice("other")})
    assert caught.value.question_id == "team"


@pytest.mark.parametrize(
    ("annotation", "answer"),
    [(Team, choice("sales")), (Annotated[int, Field(ge=1, le=2)], score(0.1, 0.2, 0.7)), (Team, noul(0.9))],
)
def test_an_answer_outside_of_the_field_is_named(annotation: Any, answer: dict[str, Any]) -> None:
    """An answer to another question than the field's is refused."""
    with pytest.raises(QuestionError, match="'value'"):
        fill(annotation, answer)


def test_further_answers_are_ignored() -> None:
    """A hook may ask more than the schema does."""
    model = create_model("Asked", urgent=(bool, ...))
    filled = Schema.from_spec(model).instance({"urgent": noul(0.9), "extra": choice("x")})
    assert filled.model_dump() == {"urgent": True}


@given(st.lists(st.text(min_size=1), min_size=2, unique=True), st.data())
def test_every_label_of_a_literal_comes_back(labels: list[str], data: st.DataObject) -> None:
    """Any text can be a label."""
    annotation = Literal[tuple(labels)]  # type: ignore[valid-type]
    label = data.draw(st.sampled_from(labels))
    assert ask(annotation)["criteria"] == list(get_args(annotation))
    assert fill(annotation, choice(label)) == label


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        ({"properties": {"a": {"enum": None}}}, "field 'a' can't be asked: its enum is no list"),
        ({"properties": {"a": {"type": "boolean"}}, "required": 5}, '"required" must be a list'),
        ({"properties": {1: {"type": "boolean"}}}, "a field's name is a string"),
        ({"properties": {"a": {"type": "integer", "minimum": -(10**400), "maximum": 3}}}, "its minimum is no finite"),
    ],
)
def test_a_schema_of_wrong_shapes_is_refused_by_name(schema: dict[str, Any], match: str) -> None:
    """Instead of an error from deep inside."""
    with pytest.raises(QuestionError, match=match):
        Schema.from_spec({"type": "object", **schema})
