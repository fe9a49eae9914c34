"""Precedence, names, language codes, workflows and decisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laya._checkpoints.catalog import Catalog
from laya._routing import RouteDecision, route
from laya._routing.rules import WORKFLOWS

CASES = json.loads((Path(__file__).parents[2] / "data" / "cases" / "route.json").read_text("utf-8"))
CATALOG = Catalog.build()
ENGLISH = "Please refund the duplicate charge"
ITALIAN = "Vorrei sapere quando arriva il mio ordine"
INVOICE = dict.fromkeys(("discrepancy_severity", "disposition", "duplicate", "matches_order", "urgency"))


def _route(state: object = ENGLISH, questions: object = None, **options: Any) -> RouteDecision:
    return route(state, questions, catalog=options.pop("catalog", CATALOG), **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_published_cases_are_routed_as_published(case: dict[str, Any]) -> None:
    """Model, workflow, whether detection ran, and the script."""
    arguments = {**case["args"], **case.get("router", {})}
    decision = _route(arguments.pop("state"), arguments.pop("questions", None), **arguments)
    detection = decision["detection"]
    assert decision.model == case["model"]
    assert decision["workflow"] == case["workflow"]
    assert (detection is not None) == case["detected"]
    if case.get("script"):
        assert detection["script"] == case["script"]


PRECEDENCE: list[tuple[str, Any, str]] = [
    ("model", "multilingual", "multilingual"),
    ("task", "typed", "typed-decisions"),
    ("auto_task_detection", True, "typed-decisions"),
    ("lang", "de", "multilingual"),
    ("lang_guess", "en", "english"),
    ("default_guess", "fr", "multilingual"),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_earlier_of_two_rules_decides(first: int) -> None:
    """model > task > workflow > lang > the call's guess > the Router's guess > the text."""
    options = {name: value for name, value, _ in PRECEDENCE[first:]}
    decision = _route(ENGLISH, INVOICE, **options)
    assert decision.model == PRECEDENCE[first][2]
    assert decision["detection"] is None


@pytest.mark.parametrize(
    ("earlier", "later", "model"),
    [
        ({"model": "en"}, {"task": "ml"}, "english"),
        ({"task": "ml"}, {"auto_task_detection": True}, "multilingual"),
        ({"auto_task_detection": True}, {"lang": "en"}, "typed-decisions"),
        ({"lang": "en"}, {"lang_guess": "de"}, "english"),
        ({"lang_guess": "en"}, {"default_guess": "de"}, "english"),
        ({"default_guess": "de"}, {}, "multilingual"),
    ],
)
def test_neighbouring_rules_are_in_order(earlier: dict[str, Any], later: dict[str, Any], model: str) -> None:
    """Each pair decides differently, so that a swap shows."""
    assert _route(ENGLISH, INVOICE, **earlier, **later).model == model


def test_the_text_decides_before_the_default() -> None:
    """`default` is for states that say nothing."""
    assert _route(ITALIAN, default="english").model == "multilingual"
    assert _route(ENGLISH, default="multilingual").model == "english"
    assert _route("12345", default="typed").model == "typed-decisions"
    assert _route("12345").model == "english"


@pytest.mark.parametrize("code", ["en", "EN", " en ", "eng", "English", "en-GB", "en_US.UTF-8", "en@shaw", "en.UTF-8"])
def test_these_codes_mean_english(code: str) -> None:
    """The first subtag counts, whatever its case."""
    assert _route(ITALIAN, lang=code).model == "english"


@pytest.mark.parametrize("code", ["de", "pt-BR", "zh_Hans", "enm", "engl", "ro_RO.UTF-8", "xx"])
def test_other_codes_mean_multilingual(code: str) -> None:
    """Also codes that nobody knows."""
    assert _route(ENGLISH, lang=code).model == "multilingual"


@pytest.mark.parametrize("code", ["", "  ", "C", "C.UTF-8", "POSIX", "und", "zxx", "mul", "und-Latn", None])
@pytest.mark.parametrize("option", ["lang", "lang_guess", "default_guess"])
def test_codes_that_say_nothing_leave_it_to_the_next_rule(option: str, code: str | None) -> None:
    """The text is looked at."""
    assert _route(ITALIAN, **{option: code}).model == "multilingual"
    assert _route(ENGLISH, **{option: code})["detection"] is not None


def test_a_guess_may_be_a_function_of_the_state() -> None:
    """It gets the state as given, only when its turn comes."""
    seen: list[object] = []

    def guess(state: object) -> str:
        seen.append(state)
        return "de"

    state = {"text": ENGLISH}
    assert _route(state, lang_guess=guess).model == "multilingual"
    assert seen == [state] and seen[0] is state
    _route(state, lang="en", lang_guess=guess)
    assert len(seen) == 1


@pytest.mark.parametrize("silent", [lambda state: None, lambda state: "und"])
def test_the_routers_guess_is_asked_where_the_calls_says_nothing(silent: Callable[[object], Any]) -> None:
    """None and silent codes are no answer."""
    assert _route(ENGLISH, lang_guess=silent, default_guess="de").model == "multilingual"


def test_what_a_guess_raises_goes_through() -> None:
    """The caller's own error is the clearest."""

    def broken(state: object) -> str:
        raise KeyError("language")

    with pytest.raises(KeyError, match="language"):
        _route(lang_guess=broken)


