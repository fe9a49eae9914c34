"""Examples from the VADER ground truth (Hutto and Gilbert 2014, MIT): short texts with a mean valence."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from training.example import Example, choice, score, yes_no
from training.phrasing import vary
from training.surface import present

_POSITIVE = (
    "Is the sentiment positive?",
    "Is this positive?",
    "Does the writer express something good?",
    "Is the author pleased?",
    "The mood of the text is good.",
    "Does the text sound happy or approving?",
    "Is it a favourable statement?",
    "Did the writer like it?",
    "Positive tone?",
    "Is the opinion expressed good rather than bad?",
    "Would you call the feeling in this text pleasant?",
    "Is this good news or praise?",
)
_NEGATIVE = (
    "Is the sentiment negative?",
    "Is this negative?",
    "Does the writer express something bad?",
    "Is the author displeased?",
    "The mood of the text is bad.",
    "Does the text sound unhappy or critical?",
    "Is it an unfavourable statement?",
    "Did the writer dislike it?",
    "Negative tone?",
    "Is the opinion expressed bad rather than good?",
    "Would you call the feeling in this text unpleasant?",
    "Is this criticism or bad news?",
)
_CHOICE = (
    "What is the sentiment of the text?",
    "Which polarity does the statement have?",
    "How does the author feel?",
    "Classify the sentiment.",
    "Is the opinion good or bad?",
    "What does the writer think of it?",
)
_LABELS = (
    ("negative", "positive"),
    ("bad", "good"),
    ("unhappy", "happy"),
    ("dislikes it", "likes it"),
    ("thumbs down", "thumbs up"),
    ("critical", "approving"),
    ("disappointed", "satisfied"),
)
_SCALES = (
    ("negative", "neutral", "positive"),
    ("bad", "mixed or neutral", "good"),
    ("very negative", "negative", "neutral", "positive", "very positive"),
    ("terrible", "bad", "so-so", "good", "great"),
    ("hates it", "dislikes it", "no opinion", "likes it", "loves it"),
    ("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
    ("clearly negative", "rather negative", "rather positive", "clearly positive"),
    ("extremely negative", "very negative", "somewhat negative", "neutral", "somewhat positive", "very positive",
     "extremely positive"),
)  # fmt: skip
_SCORE = (
    "How positive is the text?",
    "Rate the sentiment.",
    "How does the author feel about it?",
    "How good is the opinion expressed?",
    "Where does the text lie between bad and good?",
    "How satisfied does the writer sound?",
)


class Vader:
    """Sentiment as yes/no, as a choice and on scales of three to seven levels."""

    def __init__(self, path: Path, held_out: bool = False) -> None:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self._rows = [row for i, row in enumerate(rows) if (i % 12 == 5) == held_out and len(row["text"]) > 12]
        self._reviews = [row for row in self._rows if row["source"] != "tweets"]

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        row = rng.choice(self._reviews if self._reviews and rng.random() < 0.5 else self._rows)
        text, valence = row["text"], float(row["valence"])
        if rng.random() < 0.35:
            return self._scale(text, valence, rng)
        # People's mean valence is itself a degree of belief: near zero the texts are truly undecided.
        p = min(0.97, max(0.03, 1 / (1 + math.exp(-2.2 * valence))))
        if rng.random() < 0.6:
            negative = rng.random() < 0.45
            wording = vary(rng.choice(_NEGATIVE if negative else _POSITIVE), rng)
            state, wording = present(text, wording, True, rng)
            return yes_no(state, wording, 1 - p if negative else p, "vader:noul")
        labels = rng.choice(_LABELS)
        order = rng.sample((0, 1), 2)
        state, wording = present(text, vary(rng.choice(_CHOICE), rng), True, rng)
        gold = order.index(int(p > 0.5))
        return choice(state, wording, [(labels[i], None) for i in order], gold, "vader:choice", max(p, 1 - p))

    def _scale(self, text: str, valence: float, rng: random.Random) -> Example:
        levels = rng.choice(_SCALES)
        # Valence runs from -4 to 4, but nine in ten means lie within 3.2 of zero.
        centre = (min(3.2, max(-3.2, valence)) + 3.2) / 6.4 * (len(levels) - 1)
        target = [math.exp(-((i - centre) ** 2) / 0.5) + 0.004 for i in range(len(levels))]
        state, wording = present(text, vary(rng.choice(_SCORE), rng), True, rng)
        return score(state, wording, levels, target, "vader:score")
