"""A pydantic model or JSON schema as a question set, and answers as its instance."""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from laya._json_schema import KEYWORD, MEMBERS, NAMES
from laya._lowering import is_object_schema
from laya._schema_fields import QuestionField, read_fields
from laya.errors import QuestionError


@dataclass(frozen=True, slots=True)
class Schema:
    """A question set that was read from a pydantic model or a JSON schema. Immutable, shared by threads."""

    fields: tuple[QuestionField, ...]
    model: type[BaseModel] | None = None
    """The pydantic model, or None where a JSON schema was given."""

    @classmethod
    def from_spec(cls, spec: type[Any] | Mapping[str, Any]) -> Schema:
        """Read a pydantic model class or the JSON schema of an object.

        Raises `QuestionError` naming a field that no question type can answer, `TypeError` for another spec.
        """
        if isinstance(spec, type) and issubclass(spec, BaseModel) and spec is not BaseModel:
            return _read_model(spec)
        if isinstance(spec, Mapping) and is_object_schema(spec):
            return cls(read_fields(spec))
        got = f"the class {spec.__name__}" if isinstance(spec, type) else type(spec).__name__
        raise TypeError(
            f"a question set is read from a pydantic model class or a JSON schema of an object, got {got}; "
            'derive from pydantic.BaseModel or give {"type": "object", "properties": {...}}'
        )

    @property
    def questions(self) -> dict[str, dict[str, Any]]:
        """The question set by field name, a new one each time: a hook may change it."""
        return {field.name: copy.deepcopy(field.question) for field in self.fields}

    def instance(self, answers: Mapping[str, Mapping[str, Any]]) -> Any:
        """Return the answers as an instance of the model, or as a dict where a JSON schema was given.

        An answer below `min_confidence` is None. Where such a field admits no None, the instance is built
        without the model's validators, which were written for a value; declare the field `X | None` to have
        them run always. Raises `QuestionError` naming a field without a usable answer.
        """
        values = {field.name: field.value(self._decided(field, answers)) for field in self.fields}
        if self.model is None:
            return values
        if all(field.nullable or values[field.name] is not None for field in self.fields):
            return self.model.model_validate(values, by_name=True, by_alias=False)
        if self.model.model_config.get("use_enum_values"):
            values = {name: v.value if isinstance(v, enum.Enum) else v for name, v in values.items()}
        return _unvalidated(self.model, values)

    def _decided(self, field: QuestionField, answers: Mapping[str, Mapping[str, Any]]) -> str | float | bool | None:
        if field.name not in answers:
            raise QuestionError(
                f"field {field.name!r} has no answer; did a hook drop or rename the question?",
                question_id=field.name,
            )
        try:
            return answer_value(answers[field.name])
        except ValueError as error:
            raise QuestionError(f"field {field.name!r}: {error}", question_id=field.name) from error


def answer_value(answer: Mapping[str, Any]) -> str | float | bool | None:
    """Return what an answer decided: the choice's label, noul as a bool, the score's most probable level.

    None where the answer is below `min_confidence`. noul is true from 0.5 on; of equally probable levels
    the lowest is taken. Raises `ValueError` for anything that is no answer.
    """
    if answer.get("low_confidence"):
        return None
    kind = answer.get("type")
    try:
        if kind == "choice":
            label: str | float | bool = answer["choice"]
            return label
        if kind == "noul":
            return bool(answer["noul"] >= 0.5)
        if kind == "score":
            levels = answer["probabilities"]
            return int(max(sorted(levels, key=int), key=levels.__getitem__))
    except KeyError as missing:
        raise ValueError(f"a {kind} answer needs {missing}, which this one lacks") from None
    raise ValueError(f"an answer's type is choice, score or noul, got {kind!r}")


def _unvalidated(model: type[BaseModel], values: Mapping[str, Any]) -> BaseModel:
    """Build an instance as `model_construct` does, but by the names of the fields alone.

    `model_construct` reads a key as an alias first, and one field's alias may be another's name.
    """
    if issubclass(model, RootModel):
        root: Any = model.model_fields["root"].annotation
        modelled = isinstance(root, type) and issubclass(root, BaseModel)
        return model.model_construct(_unvalidated(root, values) if modelled else dict(values))
    held: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in values:
            held[name] = values[name]
        elif not field.is_required():
            held[name] = field.get_default(call_default_factory=True, validated_data=held)
    state: dict[str, Any] = {
        "__dict__": held,
        "__pydantic_fields_set__": set(values),
        "__pydantic_extra__": {} if model.model_config.get("extra") == "allow" else None,
        "__pydantic_private__": None,
    }
    instance = model.__new__(model)
    BaseModel.__setstate__(instance, state)
    if model.__pydantic_post_init__:
        instance.model_post_init(None)
    return instance


# Bounded, so that classes made on the fly are let go of.
@lru_cache(maxsize=128)
def _read_model(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(by_alias=False, schema_generator=_MemberSchema)
    return Schema(read_fields(schema), model)


class _MemberSchema(GenerateJsonSchema):
    """Generate a model's JSON schema with the Python values of enumerations beside their JSON values."""

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return {**super().literal_schema(schema), MEMBERS: list(schema["expected"])}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        members = list(schema["members"])
        generated = {
            **super().enum_schema(schema),
            MEMBERS: members,
            NAMES: [member.name for member in members],
        }
        # auto() numbers the members of any enum; only those of an IntEnum are meant to be numbers.
        numbers = [member.value for member in members]
        if {type(number) for number in numbers} == {int}:
            counting = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            if not (counting and issubclass(schema["cls"], int)):
                generated[KEYWORD] = {"type": "choice"}
        return generated

    def handle_invalid_for_json_schema(self, schema: core_schema.CoreSchema, error_info: str) -> JsonSchemaValue:
        # The reader refuses the type with the field's name, which pydantic's own error lacks.
        return {"type": schema["type"]}

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """Keep the order of the caller's criteria."""
        return value

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: what pydantic warns of are defaults without a JSON form, and none is read here."""
