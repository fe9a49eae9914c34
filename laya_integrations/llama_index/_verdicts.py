"""What an evaluation makes of laya's answers about one subject, which may have several states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from laya_integrations._decisions import Decision, answer_value
from laya_integrations.llama_index._conditions import Label


@dataclass(frozen=True)
class Subject:
    """What is judged, and the states that stand for it."""

    query: str | None
    response: str | None
    contexts: Sequence[str] | None
    states: list[dict[str, Any]]


@dataclass(frozen=True)
class Verdict:
    """What the answers about one state say."""

    decision: Decision
    score: float | None
    """From 0 to 1; None where the deciding question has no valid answer."""
    confidence: float | None
    """The probability of the deciding answer."""
    problem: str = ""
    """Why there is no score."""

    @classmethod
    def read(cls, decision: Decision, deciding: str | int, passing_labels: Sequence[Label]) -> Verdict:
        """Judge by the deciding question's answer.

        A noul scores its probability of true, a score question its expected level as a part of the highest one,
        a choice the summed probability of its passing labels.
        """
        answer = decision.result["answers"].get(deciding)
        if answer is None:
            return cls(decision, None, None, f"there is no answer to {deciding!r}")
        confidence = answer.get("answer_confidence")
        confidence = None if confidence is None else float(confidence)
        if answer_value(answer) is None:
            return cls(decision, None, confidence, f"the answer to {deciding!r} is below min_confidence")
        return cls(decision, _score(answer, passing_labels), confidence)


def best_verdict(verdicts: Sequence[Verdict]) -> int:
    """The index of the highest score; the first of equals, and of those without a score."""
    return max(range(len(verdicts)), key=lambda index: _rank(verdicts[index].score))


def _rank(score: float | None) -> float:
    return -1.0 if score is None else score


def _score(answer: Mapping[str, Any], passing_labels: Sequence[Label]) -> float:
    match answer["type"]:
        case "noul":
            return float(answer["noul"])
        case "score":
            return float(answer["score"]) / max(len(answer["probabilities"]) - 1, 1)
        case _:
            return min(float(sum(answer["probabilities"][label] for label in passing_labels)), 1.0)
