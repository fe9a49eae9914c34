"""Examples that ask whether a statement follows from a text: does it hold, or, of several, which one does."""

from __future__ import annotations

import random

from training.brief import load_briefs
from training.builders.authored import is_held_out
from training.example import Example, choice, yes_no
from training.phrasing import NEGATED, claim_question, vary

_TRUE = 0.96
_WHICH = (
    "Which statement follows from the text?",
    "Which of these is true?",
    "What does the text say?",
    "Choose the statement that the text supports.",
    "Only one of these holds. Which?",
)
_FIELDS = (
    ("passage", "claim", "Does the passage support the claim?"),
    ("context", "statement", "Is the statement supported by the context?"),
    ("text", "claim", "Is the claim true according to the text?"),
    ("source", "answer", "Is the answer backed by the source?"),
    ("document", "hypothesis", "Does the hypothesis follow from the document?"),
)


class Claims:
    """Draws a text with one of its claims; questions are asked as they are."""

    def __init__(self, held_out: bool = False) -> None:
        self._all = [claims for claims in load_briefs()[1] if is_held_out(claims.name) == held_out]

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        claims = rng.choice(self._all)
        holds = rng.random() < 0.5
        claim = rng.choice(claims.true if holds else claims.false)
        if claim.endswith("?"):
            return yes_no(claims.text, vary(claim, rng), _TRUE if holds else 1 - _TRUE, "claims:question")
        statements = [[c for c in side if not c.endswith("?")] for side in (claims.true, claims.false)]
        roll = rng.random()
        if roll < 0.2 and all(statements):
            right, wrong = rng.choice(statements[0]), statements[1]
            shown = rng.sample([right, *wrong], len(wrong) + 1)
            return choice(claims.text, rng.choice(_WHICH), [(s, None) for s in shown], shown.index(right),
                          "claims:choice")  # fmt: skip
        if roll < 0.4:
            text, name, wording = rng.choice(_FIELDS)
            state = {text: claims.text, name: claim}
            return yes_no(state, vary(wording, rng), _TRUE if holds else 1 - _TRUE, "claims:record")
        negated = rng.random() < NEGATED
        wording = claim_question(claim, negated, rng)
        return yes_no(claims.text, wording, _TRUE if holds != negated else 1 - _TRUE, "claims:statement")
