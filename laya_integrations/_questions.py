"""Turn the accepted forms of questions into laya's question dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

_TYPES = ("choice", "score", "noul")


@runtime_checkable
class QuestionObject(Protocol):
    """A question that gives itself as laya's question dict."""

    def to_question(self) -> Any: ...


def lower_questions(questions: Any) -> Any:
    """Turn every accepted form of questions into laya's question dicts; plain dicts stay the same object.

    Forms: dicts, objects with `to_question()`, and, where the laya runtime has `laya.questions`, its question
    models, a pydantic model class or a JSON schema. Raises TypeError for anything else, and ValueError for a type of
    question that laya doesn't have.
    """
    if isinstance(questions, Mapping):
        if any(isinstance(question, QuestionObject) for question in questions.values()):
            questions = {
                question_id: question.to_question() if isinstance(question, QuestionObject) else question
                for question_id, question in questions.items()
            }
        if all(isinstance(question, Mapping) for question in questions.values()):
            _check_types(questions)
            return questions
    try:
        from laya.questions import lower_questions as lower
    except ImportError:
        raise TypeError(f"{_refusal(questions)}; this laya runtime takes question dicts only") from None
    if (parameters := _function_parameters(questions)) is not None:
        raise TypeError(f"questions is the schema of a function, which is no question; pass its {parameters}")
    lowered = lower(questions)
    if not all(isinstance(question, Mapping) for question in lowered.values()):
        raise TypeError(f"{_refusal(lowered)}; write a dict or a question object")
    _check_types(lowered)
    return lowered


def _check_types(questions: Mapping[Any, Mapping[str, Any]]) -> None:
    for question_id, question in questions.items():
        if question.get("type") not in _TYPES:
            raise ValueError(
                f"question {question_id!r} has the type {question.get('type')!r}; use {' or '.join(_TYPES)}"
            )


def _function_parameters(questions: Any) -> str | None:
    """Where the schema of a function, as models are told of tools, has the fields that can be asked."""
    match questions:
        case {"name": str(), "parameters": Mapping()}:
            return "'parameters'"
        case {"function": {"name": str(), "parameters": Mapping()}}:
            return "['function']['parameters']"
    return None


def _refusal(questions: Any) -> str:
    if isinstance(questions, Mapping):
        question_id, odd = next((i, q) for i, q in questions.items() if not isinstance(q, Mapping))
        return f"question {question_id!r} must be a definition, got {type(odd).__name__}"
    got = f"the class {questions.__name__}" if isinstance(questions, type) else type(questions).__name__
    return f"questions must be a dict of question id to definition, got {got}"
