"""Examples whose soft targets are the untrained encoder's own similarities: what it knows of topics isn't forgotten.

Distillation in the sense of Hinton, Vinyals and Dean 2015, from mean-pooled sentence vectors to option markers. Where a
label set knows the text's own label, that one counts for more than its similarity.
"""

from __future__ import annotations

import random
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from training.brief import load_briefs
from training.builders.authored import is_held_out
from training.cosine import SCALE, SentenceVectors
from training.example import Example
from training.family import load_families
from training.grammar import expand
from training.phrasing import GENERIC_CHOICE, spell_labels, vary

_NEAREST = (
    "Which topic is nearest?",
    "Which of these is it closest to?",
    "What is it about?",
    "What does the user want?",
    "Which intent fits best?",
    "Find the option that is most alike.",
)
_SIZES = (3, 4, 5, 5, 5, 5, 6, 7, 8, 10, 12, 18, 25, 40, 60, 77, 77)
_CANDIDATES = 250
_OWN_LABEL = 2.5
"""Added to the logit of the text's own label: odds of twelve over a label that is as similar."""


class Alike:
    """Draws a text and options of any label sets, some near the text and some far."""

    def __init__(self, encoder: Path) -> None:
        every = (*load_families()[0].values(), *load_briefs()[0])
        families = [f for f in every if f.scene is None and not is_held_out(f.name)]
        choices = {f.name for f in families if f.kind == "choice" and "open" in f.flags}
        self._labels = sorted({name for f in families if f.name in choices for name in f.label_names()})
        self._labelled: list[tuple[str, frozenset[str]]] = []
        self._others: list[tuple[str, frozenset[str]]] = []
        for family in families:
            labelled = family.name in choices
            texts = self._labelled if labelled else self._others
            for option in family.options:
                own = frozenset(option.names() if labelled else ())
                texts += [(text, own) for text in option.texts if " ;; " not in text and " // " not in text]
        self._vectors = SentenceVectors(encoder)

    def draw(self, rng: random.Random) -> Example:
        """Return one example."""
        template, own = rng.choice(rng.choice((self._labelled, self._others)))
        text = expand(template, rng)
        vector = self._vectors.of(text)
        count = rng.choice(_SIZES)
        pool = rng.sample(range(len(self._labels)), min(len(self._labels), _CANDIDATES))
        near = max(1, round(count * rng.choice((0.2, 0.5, 0.8))))
        similar = self._matrix[pool] @ vector
        ranked = similar.argsort(descending=True).tolist()
        chosen = [pool[i] for i in ranked[:near] + rng.sample(ranked[near:], count - near)]
        if own and rng.random() < 0.7:
            right = self._labels.index(rng.choice(sorted(own)))
            chosen = [right, *(i for i in chosen if i != right)][:count]
        rng.shuffle(chosen)
        labels = [self._labels[i] for i in chosen]
        bonus = torch.tensor([_OWN_LABEL if label in own else 0.0 for label in labels])
        target = (self._matrix[chosen] @ vector * SCALE + bonus).double().softmax(-1).tolist()
        shown = spell_labels(labels, rng)
        wording = vary(rng.choice(_NEAREST + GENERIC_CHOICE), rng)
        question = {"type": "choice", "instructions": wording, "criteria": shown}
        return Example(text, question, tuple(target), "alike")

    @cached_property
    def _matrix(self) -> Tensor:
        return self._vectors.of_all(self._labels)
