"""Quality and speed on labelled texts; the table that users see is made from the same."""

from __future__ import annotations

import pytest

from laya._routing.evidence import count_words
from tests.routing_table import LANGUAGES, Row, load, measure, prose, timings_ms

_SLACK = 5
"""How much slower than required a shared test machine may be; an accidental quadratic is slower still."""


@pytest.fixture(scope="module")
def table() -> dict[str, Row]:
    """The measured rows by name."""
    return {row.texts: row for row in measure()}


def test_english_messages_stay(table: dict[str, Row]) -> None:
    """At most 2 % of four words and more leave the english checkpoint."""
    assert table["en, 4+ words"].share >= 0.98


@pytest.mark.parametrize("code", LANGUAGES)
def test_messages_in_other_languages_leave(table: dict[str, Row], code: str) -> None:
    """At least 98 % of four words and more."""
    assert table[f"{code}, 4+ words"].share >= 0.98


@pytest.mark.parametrize("code", ["en", *LANGUAGES])
def test_short_messages_are_right_or_left_to_the_default(table: dict[str, Row], code: str) -> None:
    """At least 85 %."""
    assert table[f"{code}, 1-3 words"].share >= 0.85


@pytest.mark.parametrize("group", ["several parts, multilingual", "several parts, english"])
def test_states_of_several_parts_go_where_their_parts_say(table: dict[str, Row], group: str) -> None:
    """Quoted paragraphs, fields, turns, logs, signatures and addresses."""
    assert table[group].share >= 0.95


def test_states_without_language_are_left_to_the_default(table: dict[str, Row]) -> None:
    """Numbers, addresses, code, markup, identifiers and keys."""
    assert table["no language in it"].share == 1.0


@pytest.mark.parametrize("model", ["english", "multilingual"])
def test_texts_that_nothing_was_fitted_to_do_as_well(table: dict[str, Row], model: str) -> None:
    """They were written after the thresholds were fixed."""
    assert table[f"held out, {model}"].share >= 0.98


def test_there_are_enough_texts() -> None:
    """A share of a handful would say nothing."""
    for code, least in {"en": 200, **dict.fromkeys(LANGUAGES, 40)}.items():
        words = [count_words(case["state"]) for case in load(code)]
        assert sum(count >= 4 for count in words) >= least
        assert sum(count < 4 for count in words) >= 10


@pytest.mark.parametrize("code", ["en", "de", "vi"])
def test_routing_is_fast(code: str) -> None:
    """A 2,000-character state takes at most 3 ms and one of 20 words at most 0.5 ms, on a machine at rest."""
    assert timings_ms(prose(code, chars=2_000), repeats=40)[0] < 3 * _SLACK
    assert timings_ms(prose(code, words=20), repeats=40)[0] < 0.5 * _SLACK


@pytest.mark.parametrize(
    "unit", ["a", "@", "<", "<a ", '"', "_", "`", "var ", "if (", "x=", '"a" ', "a.b", "π_", "{", "ı"]
)
def test_time_grows_with_length_only(unit: str) -> None:
    """No repeated sign makes a pattern search back and forth: sixteen times the text, not 256 times the time."""
    short, long = ((unit * size)[:size] for size in (2_000, 32_000))
    assert timings_ms(long, repeats=4)[0] < 150 * max(timings_ms(short, repeats=4)[0], 0.1)