def test_a_guess_that_returns_no_string_is_refused() -> None:
    """The message names the option and the type."""
    with pytest.raises(ValueError, match=r"lang_guess returned.*int"):
        _route(lang_guess=lambda state: 5)


@pytest.mark.parametrize("option", ["lang", "lang_guess", "default_guess"])
def test_a_language_that_is_no_string_is_refused_whatever_decides(option: str) -> None:
    """Also where `model` has decided already."""
    with pytest.raises(ValueError, match=r"lang.*language code.*int"):
        _route(model="english", **{option: 5})


@pytest.mark.parametrize("option", ["model", "task", "default"])
@pytest.mark.parametrize("name", ["nope", "", 5])
def test_an_unknown_name_is_refused_with_the_choices(option: str, name: object) -> None:
    """In `task` and `default` too."""
    with pytest.raises(ValueError, match=rf"{option}=.*english, multilingual, typed-decisions"):
        _route(**{option: name})


def test_no_state_is_a_type_error() -> None:
    """None is not an empty state."""
    with pytest.raises(TypeError, match="state is None"):
        _route(None, model="english")


@pytest.mark.parametrize(("ids", "workflow"), WORKFLOWS.items(), ids=WORKFLOWS.values())
def test_a_workflow_is_known_by_exactly_its_question_ids(ids: frozenset[str], workflow: str) -> None:
    """One more or one less is another set; it's named also where it does not decide."""
    questions = dict.fromkeys(ids)
    assert _route(questions=questions)["workflow"] == workflow
    assert _route(questions=questions).model == "english"
    assert _route(questions=questions, model="ml")["workflow"] == workflow
    assert _route(questions=questions, auto_task_detection=True).model == "typed-decisions"
    assert _route(questions={**questions, "more": None}, auto_task_detection=True)["workflow"] is None
    questions.popitem()
    assert _route(questions=questions, auto_task_detection=True)["workflow"] is None


def test_questions_that_are_no_mapping_match_no_workflow() -> None:
    """They're checked elsewhere; routing doesn't fail on them."""
    assert _route(questions=None)["workflow"] is None
    assert _route(questions={1: None, ("a",): None})["workflow"] is None


def test_a_decision_is_a_dict_with_five_keys_and_two_attributes() -> None:
    """All five are always there, and it survives JSON."""
    for decision in (_route(), _route(model="ml"), _route("12")):
        assert list(decision) == ["model", "repo", "reason", "detection", "workflow"]
        assert (decision.model, decision.reason) == (decision["model"], decision["reason"])
        assert json.loads(json.dumps(decision)) == decision


def test_a_detection_has_eight_keys() -> None:
    """Whatever was found."""
    keys = [
        "script",
        "script_profile",
        "language",
        "is_english",
        "language_undecided",
        "diacritic_rate",
        "non_latin_fraction",
        "mixed_segment",
    ]
    for state in (ENGLISH, ITALIAN, "12", "Привет, как дела"):
        assert list(_route(state)["detection"]) == keys


@pytest.mark.parametrize(
    ("state", "is_english", "undecided"),
    [(ENGLISH, True, False), (ITALIAN, False, False), ("12", None, True), ("Привет, как дела", False, True)],
)
def test_is_english_is_none_without_evidence(state: str, is_english: bool | None, undecided: bool) -> None:
    """A script that is not Latin is not English, though its language isn't identified."""
    detection = _route(state)["detection"]
    assert (detection["is_english"], detection["language_undecided"]) == (is_english, undecided)


def test_the_repo_is_where_the_catalog_says() -> None:
    """A subfolder is part of it; re-pointed and added names count."""
    assert _route(model="en")["repo"] == "convaiinnovations/laya"
    assert _route(model="ml")["repo"] == "convaiinnovations/laya/multilingual"
    alone = Catalog.build(standalone_repos=True)
    assert _route(model="ml", catalog=alone)["repo"] == "convaiinnovations/laya-multilingual"
    added = Catalog.build({"mine": ("org/repo", "sub"), "multilingual": "/models/ml"})
    assert _route(model="MINE", catalog=added)["repo"] == "org/repo/sub"
    assert _route(ITALIAN, catalog=added)["repo"] == "/models/ml"


def test_reasons_never_hold_the_states_text() -> None:
    """They're logged and traced more widely than states."""
    for state in (ITALIAN, f"{ENGLISH} today.\n{ITALIAN}", {"note": ENGLISH, "body": "Где мой заказ номер"}):
        reason = _route(state).reason
        assert not any(word in reason for word in ("ordine", "refund", "заказ"))
