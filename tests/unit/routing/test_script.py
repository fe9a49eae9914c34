"""Scripts by Unicode's own property."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache

import pytest
import regex

from laya._routing import script
from tests.routing_table import decide

# Not one script each: shared marks and punctuation, and what is assigned to none.
_NO_SCRIPTS = {"COMMON", "INHERITED", "UNKNOWN", "KATAKANAORHIRAGANA"}


@cache
def _scripts() -> dict[str, str]:
    """Map every script that the library knows to a sample of its letters."""
    from regex._regex_core import PROPERTIES

    names: dict[int, str] = {}
    for name, value in PROPERTIES["SCRIPT"][1].items():
        names[value] = max(names.get(value, ""), name, key=len)
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1))))
    found = {
        name: "".join(regex.findall(rf"[\p{{Script={name}}}&&[\p{{L}}\p{{So}}]]", everything, regex.V1)[:12])
        for name in names.values()
        if name not in _NO_SCRIPTS
    }
    return {name: letters for name, letters in found.items() if letters}


def test_the_library_knows_the_scripts_of_unicode() -> None:
    """Unicode has had more than 160 scripts since version 14."""
    assert len(_scripts()) > 160


def test_no_text_in_another_script_stays_on_the_english_checkpoint() -> None:
    """Each script that Unicode has, living or not, leaves it."""
    stayed = [
        name
        for name, letters in _scripts().items()
        if name != "LATIN" and decide(f"{letters[:5]} {letters[5:]}").model != "multilingual"
    ]
    assert stayed == []


def test_a_single_letter_of_another_script_is_enough_where_nothing_else_is() -> None:
    """One sign can be a word."""
    stayed = [n for n, letters in _scripts().items() if n != "LATIN" and decide(letters[0]).model == "english"]
    assert stayed == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Привет", "cyrillic"),
        ("שלום", "hebrew"),
        ("سلام", "arabic"),
        ("नमस्ते", "devanagari"),
        ("ありがとう", "kana"),
        ("カタカナ", "kana"),
        ("谢谢", "han"),
        ("감사", "hangul"),
        ("ትግርኛ", "ethiopic"),
        ("ᐃᓄᒃᑎᑐᑦ", "canadian_aboriginal"),
        ("⠓⠑⠇⠇⠕", "braille"),
        ("𒀀𒁀", "other"),
        ("Ｆｕｌｌ", "latin"),
        ("straße", "latin"),
        ("2024 €", "unknown"),
        ("१२३", "unknown"),
        ("👍🏽", "unknown"),
    ],
)
def test_a_script_has_a_lower_case_name(text: str, name: str) -> None:
    """Names are Unicode's, but for kana, other and unknown."""
    assert script.dominant(script.count_scripts(text)) == name


def test_a_profile_gives_shares_largest_first() -> None:
    """Shares are of letters; digits, spaces and emoji don't count."""
    profile = script.profile(script.count_scripts("abc абв 123 👍 где"))
    assert list(profile.items()) == [("cyrillic", 0.6667), ("latin", 0.3333)]


def test_a_text_without_letters_has_an_empty_profile() -> None:
    """Nothing is divided by zero."""
    counts: Counter[str] = script.count_scripts("12 %")
    assert (script.profile(counts), script.non_latin_fraction(counts)) == ({}, 0.0)


@pytest.mark.parametrize(
    ("state", "model"),
    [
        ("The resistor has 5 kΩ, please check", "english"),
        ("Send the badge of 田中太郎 to the front desk today please", "english"),
        ("The meeting with Иван Петров was moved to Thursday afternoon", "english"),
        ("Customer: 我要退款", "multilingual"),
        (
            "A long English sentence goes on and on before someone says мне нужен возврат денег in it",
            "multilingual",
        ),
        ("𝐏𝐥𝐞𝐚𝐬𝐞 𝐫𝐞𝐟𝐮𝐧𝐝 𝐦𝐲 𝐨𝐫𝐝𝐞𝐫 𝐭𝐨𝐝𝐚𝐲", "english"),
    ],
)
def test_names_and_units_in_another_script_do_not_decide_but_clauses_do(state: str, model: str) -> None:
    """A foreign name in an English sentence leaves it English; a clause does not."""
    assert decide(state).model == model
