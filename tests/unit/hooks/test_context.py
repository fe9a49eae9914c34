"""The context of a call."""

from __future__ import annotations

import re
import time
from collections import deque

import pytest

from laya.hooks import PredictContext

RESULT = {"answers": {}}


def context(*states: object) -> PredictContext:
    """Return the context of a call with `states`."""
    return PredictContext(states=list(states), questions={})


def test_two_contexts_are_never_equal_and_can_be_keys():
    """A tracer may keep a dict by context."""
    first = PredictContext(["a"], {}, run_id="same")
    second = PredictContext(["a"], {}, run_id="same")
    assert first != second
    assert len({first, second, first}) == 2


def test_every_context_has_a_run_id_of_its_own():
    """A run id is a uuid4 in hex and is never reused."""
    ids = {context().run_id for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{12}4[0-9a-f]{19}", run_id) for run_id in ids)


def test_a_context_starts_its_clock():
    """`started_at` is a perf_counter reading."""
    before = time.perf_counter()
    assert before <= context().started_at <= time.perf_counter()


def test_the_repr_shows_no_user_text():
    """A logged context leaks neither states nor answers."""
    ctx = PredictContext(["secret state"], {"secret question": {}})
    ctx.skip([{"answers": "secret answer"}])
    ctx.error = ValueError("secret error")
    assert "secret" not in repr(ctx)
    assert ctx.run_id in repr(ctx)


def test_hooks_may_keep_things_on_a_context():
    """A hook may carry a value of its own from start to end."""
    ctx = context("a")
    ctx.span = "open"  # type: ignore[attr-defined]
    assert vars(ctx)["span"] == "open"


@pytest.mark.parametrize(
    ("states", "results"),
    [
        (["a"], [RESULT]),
        (["a", "b"], [RESULT, RESULT]),
        (["a", "b"], [RESULT]),
        ([], []),
        ([], [RESULT]),
        (["a", "b"], (RESULT, RESULT)),
    ],
)
def test_skip_takes_one_result_a_state_or_a_single_one(states, results):
    """Both counts answer the call."""
    ctx = context(*states)
    ctx.skip(results)
    assert ctx.results == list(results)


@pytest.mark.parametrize(("states", "count"), [(["a"], 0), (["a"], 2), (["a", "b", "c"], 2), ([], 2), (["a", "b"], 3)])
def test_skip_refuses_any_other_count(states, count):
    """A result for no state, or a state without a result, is a mistake of the hook."""
    ctx = context(*states)
    with pytest.raises(ValueError, match=rf"{count} results for {len(states)} states"):
        ctx.skip([RESULT] * count)
    assert ctx.results is None


def test_skip_takes_a_single_mapping_as_one_result():
    """A bare payload is the answer to the whole call, not a sequence of its keys."""
    ctx = context("a")
    ctx.skip(RESULT)
    assert ctx.results == [RESULT]


def test_skip_passes_payloads_on_as_they_are_and_copies_the_list():
    """A cached payload is not rebuilt, and the call's list isn't the cache's."""
    cached = [RESULT]
    ctx = context("a")
    ctx.skip(cached)
    assert ctx.results is not None
    assert ctx.results[0] is RESULT
    assert ctx.results is not cached


def test_skip_reads_a_generator():
    """Results may be computed lazily."""
    ctx = context("a", "b")
    ctx.skip({"n": index} for index in range(2))
    assert ctx.results == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize("results", [None, "ab", b"ab", 3])
def test_skip_refuses_what_is_no_collection(results):
    """A string isn't a list of results, and None answers nothing."""
    with pytest.raises(TypeError, match=type(results).__name__):
        context("a", "b").skip(results)


def test_skip_counts_the_states_that_a_hook_put_there():
    """The check follows a start hook's own states."""
    ctx = context("a")
    ctx.states = deque(["x", "y"])  # type: ignore[assignment]
    ctx.skip([RESULT, RESULT])
    assert ctx.results == [RESULT, RESULT]


@pytest.mark.parametrize("states", [None, 3, "three", {"a": 1, "b": 2}])
def test_skip_counts_states_of_a_wrong_type_as_one(states):
    """Start hooks run before states are checked."""
    ctx = PredictContext(states, {})
    ctx.skip([RESULT])
    assert ctx.results == [RESULT]
    with pytest.raises(ValueError, match="2 results for 1 states"):
        ctx.skip([RESULT, RESULT])
