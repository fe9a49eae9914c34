"""The label sets that laya-mini is trained on, and the decisions it is evaluated on."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from laya._pipeline.questions import parse_questions
from training.brief import load_briefs
from training.builders.authored import Authored
from training.family import FamilyError, load_families
from training.phrasing import spell_labels

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


def test_evaluated_texts_are_not_trained_on(families: list, decisions: list[dict]) -> None:
    """Nor are the label sets of briefs evaluated."""
    briefs, claims = load_briefs()
    trained = {text.lower() for family in (*families, *briefs) for option in family.options for text in option.texts}
    trained |= {claim.text.lower() for claim in claims}
    states = [decision["state"] for decision in decisions]
    assert [state for state in states if isinstance(state, str) and state.lower() in trained] == []
    label_sets = {frozenset(label.lower() for label in labels) for f in briefs for labels in _label_sets(f)}
    asked = [d["question"]["criteria"] for d in decisions if d["question"]["type"] == "choice"]
    assert [labels for labels in asked if frozenset(label.lower() for label in labels) in label_sets] == []


@pytest.mark.parametrize("held_out", [False, True])
def test_what_is_drawn_can_be_asked(held_out: bool) -> None:
    """However labels are spelled and lists are joined, the runtime takes the question."""
    drawn, rng = Authored(held_out), random.Random(5)
    for _ in range(3000):
        parse_questions({"q": drawn.draw(rng).question})


def test_no_spelling_makes_two_labels_one() -> None:
    """Such a list keeps the labels as they are written."""
    labels = ["refund status", "refund_status", "other"]
    assert all(len(set(spell_labels(labels, random.Random(seed)))) == 3 for seed in range(60))


def test_briefs_are_broad() -> None:
    """Hundreds of label sets of each kind that has one, each with texts for both sides."""
    briefs, claims = load_briefs()
    kinds = Counter(family.kind for family in briefs)
    assert min(kinds["noul"], kinds["choice"], kinds["score"]) >= 100 and len(claims) >= 300


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("=== odd\n? Which?\n", "a block is one of"),
        ("=== noul\n? Is it?\n+ yes\n", "texts for each"),
        ("=== choice\n? Which?\nno option yet\n", "can't read"),
        ("=== claims\n: A text.\n+ It is.\n", "some that hold and some that don't"),
    ],
)
def test_a_malformed_brief_names_its_line(text: str, problem: str, tmp_path: Path, monkeypatch: Any) -> None:
    """So that its writer finds it."""
    (tmp_path / "bad.txt").write_text(text)
    monkeypatch.setattr("training.brief._FOLDER", tmp_path)
    with pytest.raises(FamilyError, match=rf"bad\.txt:1: .*{problem}"):
        load_briefs.__wrapped__()


def _label_sets(family: object) -> list[list[str]]:
    options = family.options  # type: ignore[attr-defined]
    widest = max((len(option.labels) for option in options), default=0)
    return [[option.labels[min(i, len(option.labels) - 1)] for option in options] for i in range(widest)]
