"""Requests to a Router: what is refused, and which may share a pass."""

from __future__ import annotations

from typing import Any

import pytest

from laya import Router
from laya._requests import Request, group_contexts, parse_requests
from laya.errors import LayaError, OptionError, StateError
from laya.hooks import PredictContext
from laya.testing import FakeRunner

URGENT = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}
TEAM = {"team": {"type": "choice", "instructions": "Which team?", "criteria": ["billing", "support"]}}
GOOD = {"state": "Where is my order?", "questions": URGENT}


def test_a_request_is_read_with_all_its_options() -> None:
    """The question dict stays the caller's own object: hooks may change a shared one."""
    options = {"model": "ml", "task": None, "lang": "de", "lang_guess": "fr", "max_len": 90, "head_max_len": 40}
    (request,) = parse_requests([GOOD | options])
    assert request == Request("Where is my order?", URGENT, **options)  # type: ignore[arg-type]
    assert request.questions is URGENT


@pytest.mark.parametrize("empty", [[], ()])
def test_no_requests_are_none(empty: Any) -> None:
    """A list and a tuple are both taken."""
    assert parse_requests(empty) == []


def test_question_models_are_lowered() -> None:
    """Hooks and grouping see dicts, whatever the caller wrote."""
    from pydantic import BaseModel, Field

    from laya.questions import Noul

    class Ticket(BaseModel):
        urgent: bool = Field(description="Is it urgent?")

    first, second = parse_requests(
        [
            {"state": "s", "questions": {"urgent": Noul(instructions="Is it urgent?")}},
            {"state": "s", "questions": Ticket},
        ]
    )
    assert first.questions["urgent"]["type"] == second.questions["urgent"]["type"] == "noul"
    assert isinstance(first.questions["urgent"], dict)


@pytest.mark.parametrize("requests", [GOOD, "abc", None, 5, iter([GOOD]), {"a": GOOD}])
def test_other_than_a_list_is_a_type_error(requests: Any) -> None:
    """A single dict is the likeliest slip; the message names the call for it."""
    with pytest.raises(TypeError, match=r"requests must be a list.*predict\(\)"):
        parse_requests(requests)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (None, TypeError, r"requests\[1\]: must be a dict with 'state' and 'questions', got NoneType"),
        (["s", URGENT], TypeError, r"requests\[1\].*got list"),
        ({}, OptionError, r"requests\[1\]: lacks 'state'"),
        ({"state": "s"}, OptionError, r"requests\[1\]: lacks 'questions'"),
        ({"questions": URGENT}, OptionError, r"requests\[1\]: lacks 'state'"),
        ({**GOOD, "modle": "ml"}, OptionError, r"requests\[1\]: has the unknown key 'modle'"),
        ({**GOOD, "state": None}, StateError, r"requests\[1\]: state is None"),
        ({**GOOD, "questions": None}, TypeError, r"requests\[1\]: questions must be a dict"),
        ({**GOOD, "questions": [1]}, TypeError, r"requests\[1\]: questions must be a dict"),
    ],
)
def test_a_malformed_request_is_named(bad: Any, error: type[Exception], message: str) -> None:
    """By its place in the list, and by what is wrong with it."""
    with pytest.raises(error, match=message) as caught:
        parse_requests([GOOD, bad, GOOD])
    assert isinstance(caught.value, LayaError | TypeError)
    assert "Where is my order?" not in str(caught.value)


def test_an_unknown_key_lists_the_known_ones() -> None:
    """So that a misspelt option is found at once."""
    with pytest.raises(ValueError, match="state, questions, model, task, lang, lang_guess, max_len, head_max_len"):
        parse_requests([{**GOOD, "budget": 5}])


def context(questions: Any = None, **budgets: Any) -> PredictContext:
    """The context of a request."""
    return PredictContext(["s"], URGENT if questions is None else questions, **budgets)


def grouped(*contexts: PredictContext, languages: tuple[str | None, ...] = ()) -> list[list[int]]:
    """Which contexts, by position, go together."""
    spoken = dict(zip(contexts, languages or [None] * len(contexts), strict=True))
    places = {ctx: place for place, ctx in enumerate(contexts)}
    return [[places[ctx] for ctx in group] for group in group_contexts(contexts, spoken)]


