"""Check a question set and turn each question into the texts the model reads."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from laya._checkpoints.config import KINDS
from laya.errors import QuestionError

_NOUL_KEYS = ("false", "true")
_NOUL_TEXTS = {"false": "no, the statement does not hold", "true": "yes, the statement holds"}
_SCALARS = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Question:
    """One checked question: what the model reads and how its answer is keyed."""

    id: Hashable
    kind: str
    instructions: str
    options: tuple[str, ...]
    """Option texts in the caller's order; for noul: false, true."""
    labels: tuple[Any, ...]
    """Answer keys in the caller's order: choice labels, level numbers as text, or false/true."""
    legend: tuple[str, ...] = ()
    """Level texts of a score question."""
    order: tuple[int, ...] | None = None
    """`order[slot]` is the option shown in that slot; None shows them as they are."""

    @property
    def prompt(self) -> str:
        return f"{self.kind} question: {self.instructions}"

    @property
    def shown(self) -> tuple[str, ...]:
        """Option texts in the order in which the model sees them."""
        return self.options if self.order is None else tuple(self.options[i] for i in self.order)


def json_text(value: Any) -> str:
    """Render a value that is no string: JSON with ", " and ": ", without ASCII escapes."""
    return json.dumps(value, ensure_ascii=False)


def parse_questions(questions: Any) -> tuple[Question, ...]:
    """Check a whole question set before anything is tokenized.

    Raises `TypeError` if `questions` is no mapping and `QuestionError` (a `ValueError`) naming the first
    bad question.
    """
    if not isinstance(questions, Mapping):
        raise TypeError(f"questions must be a dict of question id to definition, got {type(questions).__name__}")
    return tuple(_parse_question(qid, definition) for qid, definition in questions.items())


def _parse_question(qid: Hashable, definition: Any) -> Question:
    if not isinstance(qid, str | int) or (isinstance(qid, str) and not qid.strip()):
        raise QuestionError(
            f"a question id must be a non-blank string or an integer, got {_short(qid)}", question_id=qid
        )
    if not isinstance(definition, Mapping):
        raise _error(qid, f"the definition must be a dict, got {type(definition).__name__}")
    kind = _spelled(definition.get("type"))
    if kind not in KINDS:
        raise _error(qid, f"unknown 'type' {_short(kind)}; use 'choice', 'score' or 'noul'")
    if "labels" in definition and kind != "noul":
        raise _error(qid, f"'labels' only renames the answers of a noul question, this one is a {kind}")
    instructions = _instructions(qid, definition)
    build = {"choice": _choice, "score": _score, "noul": _noul}[kind]
    options, labels, legend = build(qid, definition)
    order = _option_order(qid, definition["option_order"], len(options)) if "option_order" in definition else None
    return Question(qid, kind, instructions, options, labels, legend, order)


def _instructions(qid: Hashable, definition: Mapping[str, Any]) -> str:
    value = definition.get("instructions")
    if value is None or (isinstance(value, list | tuple | dict) and not value):
        value = ""
    text = _described(qid, "instructions", value)
    if not text.strip():
        raise _error(qid, "'instructions' is missing or blank; add the text that the model should answer")
    return text


def _choice(qid: Hashable, definition: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...], tuple[str, ...]]:
    criteria = definition.get("criteria")
    if isinstance(criteria, Mapping):
        pairs = list(criteria.items())
    elif isinstance(criteria, list):
        pairs = [(label, None) for label in criteria]
    else:
        raise _error(
            qid,
            "a choice question takes 'criteria' as {label: description} or a list of labels, "
            f"got {type(criteria).__name__}",
        )
    if not pairs:
        raise _error(qid, "a choice question needs at least one option in 'criteria'")
    first_seen: dict[Any, int] = {}
    for index, (label, _) in enumerate(pairs):
        if not isinstance(label, _SCALARS):
            what = "null" if label is None else f"a {type(label).__name__}"
            raise _error(qid, f"choice label {index} is {what}; a label is a string, number or boolean")
        if label != label:
            raise _error(qid, f"choice label {index} is not a number (NaN), which equals no key; name it with a string")
        if label in first_seen:
            raise _error(
                qid,
                f"choice label {index} ({_short(label)}) repeats label {first_seen[label]}; labels are the keys of the "
                "answer, and 1, 1.0 and True are one key",
            )
        first_seen[label] = index
    options = tuple(_option_text(qid, str(_spelled(label)), description) for label, description in pairs)
    return options, tuple(label for label, _ in pairs), ()


