"""The confidence gate."""

from __future__ import annotations

import copy
import decimal
import math
from typing import Any

import numpy as np
import pytest

from laya._pipeline.confidence import ConfidenceGate
from laya.errors import OptionError


def gate(min_confidence: Any) -> ConfidenceGate:
    """A gate that is on."""
    parsed = ConfidenceGate.parse(min_confidence)
    assert parsed is not None
    return parsed


def gated(min_confidence: Any, **answer: Any) -> dict[str, Any]:
    """One answer behind a gate."""
    (result,) = gate(min_confidence).apply([{"answers": {"q": answer}}])
    return dict(result["answers"]["q"])


def choice(options: int, confidence: float) -> dict[str, Any]:
    """A choice answer over so many options."""
    probabilities = {str(i): 0.1 for i in range(options)}
    return {"type": "choice", "probabilities": probabilities, "answer_confidence": confidence}


def test_no_gate_without_min_confidence() -> None:
    """None is not a threshold of 0."""
    assert ConfidenceGate.parse(None) is None


@pytest.mark.parametrize(
    ("confidence", "outcome"), [(0.59, "abstained"), (0.6, "passed"), (0.61, "passed"), (1, "passed")]
)
def test_an_answer_below_the_threshold_is_marked(confidence: float, outcome: str) -> None:
    """The threshold itself passes."""
    answer = gated(0.6, type="noul", answer_confidence=confidence)
    assert answer["abstention"] == outcome
    assert answer["abstention_threshold"] == 0.6
    assert answer.get("low_confidence", False) is (outcome == "abstained")


def test_a_threshold_of_zero_reports_as_well() -> None:
    """Every answer passes, and says so."""
    assert gated(0, **choice(2, 0.1))["abstention"] == "passed"


@pytest.mark.parametrize(
    ("options", "bucket"),
    [(1, "2"), (2, "2"), (3, "3-5"), (5, "3-5"), (6, "6-10"), (10, "6-10"), (11, "11+"), (40, "11+")],
)
def test_buckets_are_types_by_number_of_options(options: int, bucket: str) -> None:
    """An unnamed bucket takes the default."""
    thresholds = {f"choice:{bucket}": 0.7, "default": 0.2}
    assert gated(thresholds, **choice(options, 0.5))["abstention_threshold"] == 0.7
    assert gated({"score:2": 0.7, "default": 0.2}, **choice(options, 0.5))["abstention_threshold"] == 0.2
    assert gated({"score:2": 0.7}, **choice(options, 0.5))["abstention_threshold"] == 0.0


def test_a_noul_answer_has_two_options() -> None:
    """It reports no probabilities."""
    assert gated({"noul:2": 0.9}, type="noul", answer_confidence=0.8)["low_confidence"] is True


def test_an_answer_without_confidence_is_unevaluated() -> None:
    """A payload may be older than `answer_confidence`; `confidence` stands in."""
    answer = gated(0.5, type="noul", noul=0.9)
    assert answer == {"type": "noul", "noul": 0.9, "abstention": "unevaluated", "abstention_threshold": 0.5}
    assert gated(0.5, type="noul", confidence=0.9)["abstention"] == "passed"
    assert gated(0.5, type="noul", answer_confidence=None, confidence=0.4)["abstention"] == "abstained"


@pytest.mark.parametrize("confidence", ["0.9", math.nan, True, pytest.param(10**400, id="huge")])
def test_an_unreadable_confidence_abstains(confidence: Any) -> None:
    """What can't be compared is not trusted."""
    assert gated(0.5, type="noul", answer_confidence=confidence)["abstention"] == "abstained"


def test_keys_of_an_earlier_gate_are_replaced() -> None:
    """A cached payload may have been gated by another call."""
    answer = gated(0.5, type="noul", answer_confidence=0.9, low_confidence=True, abstention="abstained")
    assert "low_confidence" not in answer
    assert answer["abstention"] == "passed"


def test_a_payload_is_never_changed() -> None:
    """The caller's cache keeps what it holds."""
    payload = [{"answers": {"q": choice(3, 0.1)}, "usage": {"input_tokens": 3}}]
    before = copy.deepcopy(payload)
    after = gate(0.9).apply(payload)
    assert payload == before
    assert after[0]["answers"]["q"]["low_confidence"] is True
    assert after[0]["usage"] is payload[0]["usage"]


@pytest.mark.parametrize("payload", [{}, {"answers": None}, {"answers": [1]}, {"answers": {"b": 5}}, "x", None])
def test_payloads_of_other_shapes_pass_through(payload: Any) -> None:
    """A hook's payload is its own affair."""
    assert gate(0.9).apply([payload]) == [payload]


@pytest.mark.parametrize("number", [0, 1, 0.5, np.float64(0.5), np.float32(0.5)])
def test_numbers_from_zero_to_one_are_thresholds(number: Any) -> None:
    """NumPy's numbers are numbers."""
    assert gate(number).default == float(number)


@pytest.mark.parametrize(
    "bad",
    [
        True,
        -0.1,
        1.1,
        math.nan,
        "0.5",
        [0.5],
        decimal.Decimal("0.5"),
        {},
        {"noul": 0.5},
        {"choice:3": 0.5},
        {1: 0.5},
        {"noul:2": True},
        {"noul:2": None},
        {"noul:2": 2},
        {"default": "x"},
        pytest.param(10**400, id="huge"),
    ],
    ids=repr,
)
def test_a_bad_min_confidence_is_a_value_error(bad: Any) -> None:
    """The error says what a threshold may be."""
    with pytest.raises(OptionError, match="min_confidence"):
        ConfidenceGate.parse(bad)
