"""Examples from Davidson et al. 2017 (MIT): short posts labelled hateful, offensive or neither."""

from __future__ import annotations

import json
import random
from pathlib import Path

from training.example import Example, choice, yes_no
from training.phrasing import vary
from training.surface import present

_OFFENSIVE = (
    "Is the text offensive?",
    "Is this insulting?",
    "Does the post contain abusive language?",
    "Should a moderator look at this?",
    "Is the language foul or insulting?",
    "The post is offensive.",
    "Does it break a rule against offensive language?",
    "Would many readers feel insulted?",
    "Is somebody insulted or demeaned here?",
    "Toxic?",
    "Is the comment toxic?",
    "Does the text contain insults or slurs?",
    "Is this abusive?",
    "Offensive or hateful?",
)
_CLEAN = (
    "Is the language clean?",
    "Is the post acceptable?",
    "May this stay as it is?",
    "The text insults nobody.",
    "Is this free of offensive language?",
    "Is the comment civil?",
    "Would this be fine in front of a school class?",
    "Is it harmless?",
)
_CHOICE = ("How should the post be labelled?", "Classify the language of the post.", "Which moderation label applies?")
_PAIRS = (
    ("acceptable", "offensive"),
    ("fine", "insulting"),
    ("clean", "abusive"),
    ("civil", "toxic"),
    ("keep", "remove"),
)


class Davidson:
    """Offensive or not, as yes/no and as a choice of two."""

    def __init__(self, path: Path, held_out: bool = False) -> None:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [row for i, row in enumerate(rows) if (i % 12 == 5) == held_out]
        self._rows = {
            True: [row["text"] for row in rows if row["label"] != "neither"],
            False: [row["text"] for row in rows if row["label"] == "neither"],
        }

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        offensive = rng.random() < 0.5
        text = rng.choice(self._rows[offensive])
        p = 0.93 if offensive else 0.07
        if rng.random() < 0.75:
            clean = rng.random() < 0.3
            wording = vary(rng.choice(_CLEAN if clean else _OFFENSIVE), rng)
            state, wording = present(text, wording, True, rng)
            return yes_no(state, wording, 1 - p if clean else p, "davidson:noul")
        labels = rng.choice(_PAIRS)
        order = rng.sample((0, 1), 2)
        state, wording = present(text, vary(rng.choice(_CHOICE), rng), True, rng)
        options = [(labels[i], None) for i in order]
        return choice(state, wording, options, order.index(int(offensive)), "davidson:choice", 0.93)
