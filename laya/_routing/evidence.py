"""What of a state says which language it is in: its prose, line by line and field by field."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import regex

from laya._routing import script

MAX_CHARS = 40_000
"""Text past this many characters isn't looked at: of a conversation the oldest, else the end."""
_MAX_DEPTH = 64
_PLACE_SHOWN = 80

_MARKUP = regex.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]{0,400}>|&#?\w{1,10};", regex.DOTALL)
_CODE_SPAN = regex.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", regex.DOTALL)
_JSON_KEY = regex.compile(r'"[^"\n]{1,80}"\s*:')
_FACE = regex.compile(r"¯[!-~¯]*\(ツ\)[!-~¯]*|\p{L}_+\p{L}(?!\w)")
_CODE_LINE = regex.compile(
    r"""\s*(?:
      at\s+[\w.$<>/]+\([^)]*\)                            # a frame of a stack trace
    | File\s"[^"]*",\sline\s\d+.*
    | (?:import|package|using)\s+\w+(?:[.*]\w*)*;?
    | from\s+[\w.]+\s+import\s.*
    | (?:async\s+)?(?:def|class|function|func|fn)\s+\w+\s*[(:{<].*
    | (?:const|let|var|int|string|public|private|static|final)\s+[\w\s<>\[\],]{0,60}?\w\s*(?:=|\w\().*
    | (?:if|for|while|switch|elif)\b(?:\s*\(.*\)\s*\{?|.*[=<>!]=.*:|\s+\w+\sin\s[\w.()]+:.*)
    | (?:SELECT\b.*\bFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+TABLE|ALTER\s+TABLE)\b.*
    | (?:\#include|>>>|\$\s|//|/\*|\*\s@).*
    | [\w.\[\]"']+\s*(?:[-+*/:]?=|=>|->)\s.*
    )$""",
    regex.VERBOSE,
)
_CODE_SIGN = regex.compile(r"[(\[{}=<]")
_LABEL = regex.compile(r"[>\s*#-]*\p{Latin}[\p{Latin}-]{1,15}:\s+(?=\S)")
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]+")
_DRAWN_LETTER = regex.compile("[\U0001d400-\U0001d7ff]")
# A text without spaces between words can hold an address or a name: its Latin parts are read apart.
_PART = regex.compile(r"(?P<latin>[!-~\p{Latin}\p{Inherited}]+)|[^!-~\p{Latin}\p{Inherited}]+")
# Digits, joining symbols, and a capital inside a word mark an address, an identifier or a product's name.
_IDENTIFIER = regex.compile(
    r"[0-9_=\\{}<>|$%^~*@]|::|->|\p{L}\(|\p{L}[.:]\p{L}|\p{Ll}\p{Lu}|^/|^[#-]{1,2}\p{L}|/.*/|^www\."
)
_ACRONYM = regex.compile(r"\p{P}*\p{Lu}[\p{Lu}.&/-]+\p{P}*")
_PUNCTUATION = ".,;:!?\"'()[]-–—…«»„“”‘’¿¡"


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of a text, or one line of a field."""

    text: str
    """The line as it stands."""
    prose: str
    """What of it is language; never empty."""
    place: str
    """Where it is, for people: `line 3`, `field 'body'`."""

    @property
    def word_count(self) -> int:
        """Count the words of two letters and more."""
        return count_words(self.prose)


def collect_segments(state: object) -> list[Segment]:
    """List the lines of a state that hold language; keys, numbers, code, addresses and markup don't.

    Fields of one word (a status, a role, a name) count only where no field says more.
    """
    segments: list[Segment] = []
    room = MAX_CHARS
    for place, text, is_field in _leaves(_parse_json(state), "", 0):
        if room <= 0:
            break
        segments.extend(_read_lines(text[:room], place, is_field))
        room -= len(text)
    if isinstance(state, Mapping | list | tuple):
        telling = [segment for segment in segments if " " in segment.prose or not segment.prose.isascii()]
        return telling or segments
    return segments


def count_words(prose: str) -> int:
    """Count the words of two letters and more."""
    return len(_WORD.findall(prose))


def _parse_json(state: object) -> object:
    """Read a state that is JSON as text; its keys are no evidence then either."""
    if not isinstance(state, str) or len(state) > MAX_CHARS or state.lstrip()[:1] not in ("{", "["):
        return state
    try:
        parsed = json.loads(state)
    except (ValueError, RecursionError):
        return state
    return parsed if isinstance(parsed, dict | list) else state


def _leaves(value: object, place: str, depth: int) -> Iterator[tuple[str, str, bool]]:
    """Yield (place, text, is a field) of all texts; of a list the newest first, as the model keeps those."""
    if isinstance(value, str):
        yield place, value, bool(place)
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for index in range(len(value) - 1, -1, -1):
            yield from _leaves(value[index], f"{place}[{index}]", depth + 1)


def _read_lines(text: str, place: str, is_field: bool) -> Iterator[Segment]:
    for number, line in enumerate(_strip_markup(_readable(text)).splitlines(), 1):
        prose = read_prose(line)
        if prose:
            yield Segment(line.strip(), prose, f"field {place[:_PLACE_SHOWN]!r}" if is_field else f"line {number}")


def _readable(text: str) -> str:
    """Compose accents, and turn letters that are drawn as mathematical symbols into letters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC" if _DRAWN_LETTER.search(text) else "NFC", text)


def _strip_markup(text: str) -> str:
    """Blank out code between back ticks, markup, keys of JSON fragments and faces drawn with letters."""
    if "`" in text:
        text = _CODE_SPAN.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    if "<" in text or "&" in text:
        text = _MARKUP.sub(" ", text)
    if '"' in text and ":" in text:
        text = _JSON_KEY.sub(" ", text)
    if "_" in text and not text.isascii():
        text = _FACE.sub(" ", text)
    return text


def read_prose(line: str) -> str:
    """Leave the words of one line: no code, identifiers, numbers, acronyms or leading label."""
    line = line.strip()
    if not line or _is_code(line):
        return ""
    label = _LABEL.match(line)
    line = line[label.end() :] if label else line
    tokens = line.split()
    shouting = _is_shouted(tokens)
    kept = []
    for token in tokens:
        if token.islower() and token.isalpha():
            kept.append(token)
            continue
        if token.isascii():
            word = token if _is_word(token, shouting) else ""
        else:
            word = "".join(_keep(part, shouting) for part in _PART.finditer(token)).strip()
        if word:
            kept.append(word)
    prose = " ".join(kept)
    if not any(map(str.isalpha, prose)) and not script.count_scripts(prose):
        return ""
    return prose.lower() if shouting else prose


def _is_code(line: str) -> bool:
    return bool(_CODE_LINE.match(line) or (line[-1] in "{};" and _CODE_SIGN.search(line)))


def _is_shouted(tokens: list[str]) -> bool:
    upper = sum(map(str.isupper, tokens))
    return upper > 0.6 * len(tokens) and (upper > 1 or len(tokens[0]) > 4)


def _keep(part: regex.Match[str], shouting: bool) -> str:
    return part[0] if part.lastgroup is None or _is_word(part[0], shouting) else " "


def _is_word(token: str, shouting: bool) -> bool:
    word = token.strip(_PUNCTUATION)
    if word.isalpha() and (len(word) == 1 or word[1:].islower()):
        return True
    return not _IDENTIFIER.search(word) and (shouting or not _ACRONYM.fullmatch(word))
