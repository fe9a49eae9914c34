"""Turn a question's logits into its answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from laya._pipeline.questions import Question

DIGITS = 4
"""Decimal places of every reported number."""


def softmax(logits: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Probabilities of logits divided by a temperature."""
    top = max(logits)
    weights = [math.exp((logit - top) / temperature) for logit in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def normalised_entropy_confidence(probabilities: Sequence[float]) -> float:
    """1 - H(p) / ln k: 0 for a uniform distribution, 1 for a certain one, and 1 where k < 2."""
    if len(probabilities) < 2:
        return 1.0
    entropy = -math.fsum(p * math.log(p) for p in probabilities if p > 0.0)
    return min(1.0, max(0.0, 1.0 - entropy / math.log(len(probabilities))))


def decode_answer(
    question: Question, logits: Sequence[float], act_probability: float, temperature: float
) -> dict[str, Any]:
    """Decode one question's answer; `logits` are in slot order, the answer is in the caller's."""
    p = softmax(_caller_order(question, logits), temperature)
    answer: dict[str, Any] = {"type": question.kind}
    if question.kind == "noul":
        answer["noul"] = round(p[1], DIGITS)
        confidence = max(p)
    else:
        if question.kind == "choice":
            answer["choice"] = question.labels[p.index(max(p))]
        else:
            answer["score"] = round(math.fsum(level * share for level, share in enumerate(p)), DIGITS)
            answer["legend"] = dict(zip(question.labels, question.legend, strict=True))
        answer["probabilities"] = {label: round(share, DIGITS) for label, share in zip(question.labels, p, strict=True)}
        confidence = normalised_entropy_confidence(p)
    answer["confidence"] = round(confidence, DIGITS)
    answer["answer_confidence"] = round(max(p), DIGITS)
    answer["action"] = {"act_probability": round(act_probability, DIGITS)}
    return answer


def _caller_order(question: Question, logits: Sequence[float]) -> Sequence[float]:
    if question.order is None:
        return logits
    restored = [0.0] * len(question.order)
    for slot, option in enumerate(question.order):
        restored[option] = logits[slot]
    return restored
