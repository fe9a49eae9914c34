"""Conditions on laya's answers: a noul that is true, a label among some, a level that is reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from laya_integrations._decisions import Decision, answer_value

Label = str | int | float | bool
"""A label of a choice."""

Condition = Label | Collection[Label]
"""For a noul: its value, or the lowest probability of true. For a choice: the label, or labels. For a score:
the lowest level, counted from 0."""


def check_conditions(conditions: Mapping[str, Any], questions: Mapping[str, Any], name: str) -> None:
    """Refuse a condition that its question can never be asked about; raises ValueError naming it."""
    for question_id, wanted in conditions.items():
        question = questions.get(question_id)
        if question is None:
            raise ValueError(f"{name} names {question_id!r}; the questions are {', '.join(questions)}")
        if problem := _CHECKS[str(question.get("type"))](wanted, question.get("criteria")):
            raise ValueError(f"{name}[{question_id!r}] {problem}, got {wanted!r}")


def met(conditions: Mapping[str, Any], decision: Decision) -> list[str]:
    """The ids of the questions whose answer meets its condition."""
    answers = decision.result["answers"]
    return [question_id for question_id, wanted in conditions.items() if _is_met(wanted, answers.get(question_id))]


def unsure(conditions: Mapping[str, Any], decision: Decision) -> list[str]:
    """The ids of the questions that have no answer, or one below `min_confidence`."""
    answers = decision.result["answers"]
    return [question_id for question_id in conditions if _value(answers.get(question_id)) is None]


def _value(answer: Any) -> Any:
    return None if answer is None else answer_value(answer)


def _is_met(wanted: Any, answer: Any) -> bool:
    value = _value(answer)
    if value is None:
        return False
    match answer["type"]:
        case "noul":
            return bool(value is wanted if isinstance(wanted, bool) else answer["noul"] >= wanted)
        case "choice":
            return value in _labels(wanted)
        case _:
            return bool(value >= wanted)


def _labels(wanted: Any) -> list[Any]:
    return [wanted] if isinstance(wanted, Label) else list(wanted)


def _noul_problem(wanted: Any, criteria: Any) -> str:
    if isinstance(wanted, bool) or (isinstance(wanted, int | float) and 0 < wanted <= 1):
        return ""
    return "must be True, False or a probability above 0 and up to 1"


def _choice_problem(wanted: Any, criteria: Any) -> str:
    labels = _labels(wanted)
    if labels and set(labels) <= set(criteria or ()):
        return ""
    return f"must be one or some of {', '.join(map(str, criteria or ()))}"


def _score_problem(wanted: Any, criteria: Any) -> str:
    highest = len(criteria or ()) - 1
    if isinstance(wanted, int) and not isinstance(wanted, bool) and 0 <= wanted <= highest:
        return ""
    return f"must be a level from 0 to {highest}"


_CHECKS: dict[str, Callable[[Any, Any], str]] = {
    "noul": _noul_problem,
    "choice": _choice_problem,
    "score": _score_problem,
}
