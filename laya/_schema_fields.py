"""Read each property of a JSON schema as one question."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from laya._json_schema import KEYWORD, MEMBERS, NAMES, UnreadableSchema, flatten
from laya.errors import QuestionError

MAX_LEVELS = 101
"""Levels of a score, at most: 0 to 100. More don't fit beside a state, and no model tells them apart."""

_NEXT_STEP = (
    "use an enum or Literal (choice), a bool (noul) or an int with both bounds (score), or leave the field "
    'out with a default and "laya": "skip"'
)
_TESTS: dict[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
    # pydantic writes the bounds of an Enum or a Literal by its own names.
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}
"""What a bound says of a value, by keyword."""
_OPTIONS = ("type", "criteria", "labels", "option_order")


@dataclass(frozen=True, slots=True)
class QuestionField:
    """One field of a schema: the question it asks and the values it can take."""

    name: str
    question: dict[str, Any]
    labels: tuple[Any, ...]
    """Values as the question names them, in the order of its options; false, true for noul."""
    values: tuple[Any, ...]
    """Values as the instance holds them, in the same order."""
    nullable: bool

    def value(self, decided: str | float | bool | None) -> Any:
        """Return the field's value for what `answer_value` read from the answer."""
        if decided is None:
            return None
        if self.question["type"] == "score":
            index = int(decided)
        else:
            index = self.labels.index(decided) if decided in self.labels else -1
        if not 0 <= index < len(self.values):
            raise QuestionError(
                f"field {self.name!r} has no such value as its answer, {decided!r}; did a hook change the "
                "question or the answer?",
                question_id=self.name,
            )
        return self.values[index]


def read_fields(schema: Mapping[str, Any]) -> tuple[QuestionField, ...]:
    """Return a field for each property of an object's schema, in order.

    Raises `QuestionError` naming the first property that no question type can answer.
    """
    try:
        root = flatten(schema, schema)
    except UnreadableSchema as reason:
        raise QuestionError(f"the JSON schema can't be read: {reason}") from None
    properties = root.get("properties")
    if root.get("type") != "object" or not isinstance(properties, Mapping):
        raise QuestionError('a schema of questions needs "type": "object" and "properties", one a question')
    required = root.get("required") or ()
    if not isinstance(required, list | tuple | set | frozenset):
        raise QuestionError(f'the JSON schema\'s "required" must be a list of names, not {type(required).__name__}')
    fields = []
    for name, definition in properties.items():
        if not isinstance(name, str):
            raise QuestionError(f"field {name!r} can't be asked: a field's name is a string", question_id=name)
        try:
            field = _read_field(name, flatten(definition, schema), name in required)
        except UnreadableSchema as reason:
            raise QuestionError(f"field {name!r} can't be asked: {reason}; {_NEXT_STEP}", question_id=name) from None
        if field is not None:
            fields.append(field)
    if not fields:
        raise QuestionError("the schema has no field to ask; give it at least one")
    return tuple(fields)


def label_key(label: Any) -> str:
    """Return the key that stands for a label in a JSON object."""
    return label if isinstance(label, str) else json.dumps(label)


def _read_field(name: str, schema: dict[str, Any], required: bool) -> QuestionField | None:
    if schema.get(KEYWORD, {}).get("type") == "skip":
        if required:
            raise UnreadableSchema('it is marked "skip" and has no default')
        return None
    schema = _within_bounds(schema)
    options = schema.get(KEYWORD, {})
    labels, values = _values(schema)
    kind = options.get("type") or _kind(labels, bounded="enum" not in schema)
    question = {"type": kind, "instructions": _instructions(name, schema)}
    unknown = [key for key in options if key not in _OPTIONS]
    if unknown:
        raise UnreadableSchema(f'its "laya" has an unknown key {unknown[0]!r} (known: {", ".join(_OPTIONS)})')
    if kind == "noul":
        if set(map(type, labels)) != {bool}:
            raise UnreadableSchema("only a bool can be a noul")
        if not labels[1]:
            labels, values = labels[::-1], values[::-1]
    elif kind not in ("choice", "score"):
        raise UnreadableSchema(f'its "laya" type is {kind!r}, not choice, score, noul or skip')
    elif kind == "score" and len(labels) > MAX_LEVELS:
        raise UnreadableSchema(f"it has {len(labels)} levels, more than the {MAX_LEVELS} a score can have")
    criteria = _criteria(kind, labels, _texts(options.get("criteria"), labels, schema.get(NAMES)))
    if criteria:
        question["criteria"] = criteria
    question.update({key: options[key] for key in ("labels", "option_order") if key in options})
    return QuestionField(name, question, labels, values, bool(schema.get("nullable")))


