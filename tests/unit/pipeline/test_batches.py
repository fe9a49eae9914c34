"""Which rows share a pass, and how they are padded."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laya._pipeline.batches import PassCost, pad_rows, plan_passes

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=9)
COSTS = st.builds(PassCost, overhead=st.integers(0, 80), budget=st.integers(1, 200))


def price(passes: list[list[int]], lengths: list[int], cost: PassCost) -> int:
    """What a plan costs: its passes' overhead and padded tokens."""
    return sum(cost.overhead + len(rows) * max(lengths[row] for row in rows) for rows in passes)


def fits(rows: list[int], lengths: list[int], cost: PassCost) -> bool:
    """A pass stays within the budget, unless it is one row."""
    return len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= cost.budget


def cheapest(lengths: list[int], cost: PassCost) -> int:
    """The least price over every way to cut the rows sorted by length."""
    rows = sorted(range(len(lengths)), key=lambda row: lengths[row])
    found = []
    for cuts in range(len(rows)):
        for places in combinations(range(1, len(rows)), cuts):
            edges = [0, *places, len(rows)]
            passes = [rows[a:b] for a, b in pairwise(edges)]
            if all(fits(one, lengths, cost) for one in passes):
                found.append(price(passes, lengths, cost))
    return min(found)


@given(lengths=LENGTHS, cost=COSTS)
def test_a_plan_is_the_cheapest_one(lengths: list[int], cost: PassCost) -> None:
    """No other way to cut the sorted rows costs less."""
    assert price(plan_passes(lengths, cost), lengths, cost) == cheapest(lengths, cost)


@given(lengths=st.lists(st.integers(1, 300), max_size=200), cost=COSTS)
def test_every_row_has_one_pass_within_the_budget(lengths: list[int], cost: PassCost) -> None:
    """Rows are neither lost nor doubled."""
    passes = plan_passes(lengths, cost)
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    assert all(fits(rows, lengths, cost) for rows in passes)
    order = [lengths[row] for rows in passes for row in rows]
    assert order == sorted(order)


def test_equal_rows_share_passes_in_input_order() -> None:
    """The plan is the same every time."""
    assert plan_passes([7] * 5, PassCost(24, 21)) in ([[0, 1], [2, 3, 4]], [[0, 1, 2], [3, 4]])
    assert plan_passes([7] * 5, PassCost(24, 4096)) == [[0, 1, 2, 3, 4]]


def test_a_long_row_does_not_pad_short_ones() -> None:
    """A pass costs less than the padding it would save."""
    assert plan_passes([10] * 20 + [500], PassCost(24, 4096)) == [list(range(20)), [20]]


def test_no_rows_need_no_pass() -> None:
    """An empty call runs nothing."""
    assert plan_passes([], PassCost(24, 4096)) == []


def test_rows_are_padded_to_the_longest() -> None:
    """Ids with the pad id, masks and markers with zeros."""
    batch = pad_rows([np.array([5, 6, 7]), np.array([8])], [np.array([1, 2]), np.array([0])], [2, 0], pad=99)
    assert batch.input_ids.tolist() == [[5, 6, 7], [8, 99, 99]]
    assert batch.attention_mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.marker_pos.tolist() == [[1, 2], [0, 0]]
    assert batch.marker_mask.tolist() == [[True, True], [True, False]]
    assert batch.qtype.tolist() == [2, 0]
    assert [array.dtype for array in batch] == [np.int64, np.int64, np.int64, np.bool_, np.int64]


def test_the_option_axis_has_a_least_width() -> None:
    """An exported graph may need two options."""
    batch = pad_rows([np.array([5])], [np.array([0])], [0], pad=0, min_options=2)
    assert batch.marker_mask.tolist() == [[True, False]]


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 200))
def test_a_plan_without_padding_fills_its_passes(lengths: list[int], budget: int) -> None:
    """Rows in rising length, none lost, and no pass has room for the next one's first row."""
    passes = plan_passes(lengths, PassCost(24, budget, padded=False))
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    flat = [lengths[row] for rows in passes for row in rows]
    assert flat == sorted(flat)
    totals = [sum(lengths[row] for row in rows) for rows in passes]
    assert all(total <= budget or len(rows) == 1 for total, rows in zip(totals, passes, strict=True))
    for total, following in zip(totals, passes[1:], strict=False):
        assert total + lengths[following[0]] > budget


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 200))
def test_rows_in_turn_stay_in_turn(lengths: list[int], budget: int) -> None:
    """No row runs in a later pass than one that came after it; within a pass they are in rising length."""
    passes = plan_passes(lengths, PassCost(24, budget, padded=False), in_turn=True)
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    for rows, following in pairwise(passes):
        assert max(rows) < min(following)
        assert sum(lengths[row] for row in rows) + lengths[min(following)] > budget
    for rows in passes:
        assert [lengths[row] for row in rows] == sorted(lengths[row] for row in rows)
        assert sum(lengths[row] for row in rows) <= budget or len(rows) == 1


def test_where_padding_is_computed_rows_in_turn_are_sorted_all_the_same() -> None:
    """The price of padding is more than a turn is worth."""
    lengths, cost = [10, 500] * 10, PassCost(24, 4096)
    assert plan_passes(lengths, cost, in_turn=True) == plan_passes(lengths, cost)
