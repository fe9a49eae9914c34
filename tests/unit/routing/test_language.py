"""What counts as evidence of a language, and what the identification answers."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from laya._routing import language
from laya._routing.evidence import MAX_CHARS, collect_segments
from tests.routing_table import decide, load


def _prose(state: object) -> list[str]:
    return [segment.prose for segment in collect_segments(state)]


@pytest.mark.parametrize(
    ("state", "prose"),
    [
        ("see https://example.it/errore/di/sistema please", ["see please"]),
        ("write to ordini@negozio.it or @mario now", ["write to or now"]),
        ("call `SELECT nome FROM utenti` again", ["call again"]),
        ("before\n```\nich bin Code\n```\nafter", ["before", "after"]),
        ("<p>Hallo <b>Welt</b></p>", ["Hallo Welt"]),
        ("field order_id and orderId and INV-22 gone", ["field and and gone"]),
        ("the VPN and SAP login", ["the and login"]),
        ("    at com.acme.Main.main(Main.java:31)", []),
        ('  File "rechnung.py", line 3, in lade', []),
        ("def berechne(betrag):", []),
        ("Subject: keine Antwort", ["keine Antwort"]),
        ("ICH WARTE NOCH", ["ich warte noch"]),
        ("请看https://example.com/x谢谢", ["请看 谢谢"]),
    ],
)
def test_only_prose_is_evidence(state: str, prose: list[str]) -> None:
    """Addresses, code, markup, identifiers, acronyms and labels are left out."""
    assert _prose(state) == prose


@pytest.mark.parametrize("state", [{"betreff": "no money yet"}, '{"betreff": "no money yet"}', 'x {"betreff": "no"'])
def test_keys_are_no_evidence(state: object) -> None:
    """Neither of a dict, nor of JSON as text, nor of a fragment of it."""
    assert "betreff" not in " ".join(_prose(state))


def test_a_place_names_the_line_or_field() -> None:
    """A reason can say where the other language is without repeating the text."""
    assert [segment.place for segment in collect_segments("one more\n\nthird line")] == ["line 1", "line 3"]
    nested = {"a": {"b": ["first text", "second text"]}}
    assert [segment.place for segment in collect_segments(nested)] == ["field 'a.b[1]'", "field 'a.b[0]'"]


def test_fields_of_one_word_count_only_where_no_field_says_more() -> None:
    """A status or a role is not what the ticket says."""
    assert _prose({"status": "open", "text": "wo ist es"}) == ["wo ist es"]
    assert _prose({"status": "open"}) == ["open"]


def test_of_a_long_conversation_the_newest_turns_are_read() -> None:
    """The model keeps those too."""
    old = {"role": "user", "content": "alte Nachricht " * (MAX_CHARS // 10)}
    assert decide([old, "please refund the order that I made " * (MAX_CHARS // 30)]).model == "english"


def test_values_other_than_text_are_no_evidence() -> None:
    """Numbers, truth values, nothing and cycles are passed over."""
    cycle: dict[str, object] = {"n": 1, "b": True, "none": None}
    cycle["self"] = cycle
    assert collect_segments(cycle) == []


@pytest.mark.parametrize(
    ("prose", "words", "expected"),
    [
        ("please send me a new invoice", 6, "en"),
        ("bitte senden Sie mir eine neue Rechnung", 7, "de"),
        ("Invoice from Société Générale still unpaid", 6, "en"),
        ("ok", 1, None),
        ("", 0, None),
    ],
)
def test_an_identification_is_a_code_or_none(prose: str, words: int, expected: str | None) -> None:
    """None where the text says too little."""
    assert language.identify(prose, words).language == expected


@pytest.mark.parametrize("code", language._COMMON - {"en"})
def test_every_common_language_is_one_that_the_model_knows(code: str) -> None:
    """A code that the model has not would be dropped unseen."""
    assert code in language._identifier().nb_classes


def test_one_line_in_another_language_is_named() -> None:
    """`mixed_segment` holds the line, and the reason says where it is."""
    decision = decide(
        "The customer sent this, can you answer him?\n"
        "Leider habe ich die Ware noch nicht bekommen.\n"
        "He is waiting since Monday."
    )
    assert decision.model == "multilingual"
    assert decision["detection"]["mixed_segment"] == "Leider habe ich die Ware noch nicht bekommen."
    assert decision["detection"]["language"] == "de"
    assert "line 2" in decision.reason and "Ware" not in decision.reason


@pytest.mark.parametrize("case", [case for case in load("mixed") if case.get("mixed")], ids=lambda case: case["mixed"])
def test_the_part_that_decided_is_in_mixed_segment(case: dict[str, object]) -> None:
    """Quoted paragraphs, fields and turns in another language."""
    assert str(case["mixed"]) in decide(case["state"])["detection"]["mixed_segment"]


def test_a_text_in_one_language_has_no_mixed_segment() -> None:
    """Neither English nor another."""
    for state in (
        "Please refund me.\nI am waiting since May.",
        "Ich warte auf mein Geld.\nWann kommt es endlich?",
    ):
        assert decide(state)["detection"]["mixed_segment"] is None


def test_a_name_or_an_address_is_no_other_language() -> None:
    """Lines of capitalised words don't make an English mail foreign."""
    assert decide("Please ship it to:\nMaría del Carmen López\nCalle de Alcalá\nThank you!").model == "english"


def test_the_diacritic_rate_is_of_latin_letters() -> None:
    """Letters that English hasn't, over all Latin ones."""
    assert decide("éé aa бб")["detection"]["diacritic_rate"] == 0.5


def test_routing_twice_from_many_threads_gives_the_same() -> None:
    """The model is loaded once, and only read."""
    states = [case["state"] for case in load("de")[:20] + load("en")[:20]]
    expected = [decide(state) for state in states]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(decide, states * 5)) == expected * 5


def test_the_model_is_loaded_by_the_first_text_that_needs_it_once() -> None:
    """Not on import; sixteen threads at once make one."""
    code = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from laya._routing import language, rules
assert "py3langid" not in sys.modules and "numpy" not in sys.modules, "loaded on import"
barrier = Barrier(16)
def first(_):
    barrier.wait()
    return id(language._identifier())
with ThreadPoolExecutor(16) as pool:
    assert len(set(pool.map(first, range(16)))) == 1
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=100)
