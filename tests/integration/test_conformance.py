"""Recorded answers of the published runtime, on four small checkpoints."""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laya import Agent

DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 2e-4
"""Answers are rounded to four places; another order of sums may move the last one."""


def recorded(*names: str) -> list[Any]:
    """The cases of these files, as parameters named by the case."""
    cases = [case for name in names for case in json.loads((DATA / "cases" / f"{name}.json").read_text("utf-8"))]
    return [pytest.param(case, id=case["id"]) for case in cases]


def revive(value: Any) -> Any:
    """Turn `$pairs` into the mapping that it stands for: its keys are not all strings."""
    if isinstance(value, list):
        return [revive(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    pairs = value["$pairs"] if set(value) == {"$pairs"} else value.items()
    return {key: revive(entry) for key, entry in pairs}


def differences(wanted: Any, got: Any, place: str = "result") -> Iterator[str]:
    """Say where `got` differs; keys that the recording lacks are allowed."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key, value in wanted.items():
            if key in got:
                yield from differences(value, got[key], f"{place}[{key!r}]")
            else:
                yield f"{place} lacks {key!r}"
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, pair in enumerate(zip(wanted, got, strict=True)):
            yield from differences(*pair, f"{place}[{index}]")
    elif isinstance(wanted, float) and isinstance(got, float | int) and not isinstance(got, bool):
        if not math.isclose(wanted, got, rel_tol=0.0, abs_tol=TOLERANCE):
            yield f"{place} is {got!r}, recorded is {wanted!r}"
    elif type(wanted) is not type(got) or wanted != got:
        yield f"{place} is {got!r}, recorded is {wanted!r}"


@pytest.fixture(scope="module")
def agent_of(checkpoints: Path) -> Callable[[str], Agent]:
    """Load each checkpoint once."""
    loaded: dict[str, Agent] = {}

    def agent_of(name: str) -> Agent:
        if name not in loaded:
            loaded[name] = Agent(checkpoints / name, device="cpu")
        return loaded[name]

    return agent_of


@pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning", "ignore:window=:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:stride=:RuntimeWarning")
@pytest.mark.parametrize("case", recorded("predict", "predict_batch", "predict_long"))
def test_answers_are_the_published_ones(case: dict[str, Any], agent_of: Callable[[str], Agent]) -> None:
    """Every recorded number, label and count comes back."""
    got = getattr(agent_of(case["checkpoint"]), case["call"])(**revive(case["args"]))
    assert list(differences(revive(case["result"]), got)) == []


@pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")
@pytest.mark.parametrize("case", recorded("bad_input"))
def test_bad_input_raises_the_published_builtin(case: dict[str, Any], agent_of: Callable[[str], Agent]) -> None:
    """The error is a subclass of the builtin that was recorded."""
    expected = next(getattr(builtins, name) for name in case["raises"] if hasattr(builtins, name))
    with pytest.raises(expected):
        getattr(agent_of(case["checkpoint"]), case["call"])(**revive(case["args"]))


def test_a_recording_that_differs_is_noticed() -> None:
    """The comparison sees a number, a missing key, a type and a length."""
    wanted = {"a": 0.5, "b": [1, 2], "c": {"d": True}}
    assert list(differences(wanted, {"a": 0.5001, "b": [1, 2], "c": {"d": True, "e": 1}})) == []
    for got in ({"a": 0.51}, {"b": [1]}, {"c": {}}, {"c": {"d": 1}}, {"b": [1, 3]}):
        assert list(differences(wanted, {**wanted, **got})) != []
