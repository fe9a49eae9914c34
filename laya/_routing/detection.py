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
_MIXED_BELOW, _MIXED_BELOW_SHORT = -1.5, -2.5
"""Log odds that a line (of three words: the second) of an English state needs to be in another language."""
_SAMPLE_CHARS = 300
"""Characters that tell a text's language; more change nothing."""
_SCORED_CHARS = 300
"""Characters of an English state, besides a twentieth of it, that are scored sentence by sentence."""
_COMPARED_LINES, _COMPARED_CHARS = 3, 100
_MIXED_SHOWN = 200
"""Characters of a line that a decision repeats."""


_LATIN_RUN = regex.compile(r"\p{Latin}+")
_PIECES = regex.compile(r"(?<=[.!?:;…])[\s\"'“”«»„)]+|[\"“”«»„]+")
_PARTICLE_WORDS = "al da das de del della den der des di do dos du el en et la las le les los van von y zu"
_PARTICLES = frozenset(_PARTICLE_WORDS.split())


@dataclass(frozen=True, slots=True)
class Finding:
    """A detection, and where in the state the line is that decided against English."""

    detection: Detection
    place: str | None


def detect(state: object) -> Finding:
    """Detect script and language; a state that is mostly English with a line in another isn't English."""
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
    if len(segments) == 1:
        segments = list(_pieces(segments))
        foreign = [segment for segment in segments if _is_non_latin(segment.prose)]
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


def _latin(segments: list[Segment], counts: Counter[str], prose: str) -> Finding:
    pieces = list(_pieces(segments))
    shares = [language.plain_english_share(piece.prose) for piece in pieces]
    # The least English first, as there is a limit to what is scored.
    unclear = sorted(
        (item for item in zip(shares, pieces, strict=True) if item[0] < language.PLAIN_ENGLISH),
        key=lambda item: (item[1].prose.isascii(), item[0], -len(item[1].prose)),
    )
    if len(unclear) < len(pieces):
        found = language.Identification(language.ENGLISH, 0.0)
    else:
        sample = prose[:_SAMPLE_CHARS]
        found = language.identify(sample, count_words(sample))
    mixed = None
    if found.is_english is False:
        mixed = _find_beside_english(segments if len(segments) > 1 else pieces)
    elif len(pieces) > 1:
        candidates = [piece for _, piece in unclear]
        other = _find_other_language(candidates, len(prose)) or _find_among_fragments(segments)
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


def _find_other_language(pieces: list[Segment], chars: int) -> tuple[Segment, language.Identification] | None:
    """Find a sentence that isn't English, within a limit of characters to score that grows with the text."""
    budget = _SCORED_CHARS + chars // 20
    for piece in pieces:
        words = piece.word_count
        if words < 3 or not _reads_as_sentence(piece.prose):
            continue
        if budget <= 0:
            break
        budget -= len(piece.prose)
        sample = piece.prose[:_SAMPLE_CHARS]
        if language.is_english_at_sight(sample):
            continue
        found = language.identify(sample, words)
        if found.is_english is False and found.log_odds < (_MIXED_BELOW if words > 3 else _MIXED_BELOW_SHORT):
            return piece, found
    return None


def _find_beside_english(segments: list[Segment]) -> Segment | None:
    """Find the first other line of a text that isn't English but has an English line among its longest."""
    longest = sorted(segments, key=lambda segment: -len(segment.prose))[:_COMPARED_LINES]
    english = [segment for segment in longest if _is_english(segment)]
    if not english or len(segments) < 2:
        return None
    return next((segment for segment in segments if segment in longest and segment not in english), None)


def _is_english(segment: Segment) -> bool:
    if not language.plain_english_share(segment.prose):
        return False
    words = segment.word_count
    return words > 2 and bool(language.identify(segment.prose[:_COMPARED_CHARS], words).is_english)


def _find_among_fragments(segments: list[Segment]) -> tuple[Segment, language.Identification] | None:
    """Hear the lines too short to be heard alone, such as a reply of two words, together."""
    if len(segments) < 2:
        return None
    fragments = [line for line in segments if 1 < line.word_count < 4 and _has_plain_word(line.prose)]
    prose = "\n".join(line.prose for line in fragments)[:_SAMPLE_CHARS]
    found = language.identify(prose, count_words(prose))
    if found.is_english is False and found.log_odds < _MIXED_BELOW_SHORT and language.is_common(found):
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
    letters = Counter(prose).items()
    marked = sum(n for char, n in letters if not char.isascii() and script.script_of(char) == script.LATIN)
    return marked / latin_letters
