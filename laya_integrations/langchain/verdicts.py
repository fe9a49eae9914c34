"""What a guardrail found, as an object and as an error. Neither holds the text that was judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

VERDICT_KEY = "laya_guardrail"
"""Where a verdict lies: in a message's `response_metadata`, a document's `metadata`, or a dict."""


class Violation(BaseModel):
    """One question that the guardrail decided against the text."""

    model_config = ConfigDict(frozen=True)

    question: str
    """The question's id."""
    probability: float
    """Probability of the violating answers, from 0 to 1."""
    threshold: float
    """The probability from which it counts as a violation."""
    position: int | None = None
    """Place of the message or item in a list, from 0; None for a text, an object, and what lies beside `messages`."""

    def __str__(self) -> str:
        where = "" if self.position is None else f" in item {self.position}"
        return f"{self.question}{where} ({self.probability:g}, threshold {self.threshold:g})"


class GuardrailVerdict(BaseModel):
    """What a guardrail found in one text, message or object."""

    model_config = ConfigDict(frozen=True)

    flagged: bool
    """Whether it must not pass: a violation, or a failure of a guardrail that fails closed."""
    violations: list[Violation] = Field(default_factory=list)
    """The questions at or above their thresholds, in the questions' order."""
    probabilities: dict[str, float] = Field(default_factory=dict)
    """Violation probability of each question; empty where it could not be decided."""
    run_id: str | None = None
    """laya's id of the call; parts judged in one call share it."""
    failure: str | None = None
    """Type of the error that kept laya from answering."""
    truncated: bool = False
    """Whether only the beginning fitted into the token budget, so that the rest was not judged."""


class GuardrailError(ValueError):
    """A guardrail stopped an input: it violates, or could not be judged."""

    def __init__(
        self, violations: Iterable[Violation] = (), run_id: str | None = None, failure: str | None = None
    ) -> None:
        self.violations = tuple(violations)
        """What was found; empty where it could not be judged."""
        self.run_id = run_id
        """laya's id of the call."""
        self.failure = failure
        """Type of the error that kept laya from answering; it is this error's `__cause__`."""
        super().__init__(self._message())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.violations, self.run_id, self.failure)

    def _message(self) -> str:
        call = f"; laya run {self.run_id}" if self.run_id else ""
        if self.violations:
            return f"the guardrail found {', '.join(map(str, self.violations))}{call}"
        return (
            f"the guardrail could not judge the input ({self.failure}), and it fails closed; mend the cause, or let "
            f'such inputs pass with on_failure="open"{call}'
        )
