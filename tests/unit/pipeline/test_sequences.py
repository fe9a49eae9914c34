"""Token layouts, computed by hand from the tokenizer's own pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laya._pipeline.questions import Question, parse_questions
from laya._pipeline.sequences import Budgets, Head, build_head, sequence_ids
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import OptionError, QuestionError


def question(**definition: object) -> Question:
    """One parsed question."""
    (parsed,) = parse_questions({"q": {"instructions": "Which one?", **definition}})
    return parsed


def head_of(tokenizer: TextTokenizer, asked: Question, max_len: int = 160, head_max_len: int = 64) -> Head:
    """The head of a question within budgets."""
    return build_head(asked, tokenizer.encode, tokenizer.special, Budgets(max_len, head_max_len))


def numbered(count: int) -> Question:
    """A choice of so many options of several tokens each."""
    return question(type="choice", criteria=[f"option number {i} of the many" for i in range(count)])


@pytest.mark.parametrize("which", ["english", "multilingual"])
def test_head_is_cls_prompt_sep_options_sep(which: str, request: pytest.FixtureRequest) -> None:
    """Each option is a MASK and its text with a leading blank."""
    tokenizer: TextTokenizer = request.getfixturevalue(which)
    special = tokenizer.special
    head = head_of(tokenizer, question(type="choice", criteria={"billing": "invoices", "other": None}))
    prompt, first, second = tokenizer.encode(["choice question: Which one?", " billing: invoices", " other"])
    expected = [special.cls, *prompt, special.sep, special.mask, *first, special.mask, *second, special.sep]
    assert head.ids.tolist() == expected
    assert head.markers.tolist() == [len(prompt) + 2, len(prompt) + 3 + len(first)]
    assert [expected[i] for i in head.markers] == [special.mask] * 2
    assert head.room == 160 - len(expected) - 1
    assert (head.type_id, head.tokens_per_option, head.distinct_options) == (0, None, 2)


def test_type_ids_are_choice_score_noul(english: TextTokenizer) -> None:
    """The order of the type embedding."""
    asked = [question(type="choice", criteria=["a"]), question(type="score", criteria=["a"]), question(type="noul")]
    assert [head_of(english, one).type_id for one in asked] == [0, 1, 2]


def test_options_are_laid_out_in_slot_order(english: TextTokenizer) -> None:
    """`option_order` decides what stands where."""
    straight = head_of(english, question(type="choice", criteria=["b", "a"]))
    ordered = head_of(english, question(type="choice", criteria=["a", "b"], option_order=[1, 0]))
    assert ordered.ids.tolist() == straight.ids.tolist()


def test_a_mask_token_in_caller_text_becomes_a_blank(english: TextTokenizer) -> None:
    """Only options have a MASK."""
    asked = question(type="choice", instructions="Is [MASK] it?", criteria={"a[MASK]": "x [MASK]", "b": None})
    head = head_of(english, asked)
    assert (head.ids == english.special.mask).sum() == 2
    plain = question(type="choice", instructions="Is   it?", criteria={"a ": "x  ", "b": None})
    assert head.ids.tolist() == head_of(english, plain).ids.tolist()


def test_an_option_keeps_48_tokens(english: TextTokenizer) -> None:
    """MASK not counted, and only where the budget leaves the options whole."""
    head = head_of(english, question(type="choice", criteria=["word " * 100, "b"]), 400, 300)
    assert head.markers[1] - head.markers[0] == 1 + 48
    assert head.tokens_per_option is None


def test_a_prompt_keeps_what_the_options_leave(english: TextTokenizer) -> None:
    """left = head_max_len - options, MASKs included."""
    asked = question(type="choice", instructions="word " * 100, criteria=["a", "b"])
    options = sum(1 + len(ids) for ids in english.encode([" a", " b"]))
    head = head_of(english, asked)
    assert head.markers[0] == 1 + (64 - options) + 1
    assert len(head.ids) == 1 + 64 + 2


def test_options_are_cut_where_the_prompt_would_lose_its_16(english: TextTokenizer) -> None:
    """Every option keeps (head_max_len - 16) // n tokens, MASK included, and left is computed anew."""
    head = head_of(english, numbered(6))
    keep = (64 - 16) // 6
    assert head.tokens_per_option == keep
    assert np.diff(head.markers).tolist() == [keep] * 5
    (prompt,) = english.encode(["choice question: Which one?"])
    assert head.markers[0] == 2 + min(len(prompt), 64 - 6 * keep)


