"""Temperatures of the checkpoint and of a language."""

from __future__ import annotations

from typing import Any

import pytest

from laya._pipeline.calibration import Temperatures, language_key, parse_lang_temperatures
from laya.errors import OptionError

CHECKPOINT = Temperatures((1.5, 1.2, 2.0), {"choice:3-5": 1.7, "noul:2": 1.9})


def test_a_buckets_temperature_goes_before_its_types() -> None:
    """Only the bucket of the question's own size counts."""
    assert CHECKPOINT.of("choice", 4) == 1.7
    assert CHECKPOINT.of("choice", 2) == 1.5
    assert CHECKPOINT.of("choice", 1) == 1.5
    assert CHECKPOINT.of("score", 4) == 1.2
    assert CHECKPOINT.of("noul", 2) == 1.9


def test_a_language_keeps_what_it_leaves_out() -> None:
    """Temperatures alone keep the checkpoint's buckets; buckets alone keep its temperatures."""
    parsed = parse_lang_temperatures(
        {"de": {"temperature": [3, 2.0, 1.0]}, "fr": {"temperature_by_options": {"choice:2": 4.0}}}, CHECKPOINT
    )
    assert [parsed["de"].of(kind, 2) for kind in ("choice", "score", "noul")] == [3.0, 2.0, 1.9]
    assert [parsed["fr"].of(kind, 2) for kind in ("choice", "score", "noul")] == [4.0, 1.2, 2.0]


def test_a_languages_temperatures_are_confined_with_one_warning() -> None:
    """As a checkpoint's are."""
    with pytest.warns(RuntimeWarning, match="lang_temperatures") as caught:
        parsed = parse_lang_temperatures(
            {"de": {"temperature": [0.1, 9, 1], "temperature_by_options": {"noul:2": float("nan")}}}, CHECKPOINT
        )
    assert len(caught) == 1
    assert parsed["de"] == Temperatures((0.5, 5.0, 1.0), {"noul:2": 1.0})


@pytest.mark.parametrize("code", ["de", "DE", "de-AT", "de_AT.UTF-8", " de "])
def test_a_language_is_its_first_subtag(code: str) -> None:
    """However the code is written."""
    assert language_key(code) == "de"


@pytest.mark.parametrize(
    "bad",
    [
        [],
        {"de": 1.5},
        {"de": {"temperature": 1.5}},
        {"de": {"temperature": [1.0, 1.0]}},
        {"de": {"temperature_by_options": [1.0]}},
        {"de": {"temperature_by_options": {"bogus": 1.0}}},
        {"de": {"bogus": 1.0}},
        {5: {"temperature": [1.0, 1.0, 1.0]}},
    ],
    ids=repr,
)
def test_bad_language_temperatures_are_refused(bad: Any) -> None:
    """At load, and by name."""
    with pytest.raises(OptionError, match="lang"):
        parse_lang_temperatures(bad, CHECKPOINT)


def test_none_sets_no_language() -> None:
    """The checkpoint's temperatures hold for all."""
    assert parse_lang_temperatures(None, CHECKPOINT) == {}
