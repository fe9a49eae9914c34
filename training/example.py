"""One training example: a state, a question about it, and how probable each answer is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Example:
    """A decision with a soft target, in the form in which a caller would ask it."""

    state: Any
    question: dict[str, Any]
    target: tuple[float, ...]
    """Probability of each option in the caller's order; noul: false, true."""
    source: str

    def __post_init__(self) -> None:
        if abs(sum(self.target) - 1.0) > 1e-6:
            raise ValueError(f"{self.source}: the target sums to {sum(self.target)}, not to 1")


class Builder(Protocol):
    """A source of examples; the same generator state gives the same example."""

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        ...


def choice(
    state: Any,
    instructions: str,
    options: Sequence[tuple[str, str | None]],
    gold: int,
    source: str,
    certainty: float = 0.97,
) -> Example:
    """A choice among (label, description) pairs whose right answer is `options[gold]`."""
    if all(description is None for _, description in options):
        criteria: Any = [label for label, _ in options]
    else:
        criteria = dict(options)
    rest = (1.0 - certainty) / max(1, len(options) - 1)
    target = tuple(certainty if i == gold else rest for i in range(len(options)))
    if len(options) == 1:
        target = (1.0,)
    return Example(state, {"type": "choice", "instructions": instructions, "criteria": criteria}, target, source)


def yes_no(
    state: Any,
    instructions: str,
    p_true: float,
    source: str,
    *,
    criteria: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Example:
    """A yes/no question that holds with probability `p_true`."""
    question: dict[str, Any] = {"type": "noul", "instructions": instructions}
    if criteria:
        question["criteria"] = criteria
    if labels:
        question["labels"] = labels
    return Example(state, question, (1.0 - p_true, p_true), source)


def score(state: Any, instructions: str, levels: Sequence[str], target: Sequence[float], source: str) -> Example:
    """A rubric with a probability for each level, lowest first."""
    total = sum(target)
    question = {"type": "score", "instructions": instructions, "criteria": list(levels)}
    return Example(state, question, tuple(value / total for value in target), source)