def test_equal_questions_and_budgets_share_a_group() -> None:
    """Whether or not they are the same object; groups and members keep their order."""
    copy = {"urgent": dict(URGENT["urgent"])}
    assert grouped(context(TEAM), context(), context(copy), context(TEAM)) == [[0, 3], [1, 2]]
    assert grouped() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (context({**URGENT, **TEAM}), context({**TEAM, **URGENT})),
        (context({"q": {"type": "noul", "instructions": "A"}}), context({"q": {"instructions": "A", "type": "noul"}})),
        (context({"q": {"criteria": ["a", "b"]}}), context({"q": {"criteria": ["b", "a"]}})),
        (context({"q": {"criteria": ["a", "b"]}}), context({"q": {"criteria": ("a", "b")}})),
        (context({"q": {"criteria": [1]}}), context({"q": {"criteria": [True]}})),
        (context({"q": {"criteria": [1]}}), context({"q": {"criteria": [1.0]}})),
        (context({"q": {"criteria": [1]}}), context({"q": {"criteria": ["1"]}})),
        (context({1: {}}), context({"1": {}})),
        (context({"q": {}}), context({})),
        (context(max_len=90), context()),
        (context(max_len=90), context(max_len=91)),
        (context(max_len=90), context(head_max_len=90)),
        (context(max_len=1), context(max_len=True)),
        (context(max_len=90), context(max_len=90.0)),
    ],
)
def test_what_differs_in_any_way_is_another_group(one: PredictContext, other: PredictContext) -> None:
    """Also where `==` sees no difference: order, and the type of a number."""
    assert grouped(one, other) == [[0], [1]]


def test_languages_split_a_group() -> None:
    """A language may have temperatures of its own."""
    assert grouped(context(), context(), context(), languages=("de", None, "de")) == [[0, 2], [1]]


def test_values_that_cannot_be_hashed_are_compared_by_identity() -> None:
    """They are refused later, by question parsing; here they only must not break."""
    shared: Any = {"q": {"criteria": {1, 2}}}
    assert grouped(context(shared), context(shared), context({"q": {"criteria": {1, 2}}})) == [[0, 1], [2]]
    assert grouped(context(max_len=[1]), context()) == [[0], [1]]


def test_deeply_nested_questions_are_compared_by_identity() -> None:
    """Nobody shares them, and comparing them would leave no stack to the call."""

    def nested(levels: int) -> dict[str, Any]:
        inner: Any = "x"
        for _ in range(levels):
            inner = {"k": inner}
        return {"q": {"type": "choice", "instructions": "Which?", "criteria": {"a": inner, "b": None}}}

    deep = nested(400)
    assert grouped(context(deep), context(nested(400)), context(deep)) == [[0, 2], [1]]
    assert grouped(context(nested(30)), context(nested(30))) == [[0, 1]]
    endless: dict[str, Any] = {}
    endless["q"] = [endless, endless]
    assert grouped(context(endless), context(endless)) == [[0, 1]]
    router = Router()
    router.attach("english", FakeRunner({"q": "b"}))
    results = router.predict_batch([{"state": "s", "questions": questions} for questions in (deep, nested(400))])
    assert [result["answers"]["q"]["choice"] for result in results] == ["b", "b"]


def test_a_hook_may_change_a_run_id() -> None:
    """A context is told apart by itself, not by what hooks can write to."""
    first, second = context(), context()
    languages = {first: "de", second: None}
    first.run_id = second.run_id = "the caller's own"
    assert group_contexts([first, second], languages) == [[first], [second]]


def test_the_calls_language_is_for_requests_without_one() -> None:
    """A request's own language goes first."""
    questions = {"q": {"type": "noul", "instructions": "?"}}
    requests = [{"state": "a", "questions": questions}, {"state": "b", "questions": questions, "lang": "en"}]
    assert [request.lang for request in parse_requests(requests, "de")] == ["de", "en"]
