"""Whether Latin-script prose is English, is not, or is too little to tell."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

from laya._forks import in_forked_child

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier  # type: ignore[import-untyped]

ENGLISH = "en"
_COMMON_CODES = "en de fr es pt it nl pl tr vi id sv da cs ro hu fi no sk hr"
_RARE_CODES = """
af az bs br ca crh cy eo et eu fo fy ga gd gl ha ht ig is jv ku la lb lg ln lt lv mg ms mt nn nso oc rw
sl sn so sq st sw tk tl uz xh yo zu
"""
_COMMON = frozenset(_COMMON_CODES.split())
"""Languages in which support messages are common; each competes with English as it stands."""
_RARE = frozenset(_RARE_CODES.split())
"""These compete with a handicap: what is taken for them is more often terse English."""
_RARE_HANDICAP = 0.5
_FLOOR = 1e-30
_ENGLISH_WORDS = """
the and having does doesn't didn't don't isn't wasn't can't cannot could couldn't would wouldn't should
won't what where which who why how this that these those there their they your yours you our it's i'm
i've i'd we're with without from about before again because every each very please thank thanks only
account refund needs working works charged charge wrong missing broken received delivered delivery never
always nothing something someone anything everything today yesterday tomorrow months money sent shipped
shipping payment customer getting keeps tried trying says since through wanted asked question answer
different another many much might whether instead until while being been know want need
"""
# They only save the work of scoring a plain sentence: that a text is not English never hangs on a list.
_PLAINLY_ENGLISH = frozenset(_ENGLISH_WORDS.split())
PLAIN_ENGLISH = 0.26
"""The share of such words from which a sentence is English; of less than five words, two."""


class Threshold(NamedTuple):
    """Natural log of P(English) / P(the best other language) that a text of some length needs."""

    english_above: float
    foreign_below: float


# Between the two lies "no evidence". A longer text says the same with more features, so it needs less.
_ONE_WORD = Threshold(english_above=0.7, foreign_below=-2.5)
_FEW_WORDS = Threshold(english_above=0.0, foreign_below=-1.6)
_SENTENCE = Threshold(english_above=-0.7, foreign_below=-1.0)
_NAMES_REMOVED = 0.5
"""What the text without its names must reach to be English although the whole is not."""


class Identification(NamedTuple):
    """What a text's language is taken for."""

    language: str | None
    """An ISO 639 code; None where the text says too little."""
    log_odds: float
    """ln P(English) / P(the best other language); 0.0 without evidence."""

    @property
    def is_english(self) -> bool | None:
        """True, False, or None where the text says too little."""
        return None if self.language is None else self.language == ENGLISH


NO_EVIDENCE = Identification(None, 0.0)


def identify(prose: str, word_count: int) -> Identification:
    """Identify the language of Latin-script prose of `word_count` words. Thread-safe."""
    if not word_count:
        return NO_EVIDENCE
    threshold = _SENTENCE if word_count > 3 else _FEW_WORDS if word_count > 1 else _ONE_WORD
    language, log_odds = _score(prose)
    if log_odds > threshold.english_above:
        return Identification(ENGLISH, log_odds)
    if log_odds >= threshold.foreign_below:
        return Identification(None, log_odds)
    plain = _without_names(prose)
    if plain.count(" ") >= 2 and len(plain) < len(prose) and _score(plain)[1] > _NAMES_REMOVED:
        return Identification(ENGLISH, log_odds)
    return Identification(language, log_odds)


def plain_english_share(prose: str) -> float:
    """Give the share of words that are plainly English; from `PLAIN_ENGLISH` on they settle it."""
    words = prose.lower().replace("’", "'").split()
    known = {word.strip('.,;:!?()"') for word in words} & _PLAINLY_ENGLISH
    return len(known) / max(len(words), 5)


def is_english_at_sight(prose: str) -> bool:
    """Tell whether English comes first, for half the price of `identify`; False may still be English."""
    return bool(_identifier().classify(prose)[0] == ENGLISH)


def is_common(found: Identification) -> bool:
    """Tell whether a language is one of those that short texts are likelier to be in."""
    return found.language in _COMMON


def warm_up() -> None:
    """Load the model now; the first text that needs it would otherwise wait for it."""
    _identifier()


def _score(prose: str) -> tuple[str, float]:
    """Return the best language but English, and English's log odds against it."""
    ranking = _identifier().rank(prose)
    english = math.log(max(dict(ranking)[ENGLISH], _FLOOR))
    common = next(item for item in ranking if item[0] in _COMMON and item[0] != ENGLISH)
    rare = next((item for item in ranking if item[0] in _RARE), common)
    handicapped = math.log(max(rare[1], _FLOOR)) - _RARE_HANDICAP
    plain = math.log(max(common[1], _FLOOR))
    return (common[0], english - plain) if plain >= handicapped else (rare[0], english - handicapped)


def _without_names(prose: str) -> str:
    """Drop the capitalised words inside sentences: names of people, firms and places."""
    kept = []
    starts = True
    for word in prose.split():
        if starts or not word[:1].isupper():
            kept.append(word)
        starts = word[-1] in ".!?:"
    return " ".join(kept)


_lock = threading.Lock()
_loaded: LanguageIdentifier | None = None


def _identifier() -> LanguageIdentifier:
    """Load the identifier once, whichever thread comes first; it only reads from then on."""
    global _loaded  # noqa: PLW0603 - one model for the process
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - a load that was going on at a fork ends in the parent only
    _lock = threading.Lock()


in_forked_child(_renew_lock)


def _load() -> LanguageIdentifier:
    import numpy as np
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages((_COMMON | _RARE) & set(identifier.nb_classes))
    # A text reads a hundred rows of 70 numbers; as chosen, those lie in columns, far apart.
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc)
    return identifier
