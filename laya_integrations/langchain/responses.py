"""LangChain's decision answers with what laya knows beyond them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from langchain_core.decisions import ChoiceAnswer, ClassifierResponse, NoulAnswer, ScoreAnswer
from pydantic import BaseModel, Field

from laya_integrations._decisions import Decision


class LayaAnswerFields(BaseModel):
    """What laya adds to each answer."""

    answer_confidence: float | None = None
    """Probability of the most probable answer."""
    action: dict[str, Any] | None = None
    """The checkpoint's `act_probability`, where it has one."""
    low_confidence: bool = False
    """Whether the answer fell below the call's `min_confidence`."""
    abstention: str | None = None
    """What the gate made of the answer, where there was one."""
    abstention_threshold: float | None = None
    """The gate that the answer fell below."""


class LayaNoulAnswer(LayaAnswerFields, NoulAnswer):
    """A yes-or-no answer."""

    confidence: float | None = None
    """Probability of the more probable side."""


class LayaChoiceAnswer(LayaAnswerFields, ChoiceAnswer):
    """A label. `confidence` says how far the probabilities are from even; it is no probability.

    `ModelRouterMiddleware` keeps it in the agent's state. A checkpointer in strict mode reads it back only where
    its serializer's `allowed_msgpack_modules` names this class.
    """


class LayaScoreAnswer(LayaAnswerFields, ScoreAnswer):
    """A level. `confidence` says how far the probabilities are from even; it is no probability."""


LayaAnswer = Annotated[LayaNoulAnswer | LayaChoiceAnswer | LayaScoreAnswer, Field(discriminator="type")]
"""One answer, by its type."""


class LayaClassifierResponse(ClassifierResponse):
    """LangChain's response; `request_id` is laya's id of the call, which requests of a batch may share."""

    answers: dict[str, LayaAnswer]  # type: ignore[assignment]
    """The answers with laya's own fields, by question id."""
    batch_index: int | None = None
    """Place in the laya call that `request_id` names, where it answered several states."""
    routing: dict[str, Any] | None = None
    """Which checkpoint a Router chose, and why."""
    truncated: bool = False
    """Whether part of the state didn't fit."""
    truncated_questions: list[str] = Field(default_factory=list)
    """The questions that saw a shortened state."""
    result: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    """laya's whole result. Dumps leave it out: the other fields say it."""


def response_of(decision: Decision) -> LayaClassifierResponse:
    """The response that carries a decision."""
    result = decision.result
    reported = result.get("usage") or {}
    return LayaClassifierResponse.model_validate(
        {
            "model": decision.model_name,
            "answers": {question_id: _answer(answer) for question_id, answer in result["answers"].items()},
            "usage": decision.usage,
            "request_id": decision.run_id,
            "batch_index": decision.batch_index,
            "routing": result.get("routing"),
            "truncated": decision.truncated,
            "truncated_questions": list(reported.get("truncated_questions") or ()),
            "result": dict(result),
        }
    )


def _answer(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer as LangChain has it: laya keeps a label's own type, LangChain's labels are text."""
    if answer.get("type") != "choice":
        return answer
    labels = {str(label): probability for label, probability in answer["probabilities"].items()}
    return {**answer, "choice": str(answer["choice"]), "probabilities": labels}
