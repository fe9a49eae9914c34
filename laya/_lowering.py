"""Turn whatever stands for a question set into plain question dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lower_questions(questions: Any, *, strict: bool = True) -> Any:
    """Return `questions` as a dict of plain question dicts.

    A dict of dicts comes back as the same object: hooks may change a shared dict in place. Question models
    (`laya.Choice`, `laya.Score`, `laya.Noul`) are lowered into a new dict; a pydantic model class or a JSON
    schema becomes its question set. A definition that is neither dict nor question model is left for
    question parsing to refuse.

    Raises `TypeError` for anything else than these (`strict=False` hands it back instead, for a caller that
    refuses it later), and `QuestionError` for a schema with a field that no question type can answer.
    """
    if isinstance(questions, Mapping):
        if is_object_schema(questions):
            return _schema_questions(questions)
        # `type(...) is dict` first: the ABC check alone costs more than the rest of this function.
        for definition in questions.values():
            if type(definition) is not dict and not isinstance(definition, Mapping):
                return _lower_models(questions)
        return questions
    if isinstance(questions, type):
        return _schema_questions(questions)
    if strict:
        raise TypeError(_refusal(questions))
    return questions


def is_object_schema(candidate: Mapping[Any, Any]) -> bool:
    """Tell a JSON schema of an object from a question set; a set's values are never strings."""
    return candidate.get("type") == "object" or isinstance(candidate.get("$ref"), str)


# pydantic is imported only for a caller who uses models, so the imports below are local.


def _lower_models(questions: Mapping[Any, Any]) -> dict[Any, Any]:
    from laya.questions import QuestionModel

    return {
        question_id: definition.to_question() if isinstance(definition, QuestionModel) else definition
        for question_id, definition in questions.items()
    }


def _schema_questions(spec: Any) -> dict[str, Any]:
    from laya._schema import Schema

    return Schema.from_spec(spec).questions


def _refusal(questions: Any) -> str:
    kind = type(questions).__name__
    if hasattr(type(questions), "to_question"):
        hint = f"give the question an id: {{'my_question': {kind}(...)}}"
    elif hasattr(type(questions), "model_fields"):
        hint = f"pass the class, {kind}, not an instance of it"
    else:
        hint = "write {'urgent': {'type': 'noul', 'instructions': 'Is it urgent?'}}"
    return (
        "questions must be a dict from question id to question, a pydantic model class or a JSON schema "
        f"of an object, got {kind}; {hint}"
    )
