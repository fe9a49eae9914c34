"""Windows over a long state."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laya._pipeline.windows import Window, check_window_options, merge_usage, merge_windows, plan_windows
from laya.errors import OptionError

BUDGETS = (160, 64)
"""Default window: 160 - 64 - 8 = 88."""


def test_the_default_window_leaves_the_heads_budget_free() -> None:
    """max_len - head_max_len - 8, moved by half."""
    plan = plan_windows(200, 126, None, None, BUDGETS)
    assert (plan.size, plan.stride) == (88, 44)
    assert plan.spans == ((0, 88), (44, 132), (88, 176), (132, 200))


def test_the_default_window_has_at_least_64_tokens() -> None:
    """Small budgets would scan token by token."""
    assert plan_windows(500, 100, None, None, (128, 100)).size == 64
    assert plan_windows(500, 50, None, None, (128, 100)).size == 50


def test_a_state_fits_where_the_room_is_not_exceeded() -> None:
    """An explicit window bounds it as well."""
    assert plan_windows(126, 126, None, None, BUDGETS).spans == ()
    assert plan_windows(127, 126, None, None, BUDGETS).spans != ()
    assert plan_windows(40, 126, 40, None, BUDGETS).spans == ()
    assert plan_windows(41, 126, 40, None, BUDGETS).spans == ((0, 40), (20, 41))


def test_without_questions_the_window_alone_bounds_a_state() -> None:
    """There is no head that would need room."""
    assert plan_windows(88, None, None, None, BUDGETS).spans == ()
    assert len(plan_windows(89, None, None, None, BUDGETS).spans) == 2
    assert plan_windows(400, None, 500, None, BUDGETS).spans == ()


def test_a_wider_window_is_capped_with_a_warning() -> None:
    """The room is all there is."""
    with pytest.warns(RuntimeWarning, match="window=500.* 126 "):
        plan = plan_windows(300, 126, 500, None, BUDGETS)
    assert (plan.size, plan.stride) == (126, 63)


def test_a_stride_past_the_capped_window_is_half_of_it() -> None:
    """It was valid for the window asked for."""
    with pytest.warns(RuntimeWarning) as caught:
        assert plan_windows(300, 126, 500, 400, BUDGETS).stride == 63
    assert len(caught) == 2
    with pytest.warns(RuntimeWarning) as caught:
        assert plan_windows(300, 126, 500, 10, BUDGETS).stride == 10
    assert len(caught) == 1


def test_a_stride_past_the_default_window_is_refused() -> None:
    """88 is the widest."""
    assert plan_windows(300, 126, None, 88, BUDGETS).stride == 88
    with pytest.raises(OptionError, match="stride 89"):
        plan_windows(300, 126, None, 89, BUDGETS)


def test_questions_that_leave_no_room_are_refused() -> None:
    """The error names both budgets' remedies."""
    with pytest.raises(OptionError, match=r"no room.*max_len=160"):
        plan_windows(1, 0, None, None, BUDGETS)


@pytest.mark.parametrize(
    ("window", "stride", "aggregate"),
    [
        (0, None, "auto"),
        (-1, None, "auto"),
        (2.5, None, "auto"),
        ("20", None, "auto"),
        (True, None, "auto"),
        (None, 0, "auto"),
        (None, 1.0, "auto"),
        (10, 11, "auto"),
        (None, None, "max"),
        (None, None, None),
    ],
)
def test_bad_scan_options_are_refused(window: Any, stride: Any, aggregate: Any) -> None:
    """Before anything is tokenized."""
    with pytest.raises(OptionError):
        check_window_options(window, stride, aggregate)


def test_good_scan_options_pass() -> None:
    """A stride may be the whole window."""
    for window, stride in ((None, None), (10, 10), (1, 1), (None, 3)):
        check_window_options(window, stride, "auto")


