"""Templates: `[a|b|]` picks one alternative, `{slot}` a word of the lexicon; everything else is literal."""

from __future__ import annotations

import random
import re
from functools import lru_cache
from pathlib import Path

_LEXICON = Path(__file__).parent / "families" / "lexicon.txt"
_INNERMOST = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
_SLOT = re.compile(r"\{([a-z_]+)\}")


def expand(template: str, rng: random.Random, same: bool = False) -> str:
    """Return one text of the template; the same generator state gives the same text.

    With `same`, and in records, a slot has one filler however often it occurs.
    """
    text = template
    while match := _INNERMOST.search(text):
        text = text[: match.start()] + rng.choice(match.group(1).split("|")) + text[match.end() :]
    # The fields of a record speak of the same thing.
    fillers: dict[str, str] | None = {} if same or " ;; " in text else None
    text = _SLOT.sub(lambda m: _fill(m.group(1), fillers, rng), text)
    return re.sub(r" +([,.?!])", r"\1", re.sub(r" {2,}", " ", text)).strip()


def variety(template: str) -> int:
    """Return how many texts the template's alternatives make, slots counted as one each."""
    count = 1
    text = template
    while match := _INNERMOST.search(text):
        count *= len(match.group(1).split("|"))
        text = text[: match.start()] + text[match.end() :]
    return count


@lru_cache(maxsize=1)
def lexicon() -> dict[str, tuple[str, ...]]:
    """Return the slot fillers by slot name."""
    words: dict[str, tuple[str, ...]] = {}
    for line in _LEXICON.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("//"):
            name, _, values = line.partition(":")
            words[name.strip()] = tuple(value.strip() for value in values.split("|"))
    return words


def _fill(name: str, fillers: dict[str, str] | None, rng: random.Random) -> str:
    if fillers is not None and name in fillers:
        return fillers[name]
    filler = _filler(name, rng)
    if fillers is not None:
        fillers[name] = filler
    return filler


def _filler(name: str, rng: random.Random) -> str:
    if name == "n":
        return str(rng.randint(2, 60))
    if name == "big":
        return str(rng.randint(100, 9999))
    if name == "id":
        return "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(2)) + str(rng.randint(1000, 99999))
    words = lexicon()
    return rng.choice(words[name]) if name in words else "{" + name + "}"
