"""Questions as pydantic models, and pydantic models as question sets.

`Choice`, `Score` and `Noul` are accepted wherever a question dict is. A whole pydantic model stands for a
question set, one question a field:

    class Ticket(BaseModel):
        category: Literal["billing", "shipping"] = Field(description="What is it about?")    # choice
        needs_human: bool                                                                    # noul
        urgency: Annotated[int, Field(ge=1, le=5)]                                           # score
        mood: Annotated[Literal["calm", "cross"], Levels("is at ease", "complains")] | None  # score

- enum, Literal: choice. Its values are the labels.
- bool, Literal[True, False]: noul.
- int with both bounds, Literal of ascending integers, IntEnum counting up by one: score. Strings in order
  are a score only where `Levels` (or `"laya": "score"`, below) says so.
- description (else title, else the field's name): the instructions. Aliases play no part.
- `X | None`: the value is None where an answer is below `min_confidence`. A field that admits no None is
  None then as well, and the instance is built without the model's validators (`Schema.instance`).

What a type can't say goes under one keyword of the field's JSON schema, "laya", which works the same in a
pydantic model (`Field(json_schema_extra={"laya": ...})`) and in a plain JSON schema:

    {"laya": "score"}                                  the type: choice, score, noul
    {"laya": "skip"}                                   not a question; the field needs a default
    {"laya": {"criteria": {"billing": "invoices"}}}    what options mean: a map by value, or a list in order
    {"laya": {"type": ..., "criteria": ..., "labels": ..., "option_order": ...}}    as in a question dict

`Levels` and `Describe` write that keyword as annotations; a field takes these or
`json_schema_extra`, not both.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from laya._json_schema import KEYWORD
from laya._lowering import lower_questions
from laya._schema import Schema, answer_value
from laya._schema_fields import label_key

__all__ = [
    "Choice",
    "Describe",
    "Levels",
    "Noul",
    "Question",
    "QuestionModel",
    "Schema",
    "Score",
    "answer_value",
    "lower_questions",
]


class QuestionModel(BaseModel):
    """Hold what the three question types share.

    Only the shape is checked here. What a question may say is checked where dicts are checked too, so that
    both are refused with the same error.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_question(self) -> dict[str, Any]:
        """Return the question as a new plain dict: the type, then what is set, in the order of the fields.

        Nothing in it is shared with the model, so a hook may change it.
        """
        values = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: copy.deepcopy(value) for name, value in values if value is not None}


class Choice(QuestionModel):
    """Ask for one label out of several."""

    type: Literal["choice"] = "choice"
    instructions: Any
    """What to decide: text, or any JSON value."""
    criteria: dict[Any, Any] | list[Any]
    """The labels, or a map from each label to what it means (None: the label speaks for itself)."""
    option_order: list[int] | None = None
    """The order in which the model sees the options; answers keep the order of `criteria`."""


class Score(QuestionModel):
    """Ask for a level on a scale."""

    type: Literal["score"] = "score"
    instructions: Any
    """What to rate: text, or any JSON value."""
    criteria: list[Any]
    """What each level means, lowest first; the first is level 0."""
    option_order: list[int] | None = None
    """The order in which the model sees the levels; answers keep the order of `criteria`."""


class Noul(QuestionModel):
    """Ask how probable it is that a statement holds."""

    type: Literal["noul"] = "noul"
    instructions: Any
    """The statement or yes-no question: text, or any JSON value."""
    criteria: dict[Any, Any] | None = None
    """What "true" and "false" mean; either or both."""
    labels: dict[str, str] | None = None
    """Other words for "true" and "false"; both."""
    option_order: list[int] | None = None
    """The order in which the model sees false and true."""


Question = Annotated[Choice | Score | Noul, Field(discriminator="type")]
"""Any question; as a pydantic type it reads a question dict by its "type"."""


class _FieldMarker:
    """Write an annotation into the "laya" keyword of the field's JSON schema."""

    __slots__ = ("keyword",)

    def __init__(self, keyword: dict[str, Any]) -> None:
        self.keyword = keyword

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        return {**schema, KEYWORD: {**schema.get(KEYWORD, {}), **self.keyword}}


class Levels(_FieldMarker):
    """Mark a Literal or enum as an ordered scale, lowest first, and say what each level means.

    `Annotated[Literal["low", "high"], Levels("can wait", "must be done today")]`; without texts, the
    values themselves describe the levels.
    """

    def __init__(self, *texts: Any) -> None:
        super().__init__({"type": "score", **({"criteria": list(texts)} if texts else {})})


class Describe(_FieldMarker):
    """Say what the values of a field mean; a value left out speaks for itself.

    `Annotated[Literal["billing", "other"], Describe({"billing": "invoices, refunds"})]`
    """

    def __init__(self, texts: Mapping[Any, Any]) -> None:
        labels = {key.value if isinstance(key, enum.Enum) else key: text for key, text in texts.items()}
        super().__init__({"criteria": {label_key(label): text for label, text in labels.items()}})
