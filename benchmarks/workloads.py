"""The work that is timed: questions, and states of mixed length."""

from __future__ import annotations

import random
from typing import Any

_TEXT = (
    "please refund the duplicate charge on our invoice today because the export page crashes every time we try to "
    "upload a file and support has not answered since monday so we may cancel the plan and move to another vendor "
    "thanks for looking into this account login password reset order number shipping address late broken delivery"
)
_WORDS = _TEXT.split()

FOUR_QUESTIONS: dict[str, Any] = {
    "refund": {"type": "noul", "instructions": "Does the customer ask for money back?"},
    "urgency": {
        "type": "score",
        "instructions": "How urgent is this request?",
        "criteria": ["not urgent", "soon", "today", "a blocking issue or a deadline within hours"],
    },
    "channel": {
        "type": "choice",
        "instructions": "Which team should answer?",
        "criteria": {"billing": "invoices, payments, refunds", "technical": "bugs and outages", "sales": "contracts"},
    },
    "intent": {
        "type": "choice",
        "instructions": "What does the customer want?",
        "criteria": {
            f"intent_{i:02d}": f"the customer writes about topic number {i} and expects an answer" for i in range(12)
        },
    },
}
ONE_CHOICE: dict[str, Any] = {"channel": FOUR_QUESTIONS["channel"]}


def mixed_states(count: int, shortest: int = 4, longest: int = 220, seed: int = 7) -> list[str]:
    """States of `shortest` to `longest` words, evenly spread, in random order."""
    rng = random.Random(seed)
    lengths = [shortest + round((longest - shortest) * i / max(1, count - 1)) for i in range(count)]
    rng.shuffle(lengths)
    return [" ".join(rng.choices(_WORDS, k=length)) for length in lengths]


TEN_QUESTIONS: dict[str, Any] = {
    **FOUR_QUESTIONS,
    **{
        f"extra_{i}": {"type": "noul", "instructions": text}
        for i, text in enumerate(
            (
                "Does the customer want to cancel?",
                "Is a deadline named?",
                "Is it about a payment?",
                "Is something broken?",
                "Did the customer write before?",
                "Is the tone polite?",
            )
        )
    },
}


def long_document(words: int = 3000) -> str:
    """One text many windows long."""
    return mixed_states(1, words, words)[0]
