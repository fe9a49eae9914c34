"""Read the answers of a `LayaMessage` as a pydantic object or as one bare value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.output_parsers.base import BaseGenerationOutputParser
from langchain_core.outputs import ChatGeneration, Generation
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, field_validator

from laya_integrations._decisions import answer_value


class AnswerParser(BaseGenerationOutputParser[Any]):
    """Parse answers: `AnswerParser(Ticket)` gives a Ticket, `AnswerParser("urgent")` that question's value.

    Takes a `LayaMessage`, or any message or text whose content is the same JSON. A pydantic model that can
    itself be asked as questions is built by the rule of laya's `decide`, where a score's level, counted from
    0, becomes the field's value and an answer below the gate is None; any other model validates the JSON's
    values. A question id gives what the JSON has: of a score the level, counted from 0.
    Raises OutputParserException for what it can't read.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    target: Any
    """A pydantic model class, or a question id."""

    _schema: Any = PrivateAttr(default=None)

    def __init__(self, target: type[BaseModel] | str, **fields: Any) -> None:
        super().__init__(**{"target": target, **fields})

    @field_validator("target")
    @classmethod
    def _checked_target(cls, target: Any) -> Any:
        if isinstance(target, str) or (isinstance(target, type) and issubclass(target, BaseModel)):
            return target
        raise ValueError(f"target must be a pydantic model or a question id, got {type(target).__name__}")

    def model_post_init(self, context: Any, /) -> None:
        """Read the model as a question set, where it is one."""
        super().model_post_init(context)
        self._schema = _schema_of(self.target)

    @property
    def OutputType(self) -> Any:
        """The pydantic model, or any value."""
        return Any if isinstance(self.target, str) else self.target

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Parse the first generation."""
        answers = _answers(result[0])
        values = _json_values(result[0].text) if answers is None else _answer_values(answers)
        if isinstance(self.target, str):
            return _value(values, self.target)
        if self._schema is not None and answers is None:
            answers = _answers_of_values(values, self._schema.questions)
        try:
            if answers is not None and self._schema is not None:
                return self._schema.instance(answers)
            return self.target.model_validate(values)
        except ValidationError as error:
            # None of it as a cause: a traceback would show its values.
            raise OutputParserException(_refused(self.target, error)) from None
        except ValueError as error:
            raise OutputParserException(str(error)) from None

    async def aparse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """`parse_result`, which is too short for a thread."""
        return self.parse_result(result, partial=partial)


def _schema_of(target: Any) -> Any:
    """The model as laya's schema; None for a question id, for other models, and where laya has no schemas."""
    if isinstance(target, str):
        return None
    try:
        from laya.questions import Schema
    except ImportError:
        return None
    try:
        return Schema.from_spec(target)
    except ValueError:
        return None


def _answers(generation: Generation) -> Mapping[str, Any] | None:
    """laya's answers where the message still has them.

    One that was stored may come back as an AIMessage with the result beside its content, or its content only.
    """
    result = getattr(generation.message, "result", None) if isinstance(generation, ChatGeneration) else None
    answers = result.get("answers") if isinstance(result, Mapping) else None
    return answers if isinstance(answers, Mapping) else None


def _answers_of_values(values: Mapping[str, Any], questions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Answers with these values; None where some value is no answer to its question."""
    answers = {}
    for question_id, question in questions.items():
        if question_id not in values:
            return None
        answer = _answer_of_value(values[question_id], question)
        if answer is None:
            return None
        answers[question_id] = answer
    return answers


def _answer_of_value(value: Any, question: Mapping[str, Any]) -> dict[str, Any] | None:
    match question["type"], value:
        case kind, None:
            return {"type": kind, "low_confidence": True}
        case "choice", str() if value in question["criteria"]:
            return {"type": "choice", "choice": value}
        case "noul", bool():
            return {"type": "noul", "noul": float(value)}
        case "score", int() if not isinstance(value, bool) and 0 <= value < len(question["criteria"]):
            return {"type": "score", "probabilities": {str(value): 1.0}}
        case _:
            return None


def _answer_values(answers: Mapping[str, Any]) -> dict[str, Any]:
    return {question_id: answer_value(answer) for question_id, answer in answers.items()}


def _json_values(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        raise OutputParserException("the message holds no JSON; put a LayaRunnable before the parser") from None
    if not isinstance(values, dict):
        raise OutputParserException(f"the message's JSON must be an object, got {type(values).__name__}")
    return values


def _value(values: Mapping[str, Any], question_id: str) -> Any:
    if question_id not in values:
        answered = ", ".join(values) or "nothing"
        raise OutputParserException(f"no answer to {question_id!r}; the message answers {answered}")
    return values[question_id]


def _refused(model: type[BaseModel], error: ValidationError) -> str:
    """Name the fields, not their values."""
    faults = "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'model'}: {fault['msg']}" for fault in error.errors())
    return f"the answers don't make a {model.__name__}: {faults}"
