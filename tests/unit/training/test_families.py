"""The label sets that laya-mini is trained on, and the decisions it is evaluated on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laya._pipeline.questions import parse_questions
from training.family import load_families

EVALUATION = Path(__file__).parents[3] / "training" / "eval"


@pytest.fixture(scope="module")
def families() -> list:
    """Every family, the scenes' ones included."""
    return list(load_families()[0].values())


@pytest.fixture(scope="module")
def decisions() -> list[dict]:
    """Every decision of every suite."""
    return [json.loads(line) for path in sorted(EVALUATION.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_there_is_breadth(families: list) -> None:
    """At least 150 label sets, under names of their own."""
    assert len({family.name for family in families}) == len(families) >= 150


def test_every_yes_no_question_has_many_wordings(families: list) -> None:
    """Ten wordings and more, so that no single one is learned."""
    assert [f.name for f in families if f.kind == "noul" and len(f.wordings) + len(f.negations) < 10] == []


def test_every_option_has_texts(families: list) -> None:
    """An option without texts is never the right answer."""
    assert [(f.name, o.labels[0]) for f in families for o in f.options if not f.scene and not o.texts] == []


def test_every_decision_can_be_asked(decisions: list[dict]) -> None:
    """The runtime accepts each question, and the answer is one of its own."""
    assert len(decisions) >= 600
    for decision in decisions:
        (question,) = parse_questions({"q": decision["question"]})
        answer = decision["answer"]
        if question.kind == "noul":
            assert isinstance(answer, bool)
        elif question.kind == "score":
            assert answer in range(len(question.labels))
        else:
            assert answer in question.labels


def test_evaluated_label_sets_are_not_trained_on(families: list, decisions: list[dict]) -> None:
    """No choice of the evaluation has the labels of a family."""
    trained = {frozenset(label.lower() for label in labels) for f in families for labels in _label_sets(f)}
    asked = {
        frozenset(str(label).lower() for label in decision["question"]["criteria"])
        for decision in decisions
        if decision["question"]["type"] == "choice" and decision["suite"] != "wordings"
    }
    assert asked.isdisjoint(trained)


def _label_sets(family: object) -> list[list[str]]:
    options = family.options  # type: ignore[attr-defined]
    widest = max((len(option.labels) for option in options), default=0)
    return [[option.labels[min(i, len(option.labels) - 1)] for option in options] for i in range(widest)]
