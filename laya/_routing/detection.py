"""What a state's script and language are, and whether the English checkpoint can read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import regex

from laya._routing import language, script
from laya._routing.evidence import Segment, collect_segments, count_words
from laya.types import Detection

_NON_LATIN_SHARE = 0.3
"""Share of a line (or of the state) from which another script decides."""
_CLAUSE_WORDS, _CLAUSE_LETTERS = 3, 12
"""A run of so many words and letters of another script decides, however long the text around it."""
_MIXED_BELOW = -1.5
"""Log odds that a line of an English state needs to count as not English: there are many lines to go wrong."""
_MIXED_BELOW_SHORT = -2.5
_SAMPLE_CHARS = 300
"""Characters that tell a text's language; more change nothing."""
_SCORED_CHARS = 600
"""Characters of an English text's less plain sentences that are scored one by one, with a tenth of the text."""
_COMPARED_LINES = 3
_MIXED_SHOWN = 200
"""Characters of a line that a decision repeats."""

_LATIN_RUN = regex.compile(r"\p{Latin}+")
_PIECES = regex.compile(r"(?<=[.!?:;…])[\s\"'“”«»„)]+|[\"“”«»„]+")
_PARTICLES = frozenset("al da das de del della den der des di do dos du el en et la las le les los van von y zu".split())


@dataclass(frozen=True, slots=True)
class Finding:
    """A detection, and where in the state the line is that decided against English."""

    detection: Detection
    place: str | None


def detect(state: object) -> Finding:
    """Detect script and language of a state; a state that is mostly English with one other line isn't English."""
    segments = collect_segments(state)
    prose = "\n".join(segment.prose for segment in segments)
    counts = script.count_scripts(prose)
    if not counts:
        return Finding(_detection(counts, prose), None)
    foreign = _find_non_latin(segments, counts)
    if foreign is not None:
        return _non_latin(segments, foreign, counts, prose)
    return _latin(segments, counts, prose)


def _detection(counts: Counter[str], prose: str, **found: object) -> Detection:
    detection: Detection = {
        "script": script.dominant(counts),
        "script_profile": script.profile(counts),
        "language": None,
        "is_english": None,
        "language_undecided": True,
        "diacritic_rate": round(_diacritic_rate(prose, counts[script.LATIN]), 4),
        "non_latin_fraction": round(script.non_latin_fraction(counts), 4),
        "mixed_segment": None,
    }
    detection.update(found)  # type: ignore[typeddict-item]
    return detection


# --- other scripts -------------------------------------------------------------------------------


def _find_non_latin(segments: list[Segment], counts: Counter[str]) -> list[Segment] | None:
    """List the lines in another script, [] where only the whole says so; None where Latin decides."""
    if len(counts) == 1 and script.LATIN in counts:
        return None
    found = [segment for segment in segments if _is_non_latin(segment.prose)]
    return found if found or script.non_latin_weight(counts) >= _NON_LATIN_SHARE else None


def _is_non_latin(prose: str) -> bool:
    if prose.isascii():
        return False
    counts = script.count_scripts(prose)
    letters = counts.total() - counts[script.LATIN]
    if not counts[script.LATIN]:
        return letters > 0
    if letters < 2:
        return False  # a unit or a formula's letter
    weight = script.non_latin_weight(counts)
    return weight >= _NON_LATIN_SHARE or any(map(_is_clause, _LATIN_RUN.split(prose)))


def _is_clause(run: str) -> bool:
    counts = script.count_scripts(run)
    unspaced = counts[script.HAN] + counts[script.KANA] >= _CLAUSE_LETTERS // 2
    return unspaced or (counts.total() >= _CLAUSE_LETTERS and len(run.split()) >= _CLAUSE_WORDS)


def _non_latin(segments: list[Segment], foreign: list[Segment], counts: Counter[str], prose: str) -> Finding:
    others = [segment for segment in segments if segment not in foreign and segment.word_count > 1]
    mixed = foreign[0] if foreign and others else None
    detection = _detection(
        counts,
        prose,
        script=script.dominant(counts, non_latin=True),
        is_english=False,
        mixed_segment=mixed and mixed.text[:_MIXED_SHOWN],
    )
    return Finding(detection, mixed.place if mixed else None)


