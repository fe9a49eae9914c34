"""A few built-in texts and questions, on which two ways to compute a checkpoint are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from laya._pipeline.engine import Engine

_QUESTIONS: dict[str, Any] = {
    "topic": {
        "type": "choice",
        "instructions": "What is this about?",
        "criteria": {"billing": "money, invoices, refunds", "delivery": "parcels and dates", "other": ""},
    },
    "colour": {"type": "choice", "instructions": "Which word fits best?", "criteria": ["red", "green"]},
    "urgency": {"type": "score", "instructions": "How urgent is it?", "criteria": ["not at all", "soon", "at once"]},
    "angry": {"type": "noul", "instructions": "The writer is angry."},
}
_STATES: tuple[Any, ...] = (
    "The parcel was promised for Tuesday and it still isn't here. I want my money back today.",
    "Bitte schicken Sie mir die Rechnung für März noch einmal, die erste ist nicht angekommen.",
    "昨日届いた箱が壊れていました。交換をお願いします。",
    "Можно ли перенести доставку на пятницу после обеда?",
    {"customer": {"plan": "gold", "since": 2019}, "open_tickets": 3, "last_note": "asked for a call at nine"},
    [
        {"role": "user", "content": "My card was charged twice."},
        {"role": "assistant", "content": "I see both payments. Shall I return one of them?"},
        {"role": "user", "content": "Yes, and please hurry."},
    ],
    "In the third quarter the region sold more than a year before, while returns fell by a tenth. " * 8,
    "Where do I change the address that you send letters to? I moved last month and the form shows the old street.",
    "wait what NO this is the fifth time!!! nobody answers, nobody cares, cancel everything",
)


def sample_probabilities(engine: Engine) -> list[float]:
    """Every probability of the answers to the questions about the texts, in one fixed order.

    Raises `CheckpointError` where the engine computes NaN.
    """
    found: list[float] = []
    for result in engine.infer(_STATES, _QUESTIONS):
        for answer in result["answers"].values():
            found += answer.get("probabilities", {"true": answer.get("noul")}).values()
            found.append(answer["action"]["act_probability"])
    return found


def furthest(found: Sequence[float], exact: Sequence[float]) -> float:
    """How far the probability that moved most has moved."""
    return max(abs(ours - theirs) for ours, theirs in zip(found, exact, strict=True))