def test_options_keep_4_tokens_and_the_prompt_8_however_tight(english: TextTokenizer) -> None:
    """The floors hold where head_max_len allows neither."""
    asked = question(type="choice", instructions="word " * 30, criteria=[f"option number {i}" for i in range(10)])
    head = head_of(english, asked, head_max_len=1)
    assert head.tokens_per_option == 4
    assert np.diff(head.markers).tolist() == [4] * 9
    assert head.markers[0] == 1 + 8 + 1


def test_left_of_exactly_16_cuts_nothing(english: TextTokenizer) -> None:
    """The limit is `left < 16`."""
    asked = question(type="choice", instructions="word " * 50, criteria=["alpha beta gamma", "delta epsilon zeta"])
    options = sum(1 + len(ids) for ids in english.encode([" " + text for text in asked.options]))
    exact = head_of(english, asked, head_max_len=options + 16)
    assert exact.tokens_per_option is None
    assert exact.markers[0] == 1 + 16 + 1
    assert head_of(english, asked, head_max_len=options + 15).tokens_per_option is not None


def test_distinct_options_counts_what_the_model_can_tell_apart(english: TextTokenizer) -> None:
    """A long common beginning makes cut options equal."""
    asked = question(type="choice", criteria=[f"the same long beginning of a label {i}" for i in range(8)] + ["b"])
    head = head_of(english, asked)
    assert head.distinct_options == 2


def test_options_beyond_max_len_are_refused(english: TextTokenizer) -> None:
    """The error names the question, the counts and both budgets."""
    with pytest.raises(QuestionError, match=r"'q'.* 10 .*max_len=40.*head_max_len=64") as caught:
        head_of(english, numbered(10), max_len=40)
    assert caught.value.question_id == "q"


def test_a_head_may_fill_max_len_to_its_last_mask(english: TextTokenizer) -> None:
    """A MASK at max_len - 1 still counts; nothing is left to the state."""
    asked = numbered(3)
    last = int(head_of(english, asked).markers[-1])
    head = head_of(english, asked, max_len=last + 1)
    assert head.room == 0
    ids = sequence_ids(head, np.arange(5), False, english.special.sep, last + 1)
    assert len(ids) == last + 1
    assert ids[-1] == english.special.mask
    with pytest.raises(QuestionError):
        head_of(english, asked, max_len=last)


def test_a_state_takes_what_remains_less_one_sep(english: TextTokenizer) -> None:
    """Its first tokens, or its last ones for a conversation."""
    head = head_of(english, question(type="noul"), max_len=60)
    sep = english.special.sep
    state = np.arange(1000, 1200)
    for length in (0, head.room - 1, head.room, head.room + 1, 200):
        right = sequence_ids(head, state[:length], False, sep, 60)
        left = sequence_ids(head, state[:length], True, sep, 60)
        kept = min(length, head.room)
        assert right.tolist() == [*head.ids, *state[:kept], sep]
        assert left.tolist() == [*head.ids, *state[length - kept : length], sep]


@given(
    count=st.integers(1, 12),
    words=st.integers(0, 40),
    max_len=st.integers(1, 200),
    head_max_len=st.integers(1, 200),
    state=st.integers(0, 300),
)
def test_a_sequence_never_exceeds_max_len(
    english: TextTokenizer, count: int, words: int, max_len: int, head_max_len: int, state: int
) -> None:
    """Either every MASK is in, or the question is refused."""
    asked = question(type="choice", instructions="x " * (words + 1), criteria=[f"o {i} " * 9 for i in range(count)])
    try:
        head = head_of(english, asked, max_len, head_max_len)
    except QuestionError:
        return
    ids = sequence_ids(head, np.arange(state), False, english.special.sep, max_len)
    assert len(ids) <= max_len
    assert all(ids[marker] == english.special.mask for marker in head.markers)


@pytest.mark.parametrize("bad", [0, -1, True, 2.5, "100", None])
@pytest.mark.parametrize("name", ["max_len", "head_max_len"])
def test_budgets_are_positive_whole_numbers(name: str, bad: object) -> None:
    """The error names the budget."""
    with pytest.raises(OptionError, match=f"^{name} "):
        Budgets(**{"max_len": 100, "head_max_len": 50, name: bad})  # type: ignore[arg-type]
