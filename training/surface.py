"""How a text reaches the model: plain, sloppy, as a record or as a conversation. No surface changes a label."""

from __future__ import annotations

import json
import random
import re
from typing import Any

_OPENINGS = ("Hi,", "Hello,", "Hi there,", "Good morning,", "Hello team,", "Dear team,", "hey,", "Good day,")
_CLOSINGS = ("Best, Kim", "Regards", "Greetings from the coast", "Robin", "Best wishes, Alex", "Yours, J. Miller")
_FIELDS = ("text", "message", "body", "content", "input", "comment", "description", "note", "utterance", "query")
_EXTRAS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("id", (4711, "T-1029", "a8f3", 88)),
    ("channel", ("email", "web", "chat", "app")),
    ("lang", ("en",)),
    ("received", ("2024-03-02", "2025-11-19T08:12:00Z", "Monday")),
    ("source", ("form", "import", "inbox")),
    ("version", (1, 2, "3.1")),
    ("author", ("user_52", "anon", "k.b.")),
    ("attachments", (0, [])),
)
_NEUTRAL_TURNS = (
    ("assistant", "Hello, how can I help you?"),
    ("assistant", "Welcome! What can I do for you?"),
    ("user", "Hi"),
    ("assistant", "Hi, I'm listening."),
    ("user", "hello"),
    ("assistant", "Good day."),
)
_FIELD_HINTS = (
    "{instructions} Read the field `{field}`.",
    "{instructions} (look at `{field}`)",
    "In `{field}`: {instructions}",
    "Judge the {field} field. {instructions}",
    "{instructions} The text is in '{field}'.",
)


def present(text: str, instructions: str, plain: bool, rng: random.Random, bare: bool = False) -> tuple[Any, str]:
    """Return a state for the text, and the instructions, which may name the field that holds it.

    `plain` keeps out what changes a text's tone, `bare` also every word that is not the text's own.
    """
    if " ;; " in text:
        return _record(text, rng), instructions
    if re.match(r"(user|agent|assistant): ", text):
        return _conversation(text, rng), instructions
    if text.startswith("{") and text.endswith("}"):
        return _json_state(text, rng), instructions
    text = _sloppy(text, plain, rng)
    if bare:
        return text, instructions
    roll = rng.random()
    if not plain and roll < 0.1:
        return _letter(text, rng), instructions
    if roll < 0.22:
        return _wrap(text, instructions, rng)
    if roll < 0.32:
        return _single_turn(text, rng), instructions
    return text, instructions


def _record(text: str, rng: random.Random) -> Any:
    pairs = [piece.partition(": ")[::2] for piece in text.split(" ;; ")]
    record = {key.strip(): value.strip() for key, value in pairs}
    if rng.random() < 0.65:
        return record
    spell = rng.choice((str, str.capitalize, str.upper))
    return rng.choice(("\n", "\n\n", " | ")).join(f"{spell(key)}: {value}" for key, value in record.items())


def _conversation(text: str, rng: random.Random) -> Any:
    turns = [tuple(piece.split(": ", 1)) for piece in text.split(" // ") if ": " in piece]
    roll = rng.random()
    if roll < 0.5:
        return [{"role": "assistant" if role == "agent" else role, "content": said} for role, said in turns]
    if roll < 0.7:
        return [f"{role}: {said}" for role, said in turns]
    return "\n".join(f"{role.capitalize()}: {said}" for role, said in turns)


def _json_state(text: str, rng: random.Random) -> Any:
    try:
        return json.loads(text) if rng.random() < 0.7 else text
    except json.JSONDecodeError:
        return text


def _sloppy(text: str, plain: bool, rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.1:
        return text.lower()
    if roll < 0.16:
        return text.rstrip(".!?")
    if roll < 0.24:
        return _typos(text, rng)
    if roll < 0.26 and not plain:
        return text.upper()
    return text


def _typos(text: str, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(max(1, len(letters) // 40)):
        at = rng.randrange(len(letters))
        if at and letters[at].isalpha() and letters[at - 1].isalpha():
            kind = rng.randrange(3)
            if kind == 0:
                letters[at], letters[at - 1] = letters[at - 1], letters[at]
            elif kind == 1:
                letters[at] = ""
            else:
                letters[at] += letters[at]
            letters = list("".join(letters))
    return "".join(letters)


def _letter(text: str, rng: random.Random) -> str:
    opening = rng.choice(_OPENINGS) + rng.choice((" ", "\n")) if rng.random() < 0.7 else ""
    closing = rng.choice((" ", "\n")) + rng.choice(_CLOSINGS) if rng.random() < 0.7 else ""
    return opening + text + closing


def _wrap(text: str, instructions: str, rng: random.Random) -> tuple[Any, str]:
    field = rng.choice(_FIELDS)
    items: list[tuple[str, Any]] = [
        (name, rng.choice(values)) for name, values in rng.sample(_EXTRAS, rng.randrange(4))
    ]
    items.insert(rng.randrange(len(items) + 1), (field, text))
    if rng.random() < 0.45:
        instructions = rng.choice(_FIELD_HINTS).format(instructions=instructions, field=field)
    return dict(items), instructions


def _single_turn(text: str, rng: random.Random) -> Any:
    turns = [("user", text)]
    if rng.random() < 0.5:
        turns.insert(0, rng.choice(_NEUTRAL_TURNS))
    if rng.random() < 0.6:
        return [{"role": role, "content": said} for role, said in turns]
    return [f"{role}: {said}" for role, said in turns]
