"""Turn LangChain's decision questions into laya's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.decisions import Box, Choice, Noul, Score

from laya_integrations import _questions


def lower_questions(questions: Any) -> Any:
    """Question dicts from every form that laya takes, or from LangChain's `Choice`, `Score` and `Noul`.

    Plain dicts stay the same object. Raises ValueError where there is none, and for a `Box`: laya reads text, not
    images.
    """
    if isinstance(questions, Mapping) and not questions:
        raise ValueError("questions is empty; give at least one question by its answer id")
    if isinstance(questions, Mapping) and any(isinstance(q, _QUESTIONS) for q in questions.values()):
        questions = {question_id: _lowered(question_id, q) for question_id, q in questions.items()}
    return _questions.lower_questions(questions)


_QUESTIONS = (Choice, Score, Noul, Box)


def _lowered(question_id: str, question: Any) -> Any:
    match question:
        case Box():
            raise ValueError(
                f"question {question_id!r} is a Box, which locates something in an image; laya reads text, "
                "so ask a Choice, a Score or a Noul"
            )
        case Choice() | Score():
            # None stays: it is a label without a description.
            return question.model_dump()
        case Noul():
            return question.model_dump(exclude_none=True)
        case _:
            return question
