"""Which scripts a text is written in, by Unicode's own script property."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import regex

LATIN = "latin"
KANA = "kana"
HAN = "han"
OTHER = "other"
UNKNOWN = "unknown"

_OWN_NAMES = """
cyrillic greek arabic hebrew devanagari han hangul thai bengali tamil telugu gujarati kannada malayalam
gurmukhi sinhala oriya georgian armenian ethiopic khmer lao myanmar tibetan mongolian thaana syriac
cherokee bopomofo yi tifinagh nko vai osage adlam javanese balinese sundanese cham lisu coptic braille
gothic runic ogham canadian_aboriginal
"""
_NAMED = {name: name for name in _OWN_NAMES.split()} | {"hiragana": KANA, "katakana": KANA}
"""Unicode script -> the name reported; one without a name here is `other`, and non-Latin all the same."""

_SCRIPT = regex.compile(
    r"(?P<latin>\p{Latin})|(?P<shared>[\p{Common}\p{Inherited}\p{Unknown}])|"
    + "|".join(rf"(?P<{name}>\p{{{name}}})" for name in _NAMED)
)
# Marks, letter-like numbers and symbols count too: Braille and SignWriting have no letters by category.
# Decimal digits and punctuation don't: a price in Devanagari digits says nothing about the sentence.
_LETTER = regex.compile(r"[\p{L}\p{M}\p{Nl}\p{No}\p{So}]")

_SYLLABIC = frozenset({HAN, KANA, "hangul", "yi"})


@lru_cache(maxsize=16_384)
def script_of(char: str) -> str | None:
    """Name the script of one character; None where it is no letter or belongs to no script of its own."""
    if char.isascii():
        return LATIN if char.isalpha() else None
    if not _LETTER.match(char):
        return None
    match = _SCRIPT.match(char)
    if match is None:
        return OTHER
    group = match.lastgroup
    if group == "shared":
        return None
    return LATIN if group == LATIN else _NAMED[str(group)]


def count_scripts(text: str) -> Counter[str]:
    """Count the letters of each script in `text`."""
    counts: Counter[str] = Counter()
    for char, count in Counter(text).items():
        script = script_of(char)
        if script is not None:
            counts[script] += count
    return counts


def profile(counts: Counter[str]) -> dict[str, float]:
    """Give each script's share of the letters, largest first; empty without letters."""
    total = counts.total()
    return {script: round(count / total, 4) for script, count in counts.most_common()}


def dominant(counts: Counter[str], *, non_latin: bool = False) -> str:
    """Name the most frequent script (of the non-Latin ones, if asked); `unknown` without letters."""
    candidates = [item for item in counts.most_common() if not (non_latin and item[0] == LATIN)]
    return candidates[0][0] if candidates else UNKNOWN


def non_latin_fraction(counts: Counter[str]) -> float:
    """Give the share of letters that are not Latin, 0.0 without letters."""
    total = counts.total()
    return (total - counts[LATIN]) / total if total else 0.0


def non_latin_weight(counts: Counter[str]) -> float:
    """Give the share of what is said that is not Latin; a syllable says as much as 2.5 letters."""
    foreign = sum(n * (2.5 if script in _SYLLABIC else 1.0) for script, n in counts.items() if script != LATIN)
    return foreign / (foreign + counts[LATIN]) if foreign else 0.0
