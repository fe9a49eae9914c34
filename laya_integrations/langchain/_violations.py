"""Decide from laya's answers which questions a text violates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laya_integrations.langchain.responses import LayaClassifierResponse
from laya_integrations.langchain.verdicts import GuardrailVerdict, Violation

DEFAULT_THRESHOLD = 0.5
"""For questions that a mapping of thresholds doesn't name."""

_DIGITS = 6
"""laya rounds probabilities to four places, so a sum of some needs no more."""


@dataclass(frozen=True)
class ViolationRule:
    """Which answers violate, and how probable they must be."""

    questions: Mapping[str, Mapping[str, Any]]
    thresholds: float | Mapping[str, float]
    violating: Mapping[str, list[Any]]
    fails_closed: bool

    def check(self) -> None:
        """Raise a ValueError where the parts don't fit each other."""
        if not self.questions:
            raise ValueError("questions is empty; a guardrail needs at least one")
        named = {"thresholds": self.thresholds if isinstance(self.thresholds, Mapping) else {}}
        for argument, mapping in {**named, "violating": self.violating}.items():
            if unknown := mapping.keys() - self.questions.keys():
                raise ValueError(f"{argument} names {min(unknown)!r}, which is no question; use ids of questions")
        for question_id, question in self.questions.items():
            _check_violating(question_id, question, self.violating.get(question_id))

    def verdict(self, response: LayaClassifierResponse | Exception) -> GuardrailVerdict:
        """What the answers mean; an error in their place, or answers that are missing, are a failure."""
        if isinstance(response, Exception):
            return GuardrailVerdict(flagged=self.fails_closed, failure=type(response).__name__)
        try:
            probabilities = {
                question_id: violation_probability(response.result["answers"][question_id], self._counted(question_id))
                for question_id in self.questions
            }
        except (KeyError, TypeError, ValueError) as error:
            failure = type(error).__name__
            return GuardrailVerdict(flagged=self.fails_closed, failure=failure, run_id=response.request_id)
        violations = [
            Violation(question=question_id, probability=probability, threshold=threshold)
            for question_id, probability in probabilities.items()
            # Not `>=`: a probability that is no number violates.
            if not probability < (threshold := self._threshold(question_id))
        ]
        return GuardrailVerdict(
            flagged=bool(violations),
            violations=violations,
            probabilities=probabilities,
            run_id=response.request_id,
            truncated=response.truncated,
        )

    def _threshold(self, question_id: str) -> float:
        if isinstance(self.thresholds, Mapping):
            return self.thresholds.get(question_id, DEFAULT_THRESHOLD)
        return self.thresholds

    def _counted(self, question_id: str) -> list[Any] | None:
        return self.violating.get(question_id)


def violation_probability(answer: Mapping[str, Any], violating: list[Any] | None = None) -> float:
    """Probability of the answers in `violating`; of those that violate by default where it is None.

    By default a noul violates where it is true, and a score at its middle level and above. Raises ValueError
    for a choice without `violating`, and for what is no answer.
    """
    weights: dict[Any, float]
    counted: list[Any]
    match answer["type"]:
        case "noul":
            yes = float(answer["noul"])
            weights = {True: yes, False: 1.0 - yes}
            counted = [True] if violating is None else violating
        case "score":
            weights = {int(level): float(mass) for level, mass in answer["probabilities"].items()}
            # The expected level would hide a share of the mass at the upper end.
            counted = [level for level in weights if 2 * level >= len(weights) - 1] if violating is None else violating
        case "choice" if violating is not None:
            weights = {str(label): float(mass) for label, mass in answer["probabilities"].items()}
            counted = [str(label) for label in violating]
        case kind:
            raise ValueError(f"a {kind} answer has no violating answers by default; name them in violating=")
    return round(sum(weights[option] for option in dict.fromkeys(counted)), _DIGITS)


def _check_violating(question_id: str, question: Mapping[str, Any], violating: list[Any] | None) -> None:
    options = _options(question_id, question)
    if violating is None:
        if question["type"] == "choice":
            raise ValueError(
                f"question {question_id!r} is a choice; name the labels that violate: "
                f"violating={{{question_id!r}: [...]}}"
            )
        return
    if not violating:
        raise ValueError(f"violating[{question_id!r}] is empty, so nothing could violate; drop the question instead")
    for option in violating:
        if not any(option == known and isinstance(option, bool) == isinstance(known, bool) for known in options):
            raise ValueError(
                f"violating[{question_id!r}] has {option!r}, which is no answer of this {question['type']}; "
                f"use some of {', '.join(map(repr, options))}"
            )


def _options(question_id: str, question: Mapping[str, Any]) -> list[Any]:
    """The answers that a question can have."""
    criteria = question.get("criteria")
    match question.get("type"):
        case "noul":
            return [True, False]
        case "score":
            return list(range(len(criteria or ())))
        case "choice":
            return list(criteria or ())
        case kind:
            raise ValueError(f"question {question_id!r} has the type {kind!r}; laya knows choice, score and noul")
