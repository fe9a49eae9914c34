"""Families of label sets, read from the line-based files in `families/`.

A file holds blocks. `=== choice name`, `=== score name`, `=== noul name` open a family and `=== scene name` a pool of
sentences. Inside a family:

    flags: open plain          open: "none of these" makes sense; plain: keep the tone;
                               bare: add nothing to the text
    ? wording                  an instruction (noul: true for the texts under `# yes`)
    ! wording                  noul: a negated instruction, false for the texts under `# yes`
    labels: no word / yes word noul: other names of the two labels
    when: false text / true text   noul: criteria
    rubric: text | text        score: a scale; `text = 0,1` ties a coarser level to base levels
    ?2+/0- wording             score: a yes/no question, true from level 2 on, false up to level 0 (`!2+/0-`: negated)
    # label | alias :: description :: other description << value value
    ~ claim                    choice: a statement that is true of the option's texts and of no other option's
    anything else              a text of the option above: a template (see `grammar`)

`from: scene.part` takes the texts of a scene instead. `k: v ;; k: v` is a record, `user: a // agent: b` a conversation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "families"
_THRESHOLD = re.compile(r"^([?!])(\d)\+/(\d)- (.*)$")


@dataclass
class Option:
    """One answer of a family, with the texts whose right answer it is."""

    labels: list[str]
    descriptions: list[str] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    """The values of the scene's part that this option stands for."""

    def names(self) -> set[str]:
        """Its labels, in one spelling."""
        return {label.replace("_", " ").lower() for label in self.labels}


@dataclass
class Threshold:
    """A yes/no question over a scale: true from `least` on, false up to `most`, undecided between."""

    wording: str
    least: int
    most: int
    negated: bool


@dataclass
class Rubric:
    """One scale of a score family; `spans[i]` are the base levels that level i covers."""

    levels: list[str]
    spans: list[tuple[int, ...]]


@dataclass
class Family:
    """A label set with its wordings and its labelled texts."""

    name: str
    kind: str
    domain: str
    flags: set[str] = field(default_factory=set)
    wordings: list[str] = field(default_factory=list)
    negations: list[str] = field(default_factory=list)
    label_pairs: list[tuple[str, str]] = field(default_factory=list)
    criteria: list[tuple[str, str]] = field(default_factory=list)
    rubrics: list[Rubric] = field(default_factory=list)
    thresholds: list[Threshold] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    scene: str | None = None
    part: str | None = None

    def label_names(self) -> set[str]:
        """Every label of every option, in one spelling."""
        return {name for option in self.options for name in option.names()}


@dataclass
class Scene:
    """Sentence pools by part and value; a text takes one value of each part."""

    name: str
    parts: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    shuffled: bool = False


class FamilyError(ValueError):
    """A family file breaks a rule; the message names file and line."""


@lru_cache(maxsize=1)
def load_families() -> tuple[dict[str, Family], dict[str, Scene]]:
    """Read every family file; names are unique over all files."""
    families: dict[str, Family] = {}
    scenes: dict[str, Scene] = {}
    for path in sorted(_FOLDER.glob("*.fam")):
        _Reader(path, families, scenes).read()
    for family in families.values():
        _check(family, scenes)
    return families, scenes


