"""Examples from CLINC150 (Larson et al. 2019, CC BY 3.0): short commands and their intents."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

from training.example import Example, choice, yes_no
from training.phrasing import GENERIC_CHOICE, NEGATED, NONE_LABELS, claim_question, coded, spell_labels, vary
from training.surface import present

_LABELS = Path(__file__).with_name("clinc_intents.txt")
_INTENT_WORDINGS = (
    "What does the user want?",
    "Which intent does the utterance have?",
    "What is the intent of the message?",
    "Detect the user's intent.",
    "Which command is it?",
    "Pick the intent.",
    "What is the user asking for?",
    "Which skill should handle the request?",
)
_DOMAINS = {
    "auto_and_commute": (("car and traffic", "vehicle"), "cars, driving and ways"),
    "banking": (("bank account", "money"), "accounts, bills and payments"),
    "home": (("household", "lists and media"), "lists, calendar, music and devices at home"),
    "kitchen_and_dining": (("food", "cooking and restaurants"), "meals, recipes and restaurants"),
    "meta": (("assistant settings", "device settings"), "how the assistant itself speaks and behaves"),
    "small_talk": (("chitchat", "personal questions to the bot"), "talk for its own sake"),
    "utility": (("tools", "everyday tools"), "time, weather, calls, calculations"),
    "work": (("job", "employment"), "pay, leave, meetings and taxes"),
}
_SIZES = (2, 3, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 10, 10, 12, 15, 18, 18, 20, 25, 35, 50, 65, 77, 80)
"""Long lists are dear: a list of 77 costs as much as six of five."""


class Clinc:
    """Intent questions with 2 to 80 options, domain questions, and yes/no questions on one intent."""

    def __init__(self, path: Path, held_out: bool = False) -> None:
        self._names, self._wants = _read_labels()
        self._texts: dict[str, list[str]] = defaultdict(list)
        self._domain: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            self._texts[row["intent"]].append(row["text"])
            self._domain[row["intent"]] = row["domain"]
        every = sorted(self._texts)
        # Calibration needs intents that were never an option in training.
        kept = {intent for i, intent in enumerate(every) if i % 8 == 3}
        self._intents = [intent for intent in every if (intent in kept) == held_out]

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        intent = rng.choice(self._intents)
        text = rng.choice(self._texts[intent])
        roll = rng.random()
        if roll < 0.62:
            return self._intent(intent, text, rng)
        if roll < 0.72:
            return self._topic(intent, text, rng)
        return self._claim(intent, text, rng)

    def _intent(self, intent: str, text: str, rng: random.Random) -> Example:
        count = min(rng.choice(_SIZES), len(self._intents))
        near = [i for i in self._intents if self._domain[i] == self._domain[intent] and i != intent]
        far = [i for i in self._intents if i not in near and i != intent]
        close = min(len(near), round((count - 1) * rng.choice((0.0, 0.3, 0.6, 1.0))))
        others = rng.sample(near, close)
        others += rng.sample(far, min(len(far), count - 1 - close))
        shown = [intent, *others]
        labels = spell_labels([rng.choice(self._names[i]) for i in shown], rng)
        options = list(zip(labels, self._descriptions(shown, rng), strict=True))
        gold = 0
        if rng.random() < 0.16:
            none = rng.choice(NONE_LABELS)
            if rng.random() < 0.4 and len(options) > 2:
                options[0] = none
            else:
                options.append(none)
        if len(dict(options)) < len(options):
            return self._claim(intent, text, rng)
        order = rng.sample(range(len(options)), len(options))
        listed = [options[i] for i in order]
        if len(listed) <= 40 and rng.random() < 0.08:
            listed = coded(listed, rng)
        wording = vary(rng.choice(_INTENT_WORDINGS + GENERIC_CHOICE), rng)
        state, wording = present(text, wording, False, rng)
        return choice(state, wording, listed, order.index(gold), "clinc:intent")

    def _descriptions(self, shown: list[str], rng: random.Random) -> list[str | None]:
        if rng.random() < 0.6 or len(shown) > 50:
            return [None] * len(shown)
        return [self._wants[intent] for intent in shown]

    def _topic(self, intent: str, text: str, rng: random.Random) -> Example:
        gold = self._domain[intent]
        others = rng.sample([d for d in _DOMAINS if d != gold], rng.randint(2, len(_DOMAINS) - 1))
        shown = [gold, *others]
        described = rng.random() < 0.4
        options = []
        for domain in shown:
            names, about = _DOMAINS[domain]
            options.append((rng.choice((domain.replace("_", " "), *names)), about if described else None))
        order = rng.sample(range(len(options)), len(options))
        state, wording = present(text, vary(rng.choice(GENERIC_CHOICE), rng), False, rng)
        return choice(state, wording, [options[i] for i in order], order.index(0), "clinc:domain", 0.9)

    def _claim(self, intent: str, text: str, rng: random.Random) -> Example:
        holds = rng.random() < 0.5
        about = intent
        if not holds:
            near = [i for i in self._intents if self._domain[i] == self._domain[intent] and i != intent]
            about = rng.choice(near if near and rng.random() < 0.6 else [i for i in self._intents if i != intent])
        negated = rng.random() < NEGATED
        wants = self._wants[about]
        if rng.random() < 0.3 and not negated:
            start, _, rest = wants.partition(" ")
            plain = {"wants": "want", "asks": "ask", "says": "say", "needs": "need", "reports": "report"}
            wording = f"Does the user {plain[start]} {rest}?" if start in plain else f"Is it so that the user {wants}?"
        else:
            wording = claim_question(f"the user {wants}", negated, rng)
        state, wording = present(text, vary(wording, rng), False, rng)
        return yes_no(state, wording, 0.96 if holds != negated else 0.04, "clinc:claim")


def _read_labels() -> tuple[dict[str, list[str]], dict[str, str]]:
    names: dict[str, list[str]] = {}
    wants: dict[str, str] = {}
    for line in _LABELS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("//"):
            labels, _, want = line.partition(" :: ")
            intent, _, other = labels.partition(" | ")
            names[intent] = [intent.replace("_", " "), intent, other]
            wants[intent] = want
    return names, wants
