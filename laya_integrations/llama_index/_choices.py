"""Turn a selector's choices into laya questions, and laya's answers into a probability for each choice."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.tools.types import ToolMetadata

from laya_integrations._decisions import Decision

QUESTION = "select"
"""Id of the question that compares the choices; the one about the choice of index 3 alone is `select_3`."""

_CALLED = 60
"""Characters of a description that stand for a choice without a name."""


@dataclass(frozen=True)
class Standing:
    """How the choices stand after one answer."""

    probabilities: list[float]
    """Probability of each choice, by its index."""
    none: float | None
    """Probability that none of them fits; None where that was no option."""
    unsure: frozenset[int]
    """Indexes whose answer fell below laya's `min_confidence`."""
    run_id: str | None

    def ranked(self) -> list[int]:
        """The indexes, the most probable first, equal ones in order."""
        return sorted(range(len(self.probabilities)), key=lambda index: -self.probabilities[index])


@dataclass(frozen=True)
class Choices:
    """Choices, with a label for each that says something else: the key of its option in laya's answer.

    Choices that say the very same are asked about once, or they would split their probability and lose to a
    worse one. A label is a name that is no other's, else all that the choice says. A number in its place would
    tell cut options apart by what means nothing, and laya could not report that they read the same.
    """

    names: tuple[str, ...]
    """May be blank, or the same for several."""
    texts: tuple[str, ...]
    """The descriptions; may be blank where there is a name."""
    labels: tuple[str, ...]

    @classmethod
    def read(cls, metadatas: Sequence[ToolMetadata]) -> Choices:
        """Label tool metadata; raises ValueError for no choices, or one without any text."""
        if not metadatas:
            raise ValueError("choices is empty; give the selector at least one")
        names = [(metadata.name or "").strip() for metadata in metadatas]
        texts = [(metadata.description or "").strip() for metadata in metadatas]
        for index, name in enumerate(names):
            if not name and not texts[index]:
                raise ValueError(f"choices[{index}] has neither a name nor a description, which the model reads")
        return cls(tuple(names), tuple(texts), _labels(names, texts))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def distinct(self) -> int:
        """How many there are, those that say the very same counted once."""
        return len(set(self.labels))

    def compare(self, instructions: str, none_text: str | None) -> dict[str, Any]:
        """One choice question: which of them; `none_text` adds the option that none is."""
        said = dict(zip(self.labels, zip(self.names, self.texts, strict=True), strict=True))
        alone = _alone(said.values())
        criteria = {label: (text or None) if name in alone else None for label, (name, text) in said.items()}
        if none_text is not None:
            criteria[self._none_label] = none_text
        return {QUESTION: {"type": "choice", "instructions": instructions, "criteria": criteria}}

    def each(self, instructions: str) -> dict[str, Any]:
        """A noul question for each that says something else: whether it fits."""
        said = {index: _joined(self.names[index], self.texts[index]) for index in self._asked}
        return {
            f"{QUESTION}_{index}": {"type": "noul", "instructions": f"{instructions} {what}"}
            for index, what in said.items()
        }

    def called(self, index: int) -> str:
        """A choice for people, in quotes: its name, else how its description begins."""
        return repr(self.names[index] or textwrap.shorten(self.texts[index], _CALLED, placeholder="..."))

    def compared(self, decision: Decision) -> Standing:
        """How they stand after the question of `compare`."""
        answer = decision.answer(QUESTION)
        given = answer.get("probabilities")
        if not isinstance(given, Mapping) or not given.keys() >= set(self.labels):
            raise ValueError("the runner's answer lacks the probability of a choice; check the runner and its hooks")
        unsure = range(len(self)) if answer.get("low_confidence") else ()
        return Standing(
            [_probability(given[label]) for label in self.labels],
            _probability(given[self._none_label]) if self._none_label in given else None,
            frozenset(unsure),
            decision.run_id,
        )

    def judged(self, decision: Decision) -> Standing:
        """How they stand after the questions of `each`."""
        answers = [decision.answer(f"{QUESTION}_{index}") for index in self._asked]
        unsure = frozenset(index for index, answer in enumerate(answers) if answer.get("low_confidence"))
        return Standing([_probability(answer.get("noul")) for answer in answers], None, unsure, decision.run_id)

    @property
    def _asked(self) -> list[int]:
        """For each choice, the index of the first that says the same, which is the one asked about."""
        first: dict[str, int] = {}
        return [first.setdefault(label, index) for index, label in enumerate(self.labels)]

    @property
    def _none_label(self) -> str:
        return _unique([*self.labels, "none of these"])[-1]


def read_the_same(decision: Decision) -> bool:
    """Whether the model could not tell some options of the comparison apart, cut to the budget as they were."""
    usage = decision.result.get("usage")
    return isinstance(usage, Mapping) and QUESTION in (usage.get("options") or ())


def _labels(names: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """A label for each; the same one for those that say the very same."""
    each = list(zip(names, texts, strict=True))
    said = list(dict.fromkeys(each))
    alone = _alone(said)
    labels = _unique([name if name in alone else _joined(name, text) for name, text in said])
    label_of = dict(zip(said, labels, strict=True))
    return tuple(label_of[what] for what in each)


def _alone(said: Iterable[tuple[str, str]]) -> set[str]:
    """The names that only one has."""
    count = Counter(name for name, _ in said)
    return {name for name, number in count.items() if name and number == 1}


def _joined(name: str, text: str) -> str:
    return f"{name}: {text}" if name and text else name or text


def _unique(texts: Sequence[str]) -> tuple[str, ...]:
    labels: list[str] = []
    for text in texts:
        label, number = text, 1
        while label in labels or (label != text and label in texts):
            number += 1
            label = f"{text} ({number})"
        labels.append(label)
    return tuple(labels)


def _probability(value: Any) -> float:
    try:
        probability = float(value)
    except (TypeError, ValueError):
        probability = math.nan
    if not 0 <= probability <= 1:
        raise ValueError("a probability of the runner's answer is no number in 0 to 1; check the runner and its hooks")
    return probability
