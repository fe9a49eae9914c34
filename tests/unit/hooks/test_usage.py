"""The summed tokens of results."""

from __future__ import annotations

import math

import numpy as np
import pytest

from laya.hooks import aggregate_usage

ZEROS = {"input_tokens": 0, "output_tokens": 0}


def test_counts_are_summed_over_results():
    """Only the two token counts are summed."""
    usage = {"input_tokens": 3, "output_tokens": 1, "options": 7}
    assert aggregate_usage([{"usage": usage}, {"usage": usage}]) == {"input_tokens": 6, "output_tokens": 2}


@pytest.mark.parametrize("results", [[], None, 5, "text", {}, [None], ["text"], [3], [[]]])
def test_no_readable_result_sums_to_zeros(results):
    """What a hook answered with may have any shape."""
    assert aggregate_usage(results) == ZEROS


@pytest.mark.parametrize("usage", [None, 3, [], "text", {}, {"input_tokens": None}, {"input_tokens": "9"}])
def test_an_unreadable_usage_adds_nothing(usage):
    """A cached payload without usage doesn't spoil the sum of the others."""
    assert aggregate_usage([{"usage": usage}, {"usage": {"input_tokens": 2}}]) == {**ZEROS, "input_tokens": 2}


@pytest.mark.parametrize(
    ("count", "added"),
    [
        (True, 0),
        (math.nan, 0),
        (math.inf, 0),
        (2.0, 2),
        (np.int64(4), 4),
        (np.float32(4), 4),
        (1 + 2j, 0),
        pytest.param(10**400, 0, id="huge"),
    ],
)
def test_only_finite_numbers_count(count, added):
    """The sum is an int whatever numbers came in."""
    total = aggregate_usage([{"usage": {"output_tokens": count}}])
    assert total == {"input_tokens": 0, "output_tokens": added}
    assert type(total["output_tokens"]) is int


def test_a_single_result_is_summed_alone():
    """A bare payload counts as one result."""
    assert aggregate_usage({"usage": {"input_tokens": 2}}) == {**ZEROS, "input_tokens": 2}


def test_a_generator_is_summed():
    """Results are read once."""
    assert aggregate_usage({"usage": {"input_tokens": n}} for n in (1, 2)) == {**ZEROS, "input_tokens": 3}