def _within_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out the values of an enumeration of numbers that its bounds exclude, and what runs beside them."""
    labels = schema.get("enum", ())
    if not labels or not all(type(label) in (int, float) for label in labels):
        return schema
    tests = [(test, bound) for keyword, test in _TESTS.items() for bound in _bounds(schema, keyword)]
    kept = [index for index, label in enumerate(labels) if all(test(label, bound) for test, bound in tests)]
    if len(kept) == len(labels):
        return schema
    if len(kept) < 2:
        raise UnreadableSchema(f"its bounds allow {len(kept)} of its values, so there is nothing to ask")
    bounded = dict(schema)
    for keyword in ("enum", MEMBERS, NAMES):
        if keyword in schema and len(schema[keyword]) == len(labels):
            bounded[keyword] = [schema[keyword][index] for index in kept]
    criteria = _texts(schema.get(KEYWORD, {}).get("criteria"), labels, None)
    if any(text is not None for text in criteria):
        bounded[KEYWORD] = {**schema[KEYWORD], "criteria": [criteria[index] for index in kept]}
    return bounded


def _values(schema: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the labels and, beside them, the instance's values."""
    if "enum" in schema:
        labels = tuple(schema["enum"])
        _check_labels(labels)
        return labels, tuple(schema.get(MEMBERS, labels))
    kind = schema.get("type")
    if kind == "boolean":
        return (False, True), (False, True)
    if kind == "integer":
        levels = tuple(_levels(schema))
        return levels, levels
    raise UnreadableSchema(f"its type is {kind}" if kind else "it says no type")


def _check_labels(labels: Sequence[Any]) -> None:
    if not all(isinstance(label, str | int | float) for label in labels):
        raise UnreadableSchema("a value of its enumeration is no string, number or bool")
    kinds = {type(label) for label in labels}
    if len(kinds) > 1 and kinds != {int, float}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise UnreadableSchema(f"the values of its enumeration are of several types ({names})")
    if len(set(labels)) < len(labels):
        raise UnreadableSchema("a value of its enumeration is repeated")
    if len(labels) < 2:
        raise UnreadableSchema("it can have one value only, so there is nothing to ask")


def _levels(schema: dict[str, Any]) -> range:
    lows = [math.ceil(bound) for bound in _bounds(schema, "minimum")]
    lows += [math.floor(bound) + 1 for bound in _bounds(schema, "exclusiveMinimum")]
    highs = [math.floor(bound) for bound in _bounds(schema, "maximum")]
    highs += [math.ceil(bound) - 1 for bound in _bounds(schema, "exclusiveMaximum")]
    if not lows or not highs:
        raise UnreadableSchema("it is an integer without both bounds")
    step = next(iter(_bounds(schema, "multipleOf")), 1)
    if step < 1 or step != int(step):
        raise UnreadableSchema("its multipleOf is no whole number above 0")
    step = int(step)
    first, last = -(-max(lows) // step) * step, min(highs)
    count = max(0, (last - first) // step + 1)
    if not 2 <= count <= MAX_LEVELS:
        raise UnreadableSchema(f"its bounds allow {count} levels, not 2 to {MAX_LEVELS}")
    return range(first, last + 1, step)


def _bounds(schema: dict[str, Any], keyword: str) -> list[float]:
    if keyword not in schema:
        return []
    bound = schema[keyword]
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not -1e300 < bound < 1e300:
        raise UnreadableSchema(f"its {keyword} is no finite number of a usable size")
    return [bound]


def _kind(labels: Sequence[Any], bounded: bool) -> str:
    if isinstance(labels[0], bool):
        return "noul"
    whole = all(isinstance(label, int) for label in labels)
    ascending = whole and all(low < high for low, high in pairwise(labels))
    return "score" if bounded or ascending else "choice"


def _texts(criteria: Any, labels: Sequence[Any], names: Sequence[str] | None) -> list[Any]:
    """Return what each value means, None where nothing says it."""
    if criteria is None:
        # The name of a number says what the number doesn't; a string label speaks for itself.
        if names is None or len(names) != len(labels) or isinstance(labels[0], str | bool):
            return [None] * len(labels)
        return [name.replace("_", " ").strip().lower() for name in names]
    if isinstance(criteria, Mapping):
        by_key = {label_key(key): text for key, text in criteria.items()}
        unknown = by_key.keys() - {label_key(label) for label in labels}
        if unknown:
            raise UnreadableSchema(f"its criteria describe {min(unknown)!r}, which is none of its values")
        return [by_key.get(label_key(label)) for label in labels]
    if isinstance(criteria, str) or not isinstance(criteria, Sequence) or len(criteria) != len(labels):
        raise UnreadableSchema(f"its criteria must be a map by value or a list of {len(labels)} texts")
    return list(criteria)


def _criteria(kind: str, labels: Sequence[Any], texts: Sequence[Any]) -> dict[Any, Any] | list[Any]:
    described = dict(zip(labels, texts, strict=True))
    if kind == "score":
        return [label_key(label) if text is None else text for label, text in described.items()]
    if kind == "noul":
        return {label_key(label): text for label, text in described.items() if text is not None}
    return described if any(text is not None for text in texts) else list(labels)


def _instructions(name: str, schema: dict[str, Any]) -> str:
    description, title = schema.get("description"), schema.get("title")
    if isinstance(description, str) and description.strip():
        return description
    # A title that only repeats the name was derived from it, and reads no better than what is made here.
    if isinstance(title, str) and title.strip() and _letters(title) != _letters(name):
        return title
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").split()
    text = " ".join(words).lower() if not name.isupper() else " ".join(words)
    return f"{text[:1].upper()}{text[1:]}?"


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text).casefold()