# --- Latin script --------------------------------------------------------------------------------


def _latin(segments: list[Segment], counts: Counter[str], prose: str) -> Finding:
    pieces = list(_pieces(segments))
    unclear = [piece for piece in pieces if not language.is_plainly_english(piece.prose)]
    if len(unclear) < len(pieces):
        found = language.Identification(language.ENGLISH, 0.0)
    else:
        sample = prose[:_SAMPLE_CHARS]
        found = language.identify(sample, count_words(sample))
    mixed = None
    if found.is_english is False:
        mixed = _find_beside_english(segments)
    elif len(pieces) > 1:
        other = _find_other_language(unclear) or _find_among_fragments(unclear)
        if other is not None:
            mixed, found = other
    detection = _detection(
        counts,
        prose,
        language=found.language,
        is_english=found.is_english,
        language_undecided=found.language is None,
        mixed_segment=mixed and mixed.text[:_MIXED_SHOWN],
    )
    return Finding(detection, mixed.place if mixed else None)


def _pieces(segments: list[Segment]) -> Iterator[Segment]:
    """Cut lines into sentences and quotations, so that one among others can be heard."""
    for segment in segments:
        parts = [part for part in _PIECES.split(segment.prose) if part]
        if len(parts) < 2:
            yield segment
        else:
            yield from (replace(segment, text=part, prose=part) for part in parts)


def _find_other_language(pieces: list[Segment]) -> tuple[Segment, language.Identification] | None:
    """Find a sentence that isn't English; the longest first, within a budget of characters to score."""
    counted = [(piece.word_count, piece) for piece in pieces]
    sentences = [item for item in counted if item[0] > 2 and _reads_as_sentence(item[1].prose)]
    sentences.sort(key=lambda item: (item[1].prose.isascii(), -item[0]))
    budget = _SCORED_CHARS + sum(len(piece.prose) for piece in pieces) // 10
    for words, piece in sentences:
        if budget <= 0:
            break
        budget -= len(piece.prose)
        found = language.identify(piece.prose[:_SAMPLE_CHARS], words)
        if found.is_english is False and found.log_odds < (_MIXED_BELOW if words > 3 else _MIXED_BELOW_SHORT):
            return piece, found
    return None


def _find_beside_english(segments: list[Segment]) -> Segment | None:
    """Find the first other line of a text that is mostly not English but has an English line among its longest."""
    longest = sorted(segments, key=lambda segment: -len(segment.prose))[:_COMPARED_LINES]
    english = [segment for segment in longest if _is_english(segment)]
    if not english or len(segments) < 2:
        return None
    return next((segment for segment in segments if segment in longest and segment not in english), None)


def _is_english(segment: Segment) -> bool:
    words = segment.word_count
    return words > 2 and bool(language.identify(segment.prose[:_SAMPLE_CHARS], words).is_english)


def _find_among_fragments(pieces: list[Segment]) -> tuple[Segment, language.Identification] | None:
    """Hear the pieces too short to be heard alone, such as a reply of two words, together."""
    fragments = [piece for piece in pieces if piece.word_count < 4 and _has_plain_word(piece.prose)]
    prose = "\n".join(piece.prose for piece in fragments)[:_SAMPLE_CHARS]
    found = language.identify(prose, count_words(prose))
    if found.is_english is False and found.log_odds < _MIXED_BELOW_SHORT:
        return fragments[0], found
    return None


def _reads_as_sentence(prose: str) -> bool:
    """Tell a sentence from a name or an address: those are capitalised but for particles."""
    words = prose.split()
    plain = sum(map(_is_plain_word, words))
    return plain >= 2 and 3 * plain >= len(words)


def _has_plain_word(prose: str) -> bool:
    return any(map(_is_plain_word, prose.split()))


def _is_plain_word(word: str) -> bool:
    return word[0].islower() and len(word) > 1 and word not in _PARTICLES


def _diacritic_rate(prose: str, latin_letters: int) -> float:
    """Give the share of Latin letters that English hasn't: those with a mark, and others outside a to z."""
    if prose.isascii() or not latin_letters:
        return 0.0
    marked = sum(1 for char in prose if not char.isascii() and script.script_of(char) == script.LATIN)
    return marked / latin_letters
