"""A selector's choices as laya questions, and answers as probabilities of choices."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.tools import ToolMetadata

from laya_integrations._decisions import Decision
from laya_integrations.llama_index._choices import Choices, read_the_same

NAMES = ["search", None, "search", " ", "no. 1", "no. 1 (2)"]


def choices(*names: str | None) -> Choices:
    """Choices with these names, each described by its position."""
    return Choices.read([ToolMetadata(name=name, description=f"no. {i}") for i, name in enumerate(names)])


def answered(answers: dict[str, Any], **result: Any) -> Decision:
    """A decision with these answers."""
    return Decision({"answers": answers, **result}, "run")


def test_every_choice_has_a_label_of_its_own() -> None:
    """Who has no name, or shares it, is labelled by all that it says; where that is another's, it gets a number."""
    labels = choices(*NAMES).labels
    assert labels == ("search: no. 0", "no. 1", "search: no. 2", "no. 3", "no. 1 (3)", "no. 1 (2)")
    alike = Choices.read(
        [ToolMetadata(name=None, description="a: b"), *([ToolMetadata(name="a", description="b")] * 2)]
    )
    assert alike.labels == ("a: b", "a", "a")
    doubled = [ToolMetadata(name="a", description=text) for text in ("b", "c")]
    assert Choices.read([*doubled, ToolMetadata(description="a: b")]).labels == ("a: b", "a: c", "a: b (2)")


def test_choices_that_say_the_same_are_asked_about_once() -> None:
    """In either kind of question, and each gets the answer; a name that two share alone is still a name."""
    a, b = ToolMetadata(name="a", description="x"), ToolMetadata(name="b", description="y")
    read = Choices.read([a, b, a])
    assert (len(read), read.distinct) == (3, 2)
    assert read.compare("?", None)["select"]["criteria"] == {"a": "x", "b": "y"}
    compared = read.compared(answered({"select": {"probabilities": {"a": 0.6, "b": 0.4}}}))
    assert (compared.probabilities, compared.ranked()) == ([0.6, 0.4, 0.6], [0, 2, 1])
    assert list(read.each("Fits?")) == ["select_0", "select_1"]
    low = {"noul": 0.7, "low_confidence": True}
    judged = read.judged(answered({"select_0": low, "select_1": {"noul": 0.2}}))
    assert (judged.probabilities, judged.unsure) == ([0.7, 0.2, 0.7], {0, 2})


def test_none_is_told_from_no_such_option() -> None:
    """Its probability may round to 0, which is not the same as its not having been asked about."""
    read = choices("a", "b")
    given = {"a": 0.6, "b": 0.4}
    assert read.compared(answered({"select": {"probabilities": given}})).none is None
    assert read.compared(answered({"select": {"probabilities": {**given, "none of these": 0.0}}})).none == 0.0
    assert read.judged(answered({"select_0": {"noul": 0.6}, "select_1": {"noul": 0.4}})).none is None


@pytest.mark.parametrize("names", [NAMES, ["none of these", "none of these"], [None] * 80])
def test_an_answer_maps_back_to_the_index(names: list[str | None]) -> None:
    """The option of position i is the choice of index i, whatever the names are."""
    read = choices(*names)
    criteria = read.compare("?", "no other")["select"]["criteria"]
    assert len(criteria) == len(names) + 1
    for i, (label, text) in enumerate(list(criteria.items())[:-1]):
        assert f"no. {i}" in (text or label)
    given = {label: i / 100 for i, label in enumerate(criteria)}
    standing = read.compared(answered({"select": {"probabilities": given}}))
    assert standing.probabilities == [i / 100 for i in range(len(names))]
    assert standing.none == len(names) / 100


def test_a_choice_is_asked_about_by_its_own_words() -> None:
    """A number made up for a missing name is not shown."""
    asked = Choices.read([ToolMetadata(name="a", description="b"), ToolMetadata(description="c")]).each("Fits?")
    assert [question["instructions"] for question in asked.values()] == ["Fits? a: b", "Fits? c"]
    bare = Choices.read([ToolMetadata(name="a", description="")])
    assert bare.each("Fits?")["select_0"]["instructions"] == "Fits? a"
    assert bare.compare("?", None)["select"]["criteria"] == {"a": None}


def test_the_most_probable_comes_first() -> None:
    """Of equal choices the first does."""
    answers = {f"select_{i}": {"noul": p} for i, p in enumerate([0.2, 0.7, 0.7])}
    assert choices("a", "b", "c").judged(answered(answers)).ranked() == [1, 2, 0]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "no answer to 'select'"),
        ({"select": None}, "no answer to 'select'"),
        ({"select": {"probabilities": {"a": 1.0}}}, "lacks the probability of a choice"),
        ({"select": {}}, "lacks the probability of a choice"),
        ({"select": {"probabilities": {"a": float("nan"), "b": 0.5}}}, "no number in 0 to 1"),
        ({"select": {"probabilities": {"a": "much", "b": 0.5}}}, "no number in 0 to 1"),
        ({"select": {"probabilities": {"a": 1.5, "b": 0.5}}}, "no number in 0 to 1"),
    ],
)
def test_an_answer_that_fits_no_choice_is_an_error(answers: dict[str, Any], said: str) -> None:
    """Rather than the selection of some engine."""
    with pytest.raises(ValueError, match=said):
        choices("a", "b").compared(answered(answers))


def test_choices_without_text_are_refused() -> None:
    """The model would pick by position."""
    with pytest.raises(ValueError, match=r"choices\[1\] has neither"):
        Choices.read([ToolMetadata(name="a", description=""), ToolMetadata(description=" ")])
    with pytest.raises(ValueError, match="choices is empty"):
        Choices.read([])


def test_collisions_of_another_question_do_not_count() -> None:
    """laya reports options that read the same by question id."""
    assert read_the_same(answered({}, usage={"options": {"select": {"total": 3, "distinct": 2}}}))
    assert not read_the_same(answered({}, usage={"options": {"other": {}}}))
    assert not read_the_same(answered({}, usage={"input_tokens": 3}))
    assert not read_the_same(answered({}))


def test_a_choice_is_called_by_its_name_or_first_words() -> None:
    """A reason stays one short line."""
    read = Choices.read([ToolMetadata(name="a", description="b"), ToolMetadata(description="many\nwords " * 40)])
    assert read.called(0) == "'a'" and len(read.called(1)) <= 62 and "\n" not in read.called(1)
