"""Wordings that fit any label set: instructions, claims as questions, label spellings, "none of these"."""

from __future__ import annotations

import random
from collections.abc import Sequence

NEGATED = 0.1
"""Share of yes/no questions that ask for the opposite. Half yes, half no to the same words teaches nothing of either,
until one of the two is understood."""

GENERIC_CHOICE = (
    "Which option fits the text best?",
    "Choose the best option.",
    "Classify the text.",
    "Pick the right label.",
    "Which of these applies?",
    "Select the category that matches.",
    "What is the text about?",
    "Assign one of the categories.",
    "Which label describes the input?",
    "Route this to the right place.",
    "Which category does this belong to?",
    "Determine the intent.",
    "Find the matching class.",
    "Which one is it?",
)

CLAIM_TRUE = (
    "{claim}",
    "{Claim}.",
    "Is it true that {claim}?",
    "Is it correct to say that {claim}?",
    "Does it hold that {claim}?",
    "True or false: {claim}.",
    "Can one conclude that {claim}?",
    "Does the text show that {claim}?",
    "Would you agree that {claim}?",
    "Judging by the text, is it the case that {claim}?",
    "Check this statement: {claim}.",
    "Is this statement right? {Claim}.",
    "Does the following apply: {claim}?",
)
CLAIM_FALSE = (
    "Is it false that {claim}?",
    "Is it wrong to say that {claim}?",
    "It is not the case that {claim}.",
    "Does the text contradict this: {claim}?",
    "Is this statement untrue? {Claim}.",
    "Must one deny that {claim}?",
    "Would it be a mistake to say that {claim}?",
)
LABEL_TRUE = (
    'Does the label "{label}" fit?',
    'Is "{label}" the right category?',
    "Would you file this under {label}?",
    'Does this belong to "{label}"?',
    "Should the tag {label} be set?",
    'Is the answer to "{wording}" here: {label}?',
    "Category: {label}?",
    'The right label is "{label}".',
    "Is {label} the best description?",
    "Is this a case of {label}?",
    "Does {label} apply?",
)
LABEL_FALSE = (
    'Is the label "{label}" wrong?',
    'Does "{label}" not fit?',
    'Would the category "{label}" be a mistake?',
    'The label "{label}" does not apply.',
    "Is it something other than {label}?",
    'Should it be filed elsewhere than under "{label}"?',
)
NONE_LABELS = (
    ("none of these", None),
    ("none of these", "no other option fits"),
    ("other", None),
    ("other", "anything else"),
    ("other", "everything that fits none of the options above"),
    ("something else", None),
    ("none of the above", None),
    ("not listed", "the right answer is not among the options"),
    ("none", "no option applies"),
    ("unrelated", "belongs to none of the other options"),
    ("out_of_scope", None),
    ("out of scope", "outside of what the other options cover"),
    ("general", "anything not covered by the other options"),
    ("no match", None),
)
_PREFIXES = (
    "",
    "",
    "",
    "",
    "",
    "",
    "Read the text and answer: ",
    "Given the input, decide: ",
    "Question: ",
    "Task: ",
    "For this message: ",
    "Based on the text: ",
)


def claim_question(claim: str, negated: bool, rng: random.Random) -> str:
    """Ask whether a claim holds, or whether it does not."""
    claim = claim.strip().rstrip(".")
    lowered = claim if claim.split(" ")[0] in ("I", "I'm", "I've") else claim[:1].lower() + claim[1:]
    template = rng.choice(CLAIM_FALSE if negated else CLAIM_TRUE)
    return template.format(claim=lowered, Claim=claim[:1].upper() + claim[1:])


def label_question(label: str, wording: str, negated: bool, rng: random.Random) -> str:
    """Ask whether a label fits, or whether it does not."""
    return rng.choice(LABEL_FALSE if negated else LABEL_TRUE).format(label=label, wording=wording)


def vary(instructions: str, rng: random.Random) -> str:
    """Say the same with another prefix, case or end mark."""
    roll = rng.random()
    if roll < 0.2:
        prefix = rng.choice(_PREFIXES)
        instructions = prefix + (instructions if not prefix or prefix.endswith(": ") else instructions.lower())
    elif roll < 0.28:
        instructions = instructions.lower()
    elif roll < 0.36:
        instructions = instructions.rstrip("?.")
    elif roll < 0.39:
        instructions = instructions + " Answer by the text only."
    return instructions


def spell_labels(labels: Sequence[str], rng: random.Random) -> list[str]:
    """Write all labels in one style: as they are, snake_case, Title Case, UPPER, CamelCase or kebab-case.

    They stay as they are where a style would make two of them the same.
    """
    style = rng.choice(("plain", "plain", "plain", "plain", "snake", "snake", "title", "upper", "camel", "kebab"))
    spelled = [_spell(label, style) for label in labels]
    return spelled if len(set(spelled)) == len(spelled) else list(labels)


def code_labels(count: int, rng: random.Random) -> list[str]:
    """Labels that say nothing, so that only the descriptions do; for options in the order in which they are shown.

    Three times in four they count the options, as people write them; else they are in no order.
    """
    style = rng.randrange(6)
    if style == 0 and count <= 26:
        codes = [chr(ord("A") + i) for i in range(count)]
    elif style == 1 and count <= 26:
        codes = [chr(ord("a") + i) for i in range(count)]
    elif style == 2:
        codes = [f"option_{i + 1}" for i in range(count)]
    elif style == 3:
        codes = [f"C{i:02d}" for i in range(count)]
    else:
        first = rng.choice((0, 1, 1, 1))
        codes = [str(i + first) for i in range(count)]
    return codes if rng.random() < 0.75 else rng.sample(codes, count)


def coded(options: Sequence[tuple[str, str | None]], rng: random.Random) -> list[tuple[str, str | None]]:
    """The options, as they are shown in order, with a code for each label; the label describes what has no text."""
    codes = code_labels(len(options), rng)
    return [(code, text or label) for code, (label, text) in zip(codes, options, strict=True)]


def _spell(label: str, style: str) -> str:
    words = label.replace("_", " ").replace("-", " ").split()
    if style == "snake":
        return "_".join(words).lower()
    if style == "kebab":
        return "-".join(words).lower()
    if style == "title":
        return " ".join(word[:1].upper() + word[1:] for word in words)
    if style == "upper":
        return "_".join(words).upper()
    if style == "camel":
        return "".join(word[:1].upper() + word[1:] for word in words)
    return label
