"""Briefs: many small label sets, few texts each, for breadth; read from the line-based files in `briefs/`.

`=== noul`, `=== choice`, `=== score` and `=== claims` open a block. In the first three:

    ? wording            an instruction
    ! wording            noul: asks for the opposite
    + text / - text      noul: the answer is yes / no
    # label | other label :: description     choice: an option; score: a level, lowest first
    anything else        a text of the option or level above

In a claims block `: text` is the state, `+` and `-` lines are statements and questions that hold for it and that don't.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from training.family import Family, FamilyError, Option, Rubric, option_of

_FOLDER = Path(__file__).parent / "briefs"
_KINDS = ("noul", "choice", "score", "claims")


@dataclass
class Claims:
    """A text with what holds for it and what doesn't."""

    name: str
    text: str = ""
    true: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)


@lru_cache(maxsize=1)
def load_briefs() -> tuple[list[Family], list[Claims]]:
    """Read every file; a malformed block is a FamilyError that names file and line."""
    families: list[Family] = []
    claims: list[Claims] = []
    for path in sorted(_FOLDER.glob("*.txt")):
        for start, kind, lines in _blocks(path):
            name = f"brief.{path.stem}.{start}"
            where = f"{path.name}:{start}"
            if kind == "claims":
                claims.append(_claims(name, lines, where))
            else:
                families.append(_family(name, kind, path.stem, lines, where))
    return families, claims


def _blocks(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    start, kind = 0, ""
    lines: list[str] = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.strip()
        if line.startswith("==="):
            if kind:
                yield start, kind, lines
            start, kind, lines = number, line.removeprefix("===").strip(), []
            if kind not in _KINDS:
                raise FamilyError(f"{path.name}:{number}: a block is one of {', '.join(_KINDS)}, not {kind!r}")
        elif line and not line.startswith("//"):
            lines.append(line)
    if kind:
        yield start, kind, lines


def _family(name: str, kind: str, domain: str, lines: list[str], where: str) -> Family:
    family = Family(name, kind, domain, {"plain"})
    if kind == "noul":
        family.options = [Option(["yes"]), Option(["no"])]
    for line in lines:
        mark, text = line[:2], line[2:].strip()
        if mark == "? ":
            family.wordings.append(text)
        elif mark == "! " and kind == "noul":
            family.negations.append(text)
        elif mark in ("+ ", "- ") and kind == "noul":
            family.options[mark == "- "].texts.append(text)
        elif mark == "# " and kind != "noul":
            family.options.append(option_of(text))
        elif family.options and kind != "noul":
            family.options[-1].texts.append(line)
        else:
            raise FamilyError(f"{where}: can't read {line!r}")
    if kind == "score":
        family.rubrics = _rubrics(family.options)
    if not family.wordings or len(family.options) < 2 or any(not option.texts for option in family.options):
        raise FamilyError(f"{where}: a block needs a wording, two options, and texts for each")
    return family


def _rubrics(levels: list[Option]) -> list[Rubric]:
    """The scale in its names, in its other names, and described."""
    spans = [(index,) for index in range(len(levels))]
    scales = [[level.labels[0] for level in levels], [level.labels[-1] for level in levels]]
    scales.append([level.descriptions[0] if level.descriptions else level.labels[0] for level in levels])
    return [Rubric(scale, list(spans)) for scale in scales if len(set(scale)) == len(scale)]


def _claims(name: str, lines: list[str], where: str) -> Claims:
    claims = Claims(name)
    for line in lines:
        mark, text = line[:2], line[2:].strip()
        if mark == ": ":
            claims.text = f"{claims.text} {text}".strip()
        elif mark in ("+ ", "- "):
            (claims.true if mark == "+ " else claims.false).append(text)
        else:
            raise FamilyError(f"{where}: can't read {line!r}")
    if not claims.text or not claims.true or not claims.false:
        raise FamilyError(f"{where}: claims need a text, and some that hold and some that don't")
    return claims
