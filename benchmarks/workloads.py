"""The work that is timed: questions, and states of mixed length."""

from __future__ import annotations

import random
from typing import Any

# Words that the small tokenizer keeps whole, so that a text has about as many tokens as with a full-size vocabulary.
_TEXT = (
    "please refund the duplicate charge our invoice urgent can not who does this user ever near over sale soon were "
    "bugs that yes all app system outage twice other leave issue token phone every cancel handle errors billed should "
    "prompt request crashes pricing billing examine question critical deadline previous password statement technical "
    "sales team"
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
