"""Examples from the families written for this checkpoint."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any

from training.brief import load_briefs
from training.example import Example, choice, score, yes_no
from training.family import Family, Option, Scene, load_families
from training.grammar import expand, variety
from training.phrasing import (
    GENERIC_CHOICE,
    NEGATED,
    NONE_LABELS,
    claim_question,
    coded,
    label_question,
    spell_labels,
    vary,
)
from training.surface import present

_SHARE = {"noul": 1.8, "choice": 1.7, "score": 1.2}
"""How often a kind of family is drawn, per family: yes/no is learned last, and rubrics have few texts, but every level
of them counts."""
_PRESETS = 4.0
"""How much oftener a question that the product ships or teaches is drawn: those are asked the most."""
_TRUE = 0.96
_FOREIGN, _FOREIGN_TRUE = 0.4, 0.05
"""Share of the texts without a property that come from other families, and how probable it is that they have it."""
_MAX_OPTIONS = 80
_SHORT_LIST = 12
_LIST_SIZES = (1, 2, 3, 4, 4, 5, 6, 7, 9, 12)
"""Other options drawn from a long list: most lists that people write are short, and long rows are dear."""


class Authored:
    """Draws families, then a text of one and a question about it.

    `held_out=False` leaves out about one family in twelve, `held_out=True` draws only those: calibration
    needs label sets that were never trained.
    """

    def __init__(self, held_out: bool = False) -> None:
        families, self._scenes = load_families()
        self._families = [f for f in (*families.values(), *load_briefs()[0]) if is_held_out(f.name) == held_out]
        self._weights = [_weight(f) for f in self._families]
        self._open = [f for f in self._families if "open" in f.flags]

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        family = rng.choices(self._families, self._weights)[0]
        if family.kind == "noul":
            return self._noul(family, rng)
        if family.kind == "score":
            return self._score(family, rng)
        roll = rng.random()
        if roll < 0.58:
            return self._choice(family, rng)
        if roll < 0.88 or "open" not in family.flags:
            return self._claim(family, rng)
        return self._union(family, rng)

    def _choice(self, family: Family, rng: random.Random) -> Example:
        right = rng.choice(family.options)
        gold: Option | None = right
        text = self._text(family, right, rng)
        others = [option for option in family.options if option is not right]
        if rng.random() < 0.6:
            others = rng.sample(others, rng.randint(1, len(others)))
        if len(others) > _SHORT_LIST and rng.random() < 0.8:
            others = rng.sample(others, rng.choice(_LIST_SIZES))
        extra = None
        if "open" in family.flags:
            roll = rng.random()
            if roll < 0.12:
                extra, gold = rng.choice(NONE_LABELS), None
                if rng.random() < 0.4:
                    text = self._foreign_text(family, rng)
                    others = list(family.options) if rng.random() < 0.5 else others
            elif roll < 0.3:
                extra = rng.choice(NONE_LABELS)
        wording = rng.choice(family.wordings if rng.random() < 0.85 else GENERIC_CHOICE)
        return _asked(family, text, wording, gold, others, extra, rng)

    def _claim(self, family: Family, rng: random.Random) -> Example:
        about = rng.choice(family.options)
        holds = rng.random() < 0.5
        foreign = not holds and "open" in family.flags and rng.random() < _FOREIGN
        source = about if holds else rng.choice([o for o in family.options if o is not about])
        text = self._foreign_text(family, rng) if foreign else self._text(family, source, rng)
        negated = not foreign and rng.random() < NEGATED
        label = rng.choice(about.labels)
        if about.claims and rng.random() < 0.65:
            claim = rng.choice(about.claims)
            wording = claim_question(claim, negated, rng)
            criteria = {"true": claim} if not negated and rng.random() < 0.1 else None
        else:
            wording = label_question(label, rng.choice(family.wordings), negated, rng)
            described = bool(about.descriptions) and not negated and rng.random() < 0.3
            criteria = {"true": rng.choice(about.descriptions), "false": "anything else"} if described else None
        state, wording = _present(family, text, wording, rng)
        p_true = _TRUE if holds != negated else 1.0 - _TRUE
        return yes_no(state, wording, p_true, f"{'foreign' if foreign else 'claim'}:{family.name}", criteria=criteria)

    def _union(self, family: Family, rng: random.Random) -> Example:
        gold = rng.choice(family.options)
        text = self._text(family, gold, rng)
        others = [option for option in family.options if option is not gold]
        seen = family.label_names()
        domains = {family.domain}
        limit = rng.choice((10, 12, 15, 20, 20, 30, 45, 60, _MAX_OPTIONS))
        for other in rng.sample(self._open, len(self._open)):
            labels = other.label_names()
            if other.domain in domains or labels & seen or len(others) >= limit:
                continue
            others += other.options
            seen |= labels
            domains.add(other.domain)
        others = others[: limit - 1]
        return _asked(family, text, rng.choice(GENERIC_CHOICE), gold, others, None, rng)

    def _noul(self, family: Family, rng: random.Random) -> Example:
        yes, no = family.options
        holds = rng.random() < 0.5
        if not holds and "bare" not in family.flags and rng.random() < _FOREIGN:
            state, wording = _present(
                family, self._foreign_text(family, rng), vary(rng.choice(family.wordings), rng), rng
            )
            return yes_no(state, wording, _FOREIGN_TRUE, f"foreign:{family.name}")
        text = self._text(family, yes if holds else no, rng)
        negated = bool(family.negations) and rng.random() < NEGATED
        wording = vary(rng.choice(family.negations if negated else family.wordings), rng)
        flip = slice(None, None, -1 if negated else 1)
        names = rng.choice(family.label_pairs)[flip] if family.label_pairs and rng.random() < 0.25 else None
        when = rng.choice(family.criteria)[flip] if family.criteria and rng.random() < 0.45 else None
        state, wording = _present(family, text, wording, rng)
        truth = holds != negated
        if rng.random() < 0.07:
            shown = names or rng.choice((("no", "yes"), ("No", "Yes"), ("false", "true"), ("N", "Y")))
            options = list(zip(shown, when or (None, None), strict=True))
            order = rng.sample((0, 1), 2)
            return choice(state, wording, [options[i] for i in order], order.index(int(truth)), f"binary:{family.name}")
        labels = dict(zip(("false", "true"), names or ("no", "yes"), strict=True))
        criteria = dict(zip(("false", "true"), when, strict=True)) if when else None
        example = yes_no(
            state,
            wording,
            _TRUE if truth else 1.0 - _TRUE,
            f"noul:{family.name}",
            criteria=criteria,
            labels=labels if names or rng.random() < 0.08 else None,
        )
        return _reordered(example, 0.12, rng)

    def _score(self, family: Family, rng: random.Random) -> Example:
        level = rng.randrange(len(family.options))
        text = self._text(family, family.options[level], rng)
        if family.thresholds and rng.random() < 0.35:
            return self._threshold(family, rng)
        rubric = rng.choice(family.rubrics)
        levels, spans = list(rubric.levels), list(rubric.spans)
        if rng.random() < 0.06:
            levels.reverse()
            spans.reverse()
        gold = next(i for i, span in enumerate(spans) if level in span)
        state, wording = _present(family, text, vary(rng.choice(family.wordings), rng), rng)
        if rng.random() < 0.1:
            order = rng.sample(range(len(levels)), len(levels))
            options = [(levels[i], None) for i in order]
            return choice(state, wording, options, order.index(gold), f"levels:{family.name}", 0.92)
        example = score(state, wording, levels, _around(gold, spans, level), f"score:{family.name}")
        return _reordered(example, 0.35, rng)

    def _threshold(self, family: Family, rng: random.Random) -> Example:
        threshold = rng.choice(family.thresholds)
        above = rng.random() < 0.5
        levels = range(threshold.least, len(family.options)) if above else range(threshold.most + 1)
        text = self._text(family, family.options[rng.choice(levels)], rng)
        state, wording = _present(family, text, vary(threshold.wording, rng), rng)
        p_true = _TRUE if above != threshold.negated else 1.0 - _TRUE
        return yes_no(state, wording, p_true, f"threshold:{family.name}")

    def _text(self, family: Family, option: Option, rng: random.Random) -> str:
        if family.scene is None:
            return expand(rng.choice(option.texts), rng)
        scene = self._scenes[family.scene]
        for _ in range(20):
            text = _compose(scene, family.part or "", rng.choice(option.values), rng)
            if text:
                return text
        raise ValueError(f"{family.name}: the scene {scene.name} gives empty texts only")

    def _foreign_text(self, family: Family, rng: random.Random) -> str:
        other = rng.choice([f for f in self._open if f.domain != family.domain] or [family])
        return self._text(other, rng.choice(other.options), rng)


def is_held_out(name: str) -> bool:
    """Whether a family is kept for calibration; fixed by its name."""
    return zlib.crc32(name.encode()) % 12 == 5


def _weight(family: Family) -> float:
    return _SHARE[family.kind] * _richness(family) * (_PRESETS if family.domain == "presets" else 1.0)


def _richness(family: Family) -> float:
    count = sum(min(4, variety(text)) for option in family.options for text in option.texts)
    return min(4.0, max(0.6, (count / 40) ** 0.5)) if family.scene is None else 1.6


def _compose(scene: Scene, part: str, value: str, rng: random.Random) -> str:
    keep = 1.0 if rng.random() < 0.5 else 0.4
    pieces = []
    for name, pools in scene.parts.items():
        if name == part:
            pieces.append(rng.choice(pools[value]))
        elif rng.random() < keep or name == next(iter(scene.parts)):
            pieces.append(rng.choice(pools[rng.choice(list(pools))]))
    if scene.shuffled and rng.random() < 0.6:
        rng.shuffle(pieces)
    return expand(" ".join(piece for piece in pieces if piece), rng, same=True)


def _asked(
    family: Family,
    text: str,
    wording: str,
    gold: Option | None,
    others: Sequence[Option],
    extra: tuple[str, str | None] | None,
    rng: random.Random,
) -> Example:
    shown = [option for option in (gold, *others) if option is not None][:_MAX_OPTIONS]
    labels = spell_labels([rng.choice(option.labels) for option in shown], rng)
    options = _described(shown, labels, rng)
    right = 0
    if extra is not None and extra[0] not in dict(options):
        options.append(extra)
        right = len(options) - 1 if gold is None else 0
    order = list(range(len(options)))
    if extra is None or rng.random() < 0.6:
        rng.shuffle(order)
    else:
        # People write "other" last.
        order = rng.sample(order[:-1], len(order) - 1) + order[-1:]
    listed = [options[i] for i in order]
    if len(listed) <= 30 and rng.random() < 0.13:
        listed = coded(listed, rng)
    state, wording = _present(family, text, vary(wording, rng), rng)
    return choice(state, wording, listed, order.index(right), f"choice:{family.name}")


def _present(family: Family, text: str, wording: str, rng: random.Random) -> tuple[Any, str]:
    bare = "bare" in family.flags
    return present(text, wording, bare or "plain" in family.flags, rng, bare)


def _described(shown: Sequence[Option], labels: Sequence[str], rng: random.Random) -> list[tuple[str, str | None]]:
    roll = rng.random()
    if roll < 0.45 or len(shown) > 30:
        return [(label, None) for label in labels]
    texts = [rng.choice(option.descriptions) if option.descriptions else None for option in shown]
    if roll < 0.55:
        texts = [text if rng.random() < 0.5 else None for text in texts]
    return list(zip(labels, texts, strict=True))


def _around(gold: int, spans: Sequence[tuple[int, ...]], level: int) -> list[float]:
    """Mass on the right level, some on a neighbour, more of it where the text lies at that neighbour's edge."""
    target = [0.0] * len(spans)
    target[gold] = 0.86
    for step in (-1, 1):
        if 0 <= gold + step < len(spans):
            close = min(abs(level - base) for base in spans[gold + step]) == 1
            target[gold + step] = 0.1 if close else 0.02
    return [value + 0.004 for value in target]


def _reordered(example: Example, share: float, rng: random.Random) -> Example:
    """Show the options of a share of examples in another order; the target stays in the caller's order."""
    if rng.random() >= share:
        return example
    count = len(example.target)
    question = {**example.question, "option_order": rng.sample(range(count), count)}
    return Example(example.state, question, example.target, example.source)
