"""Examples that ask which text is in the state: what a fresh head learns first, before it can learn meanings."""

from __future__ import annotations

import random
from collections.abc import Sequence

from training.example import Example, choice, yes_no
from training.family import load_families
from training.grammar import expand

_WHICH = (
    "Which text is it?",
    "Which of these does the input say?",
    "Find the same text.",
    "Which option fits the text best?",
    "What does it say?",
    "Choose the option with the same words.",
)
_SAYS = (
    'Does it say "{text}"?',
    "Is this the text: {text}?",
    "Is it true that it says: {text}?",
    "{text} - is that what it says?",
    "Does the input match: {text}?",
)
_SAYS_NOT = ('Does it say something other than "{text}"?', "Is this text missing: {text}?")
_MOST_WORDS = 9


class Matching:
    """Draws short texts of the families and asks for the one that the state holds, whole, in part or shuffled."""

    def __init__(self) -> None:
        families, _ = load_families()
        self._texts = [text for family in families.values() for option in family.options for text in option.texts]

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        text = self._text(rng)
        if rng.random() < 0.5:
            count = rng.choice((2, 2, 3, 4, 5))
            others = [_part(self._text(rng), rng) for _ in range(count - 1)]
            gold = rng.randrange(count)
            shown = [*others[:gold], _part(text, rng), *others[gold:]]
            if len(set(shown)) == count:
                return choice(text, rng.choice(_WHICH), [(s, None) for s in shown], gold, "match:choice")
        holds = rng.random() < 0.5
        shown_text = _part(text if holds else self._text(rng), rng)
        negated = rng.random() < 0.2
        wording = rng.choice(_SAYS_NOT if negated else _SAYS).format(text=shown_text)
        return yes_no(text, wording, 0.97 if holds != negated else 0.03, "match:noul")

    def _text(self, rng: random.Random) -> str:
        words = expand(rng.choice(self._texts), rng).split()
        start = rng.randint(0, max(0, len(words) - _MOST_WORDS))
        return " ".join(words[start : start + _MOST_WORDS])


def _part(text: str, rng: random.Random) -> str:
    """The text, or some of its words, perhaps in another order: less and less alike, never another text."""
    words = text.split()
    roll = rng.random()
    if roll < 0.4 or len(words) < 3:
        return text
    kept: Sequence[str] = [word for word in words if rng.random() < 0.6] or words
    return " ".join(rng.sample(kept, len(kept)) if roll > 0.8 else kept)