@given(
    tokens=st.integers(0, 600),
    room=st.integers(1, 200),
    window=st.none() | st.integers(1, 200),
    share=st.none() | st.floats(0.01, 1.0),
)
def test_windows_cover_every_token_once_at_least(
    tokens: int, room: int, window: int | None, share: float | None
) -> None:
    """They start a stride apart, none is wider than the room, and the last one ends at the last token."""
    stride = None if share is None else max(1, int((window or 64) * share))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = plan_windows(tokens, room, window, stride, BUDGETS)
    if not plan.spans:
        assert tokens <= room
        return
    assert plan.size <= room
    assert plan.spans[0][0] == 0
    assert plan.spans[-1][1] == tokens
    assert len(plan.spans) > 1
    for (start, end), (following, _) in zip(plan.spans, plan.spans[1:], strict=False):
        assert end - start == plan.size
        assert following - start == plan.stride
        assert end < tokens
        assert following <= end


def result(noul: float, confidence: float, **usage: Any) -> dict[str, Any]:
    """What one window answered."""
    answers = {
        "n": {"type": "noul", "noul": noul, "answer_confidence": max(noul, 1 - noul)},
        "c": {"type": "choice", "choice": f"at {confidence}", "answer_confidence": confidence},
    }
    return {"model": "laya-rl-agent", "answers": answers, "usage": usage}


def test_each_question_takes_its_own_window() -> None:
    """noul the highest P(true), even where another window is surer of false."""
    windows = [Window(0, 8, "a"), Window(4, 12, "b"), Window(8, 14, "c")]
    merged = merge_windows([result(0.1, 0.5), result(0.7, 0.4), result(0.2, 0.6)], windows)
    assert merged["answers"]["n"]["noul"] == 0.7
    assert merged["answers"]["n"]["window"] == {"index": 1, "token_start": 4, "token_end": 12, "count": 3}
    assert merged["answers"]["c"]["window"] == {"index": 2, "token_start": 8, "token_end": 14, "count": 3}


def test_the_first_of_equal_windows_answers() -> None:
    """Ties have one outcome."""
    merged = merge_windows([result(0.5, 0.5)] * 3, [Window(0, 1, ""), Window(1, 2, ""), Window(2, 3, "")])
    assert {answer["window"]["index"] for answer in merged["answers"].values()} == {0}


def test_without_windows_no_answer_names_one() -> None:
    """The offsets would not be those of the texts that were scored."""
    results = [result(0.1, 0.5), result(0.7, 0.4)]
    merged = merge_windows(results, None)
    assert all("window" not in answer for answer in merged["answers"].values())
    assert merged["answers"]["n"] is not results[1]["answers"]["n"]


def test_usage_is_summed_over_windows() -> None:
    """`truncated` counts windows, options are merged."""
    merged = merge_usage(
        [
            {"input_tokens": 5, "truncated": False, "truncated_questions": [], "options": {"a": {"total": 2}}},
            {"input_tokens": 7, "truncated": True, "truncated_questions": ["n"], "options": {"b": {"total": 3}}},
        ]
    )
    assert merged["input_tokens"] == 12
    assert merged["truncated"] == 1
    assert merged["truncated_questions"] == ["n"]
    assert merged["options"] == {"a": {"total": 2}, "b": {"total": 3}}


def test_a_text_without_an_answer_is_left_out() -> None:
    """A hook's payload may lack one, or have one that can't be compared; positions are those of the texts."""
    results: list[dict[str, Any]] = [
        {"answers": {}},
        {"answers": None},
        {"answers": {"n": {"type": "noul", "noul": 0.2}}},
        {"answers": {"n": {"type": "noul", "noul": 10**400}, "c": {"type": "choice", "answer_confidence": None}}},
        {"answers": {"n": {"type": "noul"}, "c": "billing"}},
        {},
    ]
    merged = merge_windows(results, [Window(index, index + 1, "") for index in range(6)])
    assert {qid: answer["window"]["index"] for qid, answer in merged["answers"].items()} == {"n": 2, "c": 3}
    assert merged["answers"]["n"]["noul"] == 0.2
