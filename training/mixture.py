"""The stream of training examples: which source is drawn how often, and example number n of a seed."""

from __future__ import annotations

import random
from pathlib import Path

from training.builders.alike import Alike
from training.builders.authored import Authored
from training.builders.chatter import Chatter
from training.builders.claims import Claims
from training.builders.clinc import Clinc
from training.builders.davidson import Davidson
from training.builders.home_assistant import HomeAssistant
from training.builders.matching import Matching
from training.builders.spam import Spam
from training.builders.vader import Vader
from training.builders.wordnet import WordNet
from training.example import Builder, Example
from training.sources import Sources

_SHARES = {
    "authored": 0.67,
    "alike": 0.10,
    "claims": 0.08,
    "clinc": 0.05,
    "wordnet": 0.015,
    "vader": 0.02,
    "davidson": 0.025,
    "home_assistant": 0.02,
    "spam": 0.01,
    "chatter": 0.01,
}
_MATCHING_WITHIN, _MATCHING_LATER = (2048, 12_000), 0.02
"""A fresh head cannot tell which option belongs to which text; on the mixture alone it stays at chance for tens of
thousands of examples, after a thousand that ask for the same words it does not."""


class Mixture:
    """Example n of a seed, the same whenever it is asked for: a stopped run resumes by a number."""

    def __init__(self, sources: Sources, data: Path, seed: int, held_out: bool = False) -> None:
        self._seed = seed
        self._builders: dict[str, Builder] = {
            "authored": Authored(held_out),
            "claims": Claims(held_out),
            "clinc": Clinc(data / "clinc150.jsonl", held_out),
            "wordnet": WordNet(sources.wordnet, held_out),
            "vader": Vader(data / "vader.jsonl", held_out),
            "davidson": Davidson(data / "davidson.jsonl", held_out),
            "home_assistant": HomeAssistant(sources.home_assistant, held_out),
            "spam": Spam(sources.spam, held_out),
            "chatter": Chatter(sources.chatter, held_out),
        }
        self._matching = None if held_out else Matching()
        if not held_out:
            self._builders["alike"] = Alike(sources.encoder)
        self._names = [name for name in _SHARES if name in self._builders]
        self._weights = [_SHARES[name] for name in self._names]

    def example(self, number: int) -> Example:
        """Return the example of that number."""
        rng = random.Random(f"{self._seed}:{number}")
        if self._matching is not None and rng.random() < max(_MATCHING_LATER, _falling(number, *_MATCHING_WITHIN)):
            return self._matching.draw(rng)
        name = rng.choices(self._names, self._weights)[0]
        return self._builders[name].draw(rng)


def _falling(number: int, begin: int, end: int) -> float:
    """1 up to `begin`, 0 from `end` on, a straight line between."""
    return min(1.0, max(0.0, (end - number) / (end - begin)))
