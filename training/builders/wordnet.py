"""Examples from WordNet 3.0 (Princeton licence): definitions, kinds, topics, examples of use, opposites."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from training.example import Example, choice, yes_no
from training.phrasing import NONE_LABELS, code_labels, spell_labels, vary

_KINDS = {
    4: ("act or activity", "something people do"),
    5: ("animal", "animals"),
    6: ("artifact", "things made by people"),
    7: ("attribute", "qualities of people and things"),
    8: ("body part", "parts of the body"),
    9: ("thought or knowledge", "ideas, fields of knowledge, mental processes"),
    10: ("communication", "what is said, written or signalled"),
    11: ("event", "things that happen"),
    12: ("feeling", "emotions and feelings"),
    13: ("food or drink", "what one eats and drinks"),
    14: ("group", "groups of people or things"),
    15: ("place", "locations"),
    17: ("natural object", "things found in nature"),
    18: ("person", "people"),
    19: ("natural phenomenon", "processes of nature"),
    20: ("plant", "plants"),
    21: ("possession or money", "what is owned, paid or owed"),
    22: ("process", "how things change"),
    23: ("quantity", "amounts and units"),
    27: ("substance", "materials and substances"),
    26: ("state or condition", "states, illnesses, conditions"),
    28: ("time", "times and periods"),
}
_DEFINED = (
    "Which word does the definition describe?",
    "Which word is meant?",
    "Find the term for this definition.",
    "What is being defined?",
    "Pick the term that fits the description.",
)
_MEANING = ("What does the word mean here?", "Which definition fits?", "Choose the sense of the word.")
_KIND = (
    "What kind of thing is described?",
    "To which class does the defined thing belong?",
    "Which kind of word is it?",
    "Sort the definition.",
)
_TOPIC = (
    "Which field does the term come from?",
    "To which subject does the text belong?",
    "Which topic is it?",
    "Name the domain of the definition.",
    "What is the text about?",
)
_SIZES = (2, 3, 3, 4, 4, 5, 5, 6, 6, 8, 8, 10, 12, 14, 20, 30, 60)


@dataclass(frozen=True)
class _Synset:
    key: str
    kind: int
    words: tuple[str, ...]
    gloss: str
    uses: tuple[str, ...]
    parents: tuple[str, ...]
    topics: tuple[str, ...]
    opposites: tuple[tuple[int, str, int], ...]


class WordNet:
    """Word and definition questions; `folder` holds `data.noun`, `data.verb`, `data.adj`."""

    def __init__(self, folder: Path, held_out: bool = False) -> None:
        self._synsets = {s.key: s for part in ("noun", "verb", "adj") for s in _read(folder, part)}
        usable = [s for s in self._synsets.values() if _readable(s)]
        usable = [s for i, s in enumerate(usable) if (i % 15 == 7) == held_out]
        self._nouns = [s for s in usable if s.key[0] == "n"]
        self._defined = [s for s in usable if len(s.gloss) > 25]
        self._kinds: dict[int, list[_Synset]] = defaultdict(list)
        for synset in self._nouns:
            if synset.kind in _KINDS:
                self._kinds[synset.kind].append(synset)
        self._used = [s for s in usable if s.uses]
        self._opposed = [s for s in usable if s.opposites]
        by_topic: dict[str, list[_Synset]] = defaultdict(list)
        for synset in usable:
            for topic in synset.topics:
                by_topic[topic].append(synset)
        self._topics = {topic: members for topic, members in by_topic.items() if len(members) >= 8 - 6 * held_out}

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        makers = (self._topic, self._defines, self._kind, self._use, self._is_a, self._opposite)
        return rng.choices(makers, (4, 3, 2, 1.5, 2, 0.7))[0](rng)

    def _defines(self, rng: random.Random) -> Example:
        gold = rng.choice(self._defined)
        count = rng.choice(_SIZES)
        shown = [gold]
        seen = set(gold.words)
        near = self._kinds.get(gold.kind, self._defined) if rng.random() < 0.5 else self._defined
        while len(shown) < count:
            other = rng.choice(near)
            if not seen & set(other.words):
                shown.append(other)
                seen |= set(other.words)
        labels = spell_labels([rng.choice(s.words) for s in shown], rng)
        options: list[tuple[str, str | None]] = [(label, None) for label in labels]
        right = 0
        if count > 2 and rng.random() < 0.1:
            options[0] = rng.choice(NONE_LABELS)
        if len(dict(options)) < len(options):
            return self._kind(rng)
        order = rng.sample(range(count), count)
        wording = vary(rng.choice(_DEFINED), rng)
        return choice(gold.gloss, wording, [options[i] for i in order], order.index(right), "wordnet:word")

    def _kind(self, rng: random.Random) -> Example:
        kinds = rng.sample(sorted(self._kinds), rng.randint(2, min(12, len(self._kinds))))
        gold = rng.choice(self._kinds[kinds[0]])
        described = rng.random() < 0.3
        options = [(_KINDS[kind][0], _KINDS[kind][1] if described else None) for kind in kinds]
        order = rng.sample(range(len(options)), len(options))
        state = f"{rng.choice(gold.words)}: {gold.gloss}" if rng.random() < 0.6 else gold.gloss
        wording = vary(rng.choice(_KIND), rng)
        return choice(state, wording, [options[i] for i in order], order.index(0), "wordnet:kind", 0.92)

    def _topic(self, rng: random.Random) -> Example:
        topics = rng.sample(sorted(self._topics), min(len(self._topics), rng.choice((2, 3, 4, 4, 5, 6, 8, 12, 20))))
        # Topics are unequal in size; the square root keeps the rare ones in sight.
        weights = [len(self._topics[topic]) ** 0.5 for topic in topics]
        gold = rng.choices(range(len(topics)), weights)[0]
        synset = rng.choice(self._topics[topics[gold]])
        if rng.random() < 0.3:
            return self._about(synset, topics, gold, rng)
        names = [self._synsets[topic].words[0] for topic in topics]
        described = rng.random() < 0.25
        options: dict[str, str | None] = {}
        for name, topic in zip(names, topics, strict=True):
            options[name] = self._synsets[topic].gloss if described else None
        chosen = list(options.items())
        order = rng.sample(range(len(chosen)), len(chosen))
        index = list(options).index(names[gold])
        wording = vary(rng.choice(_TOPIC), rng)
        state = _shown(synset, rng)
        return choice(state, wording, [chosen[i] for i in order], order.index(index), "wordnet:topic", 0.92)

    def _about(self, synset: _Synset, topics: list[str], gold: int, rng: random.Random) -> Example:
        holds = rng.random() < 0.5
        topic = topics[gold] if holds else rng.choice([t for t in topics if t not in synset.topics])
        name = self._synsets[topic].words[0]
        wording = rng.choice(
            ("Is this about {}?", "Does the term belong to {}?", "The text is about {}.", "Topic: {}?", "Is it {}?")
        ).format(name)
        return yes_no(_shown(synset, rng), vary(wording, rng), 0.93 if holds else 0.06, "wordnet:about")

    def _use(self, rng: random.Random) -> Example:
        gold = rng.choice(self._used)
        use = rng.choice(gold.uses)
        shown = [gold, *rng.sample(self._used, rng.randint(1, 4))]
        codes = code_labels(len(shown), rng)
        order = rng.sample(range(len(shown)), len(shown))
        word = next((w for w in gold.words if w in use), gold.words[0])
        options: list[tuple[str, str | None]] = []
        for code, index in zip(codes, order, strict=True):
            options.append((code, shown[index].gloss))
        state = {"word": word, "sentence": use} if rng.random() < 0.5 else f"{use} ({word})"
        return choice(state, vary(rng.choice(_MEANING), rng), options, order.index(0), "wordnet:sense")

    def _is_a(self, rng: random.Random) -> Example:
        synset = rng.choice([s for s in rng.sample(self._nouns, 8) if s.parents] or self._opposed)
        holds = rng.random() < 0.5 and bool(synset.parents)
        other = self._synsets[rng.choice(synset.parents)] if holds else rng.choice(self._nouns)
        if not holds and other.key in synset.parents:
            holds = True
        name = other.words[0]
        negated = rng.random() < 0.3
        wording = rng.choice(
            (f"Is it not a kind of {name}?", f"Is it something other than {name}?", f"This is no {name}.")
            if negated
            else (f"Is it a kind of {name}?", f"Is this a {name}?", f"Does it belong to the class {name}?",
                  f"The thing described is a kind of {name}.", f"{name}?", f"Could one call it {name}?")
        )  # fmt: skip
        p = 0.94 if holds else 0.05
        return yes_no(_shown(synset, rng), vary(wording, rng), 1 - p if negated else p, "wordnet:isa")

    def _opposite(self, rng: random.Random) -> Example:
        synset = rng.choice(self._opposed)
        at, key, target = rng.choice(synset.opposites)
        holds = rng.random() < 0.5
        other = self._synsets[key] if holds else rng.choice(self._opposed)
        words = (
            synset.words[min(at, len(synset.words) - 1)],
            other.words[min(target, len(other.words) - 1) if holds else 0],
        )
        wording = rng.choice(
            ("Are the two words opposites?", "Do they mean opposite things?", "The words are antonyms.", "Antonyms?")
        )
        state = {"a": words[0], "b": words[1]} if rng.random() < 0.5 else f"{words[0]} / {words[1]}"
        return yes_no(state, wording, 0.96 if holds else 0.05, "wordnet:opposite")


def _shown(synset: _Synset, rng: random.Random) -> str:
    gloss = synset.gloss
    if rng.random() < 0.6:
        # "(baseball) a hit ..." names the topic that is asked for.
        gloss = re.sub(r"^\([^)]*\) ", "", gloss)
    if rng.random() < 0.55:
        return f"{rng.choice(synset.words)}: {gloss}"
    return gloss


def _readable(synset: _Synset) -> bool:
    return all(word[0].isalpha() for word in synset.words) and 12 < len(synset.gloss) < 260


def _read(folder: Path, part: str) -> list[_Synset]:
    synsets = []
    for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            continue
        head, _, gloss = line.partition(" | ")
        synsets.append(_synset(head.split(), gloss.strip()))
    return synsets


def _synset(fields: list[str], gloss: str) -> _Synset:
    kind_letter = "a" if fields[2] == "s" else fields[2]
    count = int(fields[3], 16)
    words = tuple(re.sub(r"\(.*\)", "", w).replace("_", " ") for w in fields[4 : 4 + 2 * count : 2])
    start = 4 + 2 * count
    pointers = [fields[i : i + 4] for i in range(start + 1, start + 1 + 4 * int(fields[start]), 4)]
    definition, *uses = re.split(r'; "', gloss)
    return _Synset(
        key=kind_letter + fields[0],
        kind=int(fields[1]),
        words=words,
        gloss=definition.strip(" ;"),
        uses=tuple(use.rstrip('"; ') for use in uses if len(use) > 12),
        parents=tuple("n" + p[1] for p in pointers if p[0] in ("@", "@i") and p[2] == "n"),
        topics=tuple("n" + p[1] for p in pointers if p[0] == ";c"),
        opposites=tuple(
            (max(0, int(p[3][:2], 16) - 1), p[2] + p[1], max(0, int(p[3][2:], 16) - 1))
            for p in pointers
            if p[0] == "!" and p[2] in "nva"
        ),
    )
