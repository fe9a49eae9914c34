"""Answers, computed by hand."""

from __future__ import annotations

import math

import pytest

from laya._pipeline.answers import decode_answer, normalised_entropy_confidence, softmax
from laya._pipeline.questions import Question, parse_questions

LOGITS = [math.log(1), math.log(2), math.log(5)]
"""Probabilities 1/8, 2/8, 5/8 at temperature 1."""
ENTROPY = -(0.125 * math.log(0.125) + 0.25 * math.log(0.25) + 0.625 * math.log(0.625))


def question(**definition: object) -> Question:
    """One parsed question."""
    (parsed,) = parse_questions({"q": {"instructions": "?", **definition}})
    return parsed


def test_choice_answers_with_the_callers_own_label() -> None:
    """Labels that are no strings are keys as they are."""
    answer = decode_answer(question(type="choice", criteria=["a", 2, False]), LOGITS, 0.25, 1.0)
    assert answer == {
        "type": "choice",
        "choice": False,
        "probabilities": {"a": 0.125, 2: 0.25, False: 0.625},
        "confidence": round(1 - ENTROPY / math.log(3), 4),
        "answer_confidence": 0.625,
        "action": {"act_probability": 0.25},
    }
    assert answer["choice"] is False


def test_score_is_the_expected_level() -> None:
    """0 * 1/8 + 1 * 2/8 + 2 * 5/8."""
    answer = decode_answer(question(type="score", criteria=["low", "mid", "high"]), LOGITS, 0.123456, 1.0)
    assert answer["score"] == 1.5
    assert answer["legend"] == {"0": "low", "1": "mid", "2": "high"}
    assert answer["probabilities"] == {"0": 0.125, "1": 0.25, "2": 0.625}
    assert answer["answer_confidence"] == 0.625
    assert answer["action"] == {"act_probability": 0.1235}


def test_noul_is_the_probability_of_true() -> None:
    """The confidence is the larger of both probabilities, not an entropy."""
    answer = decode_answer(question(type="noul"), [math.log(3), math.log(1)], 1.0, 1.0)
    assert answer == {
        "type": "noul",
        "noul": 0.25,
        "confidence": 0.75,
        "answer_confidence": 0.75,
        "action": {"act_probability": 1.0},
    }


def test_logits_are_divided_by_the_temperature() -> None:
    """At temperature 2, odds of 9 become odds of 3."""
    answer = decode_answer(question(type="noul"), [math.log(1), math.log(9)], 0.5, 2.0)
    assert answer["noul"] == 0.75


def test_slots_are_put_back_into_the_callers_order() -> None:
    """Slot s held option order[s]."""
    asked = question(type="choice", criteria=["a", "b", "c"], option_order=[2, 0, 1])
    answer = decode_answer(asked, LOGITS, 0.5, 1.0)
    assert answer["probabilities"] == {"a": 0.25, "b": 0.625, "c": 0.125}
    assert list(answer["probabilities"]) == ["a", "b", "c"]
    noul = decode_answer(question(type="noul", option_order=[1, 0]), [math.log(3), 0.0], 0.5, 1.0)
    assert noul["noul"] == 0.75


def test_one_option_is_certain() -> None:
    """ln k is 0 there; nothing is divided by it."""
    answer = decode_answer(question(type="choice", criteria=["only"]), [3.2], 0.5, 1.0)
    assert (answer["confidence"], answer["answer_confidence"]) == (1.0, 1.0)
    assert decode_answer(question(type="score", criteria=["only"]), [3.2], 0.5, 1.0)["score"] == 0.0


def test_equal_options_answer_with_the_first() -> None:
    """Ties have one outcome."""
    assert decode_answer(question(type="choice", criteria=["a", "b"]), [1.0, 1.0], 0.5, 1.0)["choice"] == "a"


@pytest.mark.parametrize(("p", "confidence"), [([0.5, 0.5], 0.0), ([1.0, 0.0], 1.0), ([0.2] * 5, 0.0), ([1.0], 1.0)])
def test_entropy_confidence_spans_zero_to_one(p: list[float], confidence: float) -> None:
    """0 for a uniform distribution, 1 for a certain one."""
    assert normalised_entropy_confidence(p) == pytest.approx(confidence, abs=1e-12)


def test_softmax_survives_large_logits() -> None:
    """The largest logit is taken off first."""
    assert softmax([1000.0, 0.0]) == [1.0, 0.0]
    assert softmax([-1e4, -1e4]) == [0.5, 0.5]
