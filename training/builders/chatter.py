"""Examples from chatterbot-corpus (BSD): short exchanges sorted by subject."""

from __future__ import annotations

import random
from pathlib import Path

import yaml

from training.example import Example, choice, yes_no
from training.phrasing import vary

_SUBJECTS = {
    "ai": "artificial intelligence",
    "computers": "computers",
    "emotion": "feelings",
    "food": "food",
    "history": "history",
    "humor": "jokes",
    "literature": "literature",
    "money": "money",
    "movies": "movies",
    "politics": "politics",
    "psychology": "psychology",
    "science": "science",
    "sports": "sports",
    "health": "health",
    "coding": "programming",
}
_TOPIC = (
    "What is the talk about?",
    "Which topic does the exchange have?",
    "Name the subject of the conversation.",
    "Which field is it?",
)
_FITS = (
    "Does the reply fit the message?",
    "Is this a fitting answer?",
    "Does the second turn respond to the first?",
    "The reply makes sense after the question.",
    "Is the response on topic?",
    "Is the answer about what was asked?",
)
_FITS_NOT = (
    "Is the reply out of place?",
    "Does the answer miss the question?",
    "The response has nothing to do with the message.",
    "Is the reply off topic?",
)


class Chatter:
    """Subject of an exchange, and whether a reply belongs to its message; `folder` holds the English files."""

    def __init__(self, folder: Path, held_out: bool = False) -> None:
        self._pairs: dict[str, list[tuple[str, str]]] = {}
        for name in _SUBJECTS:
            content = yaml.safe_load((folder / f"{name}.yml").read_text(encoding="utf-8"))
            turns = [[str(turn) for turn in talk] for talk in content["conversations"] if len(talk) >= 2]
            pairs = [(talk[0], talk[1]) for i, talk in enumerate(turns) if (i % 10 == 3) == held_out]
            if pairs:
                self._pairs[name] = pairs

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        name = rng.choice(sorted(self._pairs))
        asked, said = rng.choice(self._pairs[name])
        if rng.random() < 0.5:
            return self._fits(name, asked, said, rng)
        names = [name, *rng.sample([n for n in self._pairs if n != name], rng.randint(2, len(self._pairs) - 1))]
        order = rng.sample(range(len(names)), len(names))
        state = asked + " " + said if rng.random() < 0.5 else [f"user: {asked}", f"assistant: {said}"]
        options = [(_SUBJECTS[names[i]], None) for i in order]
        return choice(state, vary(rng.choice(_TOPIC), rng), options, order.index(0), "chatter:topic", 0.85)

    def _fits(self, name: str, asked: str, said: str, rng: random.Random) -> Example:
        fits = rng.random() < 0.5
        if not fits:
            other = rng.choice([n for n in self._pairs if n != name])
            said = rng.choice(self._pairs[other])[1]
        negated = rng.random() < 0.3
        wording = vary(rng.choice(_FITS_NOT if negated else _FITS), rng)
        state = {"message": asked, "reply": said} if rng.random() < 0.5 else f"Q: {asked}\nA: {said}"
        return yes_no(state, wording, 0.92 if fits != negated else 0.08, "chatter:fits")