def _score(qid: Hashable, definition: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...], tuple[str, ...]]:
    levels = definition.get("criteria")
    if not isinstance(levels, list):
        raise _error(
            qid,
            "a score question takes 'criteria' as a list of level descriptions, lowest first, "
            f"got {type(levels).__name__}",
        )
    if not levels:
        raise _error(qid, "a score question needs at least one level in 'criteria'")
    for index, level in enumerate(levels):
        if level is None:
            raise _error(qid, f"score level {index} is null; describe every level, lowest first")
    legend = tuple(_described(qid, f"score level {index}", level) for index, level in enumerate(levels))
    options = tuple(f"level {index}: {text}" for index, text in enumerate(legend))
    return options, tuple(str(index) for index in range(len(legend))), legend


def _noul(qid: Hashable, definition: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...], tuple[str, ...]]:
    criteria = definition.get("criteria")
    if criteria is None:
        criteria = {}
    if not isinstance(criteria, Mapping):
        raise _error(
            qid,
            f"a noul question takes 'criteria' as {{'true': ..., 'false': ...}}, got {type(criteria).__name__}",
        )
    texts = {_truth_key(key): value for key, value in criteria.items()}
    if not set(texts) <= set(_NOUL_KEYS):
        raise _error(
            qid,
            f"noul 'criteria' may only have the keys 'true' and 'false', got {_short(list(criteria))}; "
            "to word the answers differently, set 'labels' as well",
        )
    names = _noul_labels(qid, definition.get("labels"))
    options = []
    for key in _NOUL_KEYS:
        text = texts.get(key)
        description = _NOUL_TEXTS[key] if text is None or text == "" else text
        options.append(_option_text(qid, names[key], description))
    return tuple(options), _NOUL_KEYS, ()


def _noul_labels(qid: Hashable, labels: Any) -> dict[str, str]:
    if labels is None:
        return {key: key for key in _NOUL_KEYS}
    exact = isinstance(labels, Mapping) and set(labels) == set(_NOUL_KEYS)
    names = [name.strip() for name in labels.values() if isinstance(name, str)] if exact else []
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise _error(qid, "noul 'labels' must map exactly 'true' and 'false' to two distinct non-empty strings")
    return {key: name.strip() for key, name in labels.items()}


def _spelled(value: Any) -> Any:
    """A member of an enumeration reads as the string or number that it is: `str()` and f-strings show its name."""
    if not isinstance(value, Enum):
        return value
    return str.__str__(value) if isinstance(value, str) else value.value


def _truth_key(key: Any) -> Any:
    return str(key).lower() if isinstance(key, bool | str) else key


def _option_order(qid: Hashable, order: Any, count: int) -> tuple[int, ...]:
    slots = list(order) if isinstance(order, Sequence) and not isinstance(order, str) else None
    if slots is None or any(type(slot) is not int for slot in slots) or sorted(slots) != list(range(count)):
        raise _error(
            qid,
            f"'option_order' must hold each of 0..{count - 1} once (slot s shows option order[s]), got {_short(order)}",
        )
    return tuple(slots)


def _option_text(qid: Hashable, label: str, description: Any) -> str:
    # `== ""` and not falsiness: 0 and False are descriptions.
    if description is None or (isinstance(description, str) and description == ""):
        return label
    return f"{label}: {_described(qid, f'option {_short(label)}', description)}"


def _described(qid: Hashable, what: str, value: Any) -> str:
    """A string as it is, any other value as JSON."""
    if isinstance(value, str):
        return str(_spelled(value))
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _error(qid, f"{what} is neither text nor JSON ({error}); pass a string") from error


def _error(qid: Hashable, message: str) -> QuestionError:
    return QuestionError(f"question {_short(qid)}: {message}", question_id=qid)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
