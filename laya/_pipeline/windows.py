"""Long states: cut their tokens into windows, and put the windows' answers together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from laya._numbers import as_float
from laya._pipeline.rows import RESULT_MODEL
from laya.errors import OptionError

MIN_WINDOW = 64
"""Tokens of the default window at least, where the questions leave that much."""
_FRAME_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Window:
    """One run of a state's tokens, `[start, end)`, and its text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How a long state is scanned."""

    size: int
    stride: int
    spans: tuple[tuple[int, int], ...]
    """Token spans in scan order; empty if the state needs no windows."""


def check_window_options(window: Any, stride: Any, aggregate: Any) -> tuple[int | None, int | None]:
    """The window and stride of a scan, or `OptionError` (a `ValueError`), before any work."""
    for name, value in (("window", window), ("stride", stride)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < 1):
            raise OptionError(f"{name} must be a positive whole number of tokens, got {value!r}", option=name)
    if aggregate != "auto":
        raise OptionError(f"aggregate must be 'auto', got {aggregate!r}", option="aggregate")
    if window is not None and stride is not None and stride > window:
        raise OptionError(
            f"stride {stride} is wider than window {window}: tokens between windows would go unread", option="stride"
        )
    return None if window is None else int(window), None if stride is None else int(stride)


def plan_windows(
    tokens: int, room: int | None, window: int | None, stride: int | None, budgets: tuple[int, int]
) -> WindowPlan:
    """Place windows over a state of `tokens` tokens of which `room` fit beside the questions.

    `budgets` are `(max_len, head_max_len)`; the default window is `max(64, max_len - head_max_len - 8)`,
    and no window is wider than `room` (None where nothing is asked, so that nothing bounds it). Raises
    `OptionError` if the questions leave no room.
    """
    wanted = max(MIN_WINDOW, budgets[0] - budgets[1] - _FRAME_TOKENS) if window is None else window
    room = wanted if room is None else room
    if room < 1:
        raise OptionError(
            f"the questions leave no room for any state within max_len={budgets[0]}; shorten them, lower "
            "head_max_len or raise max_len"
        )
    size = min(wanted, room)
    if window is not None and size < window:
        warnings.warn(
            f"window={window} is wider than the {room} tokens that the questions leave; using {size}",
            RuntimeWarning,
            stacklevel=5,
        )
    step = _stride(stride, wanted, size)
    if tokens <= (room if window is None else size):
        return WindowPlan(size, step, ())
    starts = range(0, max(1, tokens - size + step), step)
    return WindowPlan(size, step, tuple((start, min(start + size, tokens)) for start in starts))


def _stride(stride: int | None, wanted: int, size: int) -> int:
    half = max(1, size // 2)
    if stride is None:
        return half
    if stride > wanted:
        raise OptionError(f"stride {stride} is wider than the window of {wanted} tokens; lower it", option="stride")
    if stride > size:
        warnings.warn(
            f"stride={stride} is wider than the window of {size} tokens that is left; using {half}",
            RuntimeWarning,
            stacklevel=6,
        )
        return half
    return stride


def merge_windows(results: Sequence[dict[str, Any]], windows: Sequence[Window] | None) -> dict[str, Any]:
    """One result from the results of several texts of one state.

    noul takes the text with the highest P(true), choice and score the one with the highest
    `answer_confidence` (the first of equals), of those that have the answer: a hook's payload may lack it.
    With `windows` given, each answer names its window.
    """
    given: dict[Hashable, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, result in enumerate(results):
        for qid, answer in (result.get("answers") or {}).items():
            if isinstance(answer, Mapping):
                given.setdefault(qid, []).append((index, answer))
    answers: dict[Hashable, Any] = {}
    for qid, candidates in given.items():
        index, answer = max(candidates, key=lambda candidate: _strength(candidate[1]))
        answers[qid] = dict(answer)
        if windows is not None:
            answers[qid]["window"] = {
                "index": index,
                "token_start": windows[index].start,
                "token_end": windows[index].end,
                "count": len(windows),
            }
    usage = merge_usage([result.get("usage") or {} for result in results])
    return {"model": results[0].get("model", RESULT_MODEL), "answers": answers, "usage": usage}


def _strength(answer: Mapping[str, Any]) -> float:
    strength = as_float(answer.get("noul" if answer.get("type") == "noul" else "answer_confidence", 0.0))
    # A payload may say anything: what isn't a number is below every number.
    return -math.inf if strength is None or not math.isfinite(strength) else strength


def merge_usage(usages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum what is numeric (`truncated` counts windows), merge mappings, and take a list from the last window."""
    merged: dict[str, Any] = {}
    for usage in usages:
        for key, value in usage.items():
            if isinstance(value, bool | int | float):
                merged[key] = merged.get(key, 0) + value
            elif isinstance(value, dict):
                merged[key] = {**merged.get(key, {}), **value}
            elif isinstance(value, list):
                merged[key] = list(value)
    return merged