class _Reader:
    def __init__(self, path: Path, families: dict[str, Family], scenes: dict[str, Scene]) -> None:
        self._path, self._families, self._scenes = path, families, scenes
        self._family: Family | None = None
        self._scene: Scene | None = None
        self._texts: list[str] | None = None
        self._line = 0

    def read(self) -> None:
        for number, raw in enumerate(self._path.read_text(encoding="utf-8").splitlines(), 1):
            self._line = number
            line = raw.strip()
            if not line or line.startswith("//"):
                continue
            if line.startswith("=== "):
                self._open(line[4:].split())
            elif self._scene is not None:
                self._scene_line(self._scene, line)
            elif self._family is not None:
                self._family_line(self._family, line)
            else:
                raise self._error("text before the first `===` line")

    def _open(self, words: list[str]) -> None:
        if len(words) != 2 or words[0] not in ("choice", "score", "noul", "scene"):
            raise self._error("expected `=== choice|score|noul|scene name`")
        kind, name = words
        if name in self._families or name in self._scenes:
            raise self._error(f"the name {name!r} is taken")
        self._texts = self._family = self._scene = None
        if kind == "scene":
            self._scene = self._scenes[name] = Scene(name)
        else:
            self._family = self._families[name] = Family(name, kind, self._path.stem)

    def _scene_line(self, scene: Scene, line: str) -> None:
        if line == "shuffled":
            scene.shuffled = True
        elif line.startswith("part "):
            scene.parts[line[5:].strip()] = {}
        elif line.startswith("# "):
            self._texts = list(scene.parts.values())[-1].setdefault(line[2:].strip(), [])
        elif self._texts is not None:
            self._texts.append("" if line == "-" else line)
        else:
            raise self._error("a scene's text comes after `part` and `#` lines")

    def _family_line(self, family: Family, line: str) -> None:
        key, _, rest = line.partition(": ")
        if match := _THRESHOLD.match(line):
            sign, least, most, wording = match.groups()
            family.thresholds.append(Threshold(wording, int(least), int(most), sign == "!"))
        elif line.startswith("# "):
            family.options.append(option_of(line[2:]))
        elif line.startswith("? "):
            family.wordings.append(line[2:].strip())
        elif line.startswith("! "):
            family.negations.append(line[2:].strip())
        elif line.startswith("~ ") and family.options:
            family.options[-1].claims.append(line[2:].strip())
        elif key in ("flags", "labels", "when", "rubric", "from") and not family.options:
            self._setting(family, key, rest)
        elif family.options:
            family.options[-1].texts.append(line.removeprefix("\\"))
        else:
            raise self._error("a text before the first `#` line")

    def _setting(self, family: Family, key: str, rest: str) -> None:
        if key == "flags":
            family.flags |= set(rest.split())
        elif key == "from":
            family.scene, _, family.part = rest.strip().partition(".")
        elif key == "rubric":
            family.rubrics.append(_rubric(rest))
        else:
            first, slash, second = rest.partition(" / ")
            if not slash:
                raise self._error(f"`{key}:` takes two texts with ` / ` between")
            pair = (first.strip(), second.strip())
            (family.label_pairs if key == "labels" else family.criteria).append(pair)

    def _error(self, problem: str) -> FamilyError:
        return FamilyError(f"{self._path.name}:{self._line}: {problem}")


def option_of(line: str) -> Option:
    """Read `label | alias :: description << value`, of which the label alone must be there."""
    line, _, values = line.partition("<<")
    labels, *descriptions = (piece.strip() for piece in line.split("::"))
    names = [label.strip() for label in labels.split("|")]
    return Option(names, [d for d in descriptions if d], values=values.split() or [names[0]])


def _rubric(line: str) -> Rubric:
    levels: list[str] = []
    spans: list[tuple[int, ...]] = []
    for index, piece in enumerate(line.split("|")):
        text, equals, span = piece.rpartition(" = ")
        levels.append((text if equals else piece).strip())
        spans.append(tuple(int(level) for level in span.split(",")) if equals else (index,))
    return Rubric(levels, spans)


def _check(family: Family, scenes: dict[str, Scene]) -> None:
    labels = [label.lower() for option in family.options for label in option.labels]
    if len(labels) != len(set(labels)):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise FamilyError(f"{family.name}: labels used twice: {twice}")
    if family.kind == "noul" and [option.labels[0] for option in family.options] != ["yes", "no"]:
        raise FamilyError(f"{family.name}: a noul family has `# yes` and then `# no`")
    if not family.wordings:
        raise FamilyError(f"{family.name}: no `?` wording")
    for rubric in family.rubrics:
        covered = sorted(level for span in rubric.spans for level in span)
        if covered != list(range(len(family.options))):
            raise FamilyError(f"{family.name}: the rubric {rubric.levels} does not cover the levels once each")
    if family.scene is not None:
        pools = scenes[family.scene].parts[family.part or ""]
        for option in family.options:
            option.values = [value for value in option.values if value in pools] or [option.labels[0]]
        missing = [v for o in family.options for v in o.values if v not in pools]
        if missing:
            raise FamilyError(f"{family.name}: {family.scene}.{family.part} has no values {missing}")
    elif any(not option.texts for option in family.options):
        raise FamilyError(f"{family.name}: an option without texts")
