"""Whether Latin-script prose is English, is not, or is too little to tell."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
# Languages in which support messages are common; each competes with English as it stands.
_COMMON = frozenset("en de fr es pt it nl pl tr vi id sv da cs ro hu fi no sk hr".split())
# The others compete with a handicap: what is taken for them is more often terse English.
_RARE = frozenset(
    "af az bs br ca crh cy eo et eu fo fy ga gd gl ha ht ig is jv ku la lb lg ln lt lv mg ms mt nn nso oc rw sl"
    " sn so sq st sw tk tl uz xh yo zu".split()
)
_RARE_HANDICAP = 0.5
_FLOOR = 1e-30
# Words that no other common language writes the same way. They only save the work of scoring a plainly English
# sentence; what another language is never hangs on a list of words.
_PLAINLY_ENGLISH = frozenset(
    "the and have having does doesn't didn't don't isn't wasn't can't cannot could couldn't would wouldn't should"
    " won't what where which who why how this that these those there their they your yours you our mine it's i'm"
    " i've i'd we're with without from about before again because every each very please thank thanks only".split()
)
_PLAIN_SHARE, _PLAIN_WORDS = 0.25, 2


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
    """ln P(English) / P(the best other language) of what isn't English at first sight; else 0.0."""

    @property
    def is_english(self) -> bool | None:
        """True, False, or None where the text says too little."""
        return None if self.language is None else self.language == ENGLISH


NO_EVIDENCE = Identification(None, 0.0)


def identify(prose: str, word_count: int) -> Identification:
    """Identify the language of Latin-script prose of `word_count` words. Thread-safe; loads its model once."""
    if not word_count:
        return NO_EVIDENCE
    if word_count > 1 and _identifier().classify(prose)[0] == ENGLISH:
        return Identification(ENGLISH, 0.0)
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


def is_plainly_english(prose: str) -> bool:
    """Tell a sentence that is English by its commonest words alone; False where it takes a closer look."""
    words = prose.lower().replace("’", "'").split()
    known = {word.strip(".,;:!?()\"") for word in words} & _PLAINLY_ENGLISH
    return len(known) >= _PLAIN_WORDS and len(known) >= _PLAIN_SHARE * len(words)


def warm_up() -> None:
    """Load the model now; the first text that needs it would otherwise wait for it."""
    _identifier()


def _score(prose: str) -> tuple[str, float]:
    """Return the best language but English, and English's log odds against it."""
    chances = dict(_identifier().rank(prose))
    english = math.log(max(chances.pop(ENGLISH), _FLOOR))
    best, best_score = "", -math.inf
    for language, chance in chances.items():
        score = math.log(max(chance, _FLOOR)) - (_RARE_HANDICAP if language in _RARE else 0.0)
        if score > best_score:
            best, best_score = language, score
        elif chance * 2 < max(_FLOOR, math.exp(best_score)):
            break  # ranked by chance: nothing further down can win
    return best, english - best_score


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


def _load() -> LanguageIdentifier:
    import numpy as np
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages((_COMMON | _RARE) & set(identifier.nb_classes))
    # A text reads a hundred rows of 70 numbers; as chosen, those lie in columns, far apart.
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc)
    return identifier
