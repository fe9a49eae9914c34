"""Calls that gather for shared passes, over rows that are computed by counting."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from laya._sharing import SharedPasses, parse_window
from laya.errors import LayaError, OptionError, QuestionError

FULL = 100
LONG_S = 60.0
"""A window that no test waits for."""


class Rows:
    """Rows of one call; `passes` of them are needed to answer it."""

    def __init__(self, tokens: int = 1, passes: int = 1) -> None:
        self.tokens = tokens
        self.left = passes

    @property
    def answered(self) -> bool:
        return self.left == 0


class Passes:
    """Remembers what ran together and where; waits for `gate`, and raises `error` once the gate is open."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.groups: list[list[Rows]] = []
        self.threads: set[str] = set()
        self.began = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.error = error

    def __call__(self, group: Sequence[Rows]) -> Iterator[None]:
        self.groups.append(list(group))
        self.threads.add(threading.current_thread().name)
        while any(not rows.answered for rows in group):
            self.began.set()
            assert self.gate.wait(LONG_S)
            if self.error is not None:
                raise self.error
            for rows in group:
                rows.left = max(0, rows.left - 1)
            yield


def results(*futures: Future[None]) -> None:
    """Wait for them all; fails on the first error."""
    for future in futures:
        future.result(10)


def held(passes: Passes, window_s: float = 0.0, full: int = FULL) -> SharedPasses:
    """Shared passes of which the first, over one call, has begun and can't end."""
    shared = SharedPasses(passes, window_s, full)
    passes.gate.clear()
    shared.join(Rows())
    assert passes.began.wait(10)
    return shared


def test_calls_within_the_window_run_together() -> None:
    """As one set, in the order of their arrival."""
    passes = Passes()
    shared = SharedPasses(passes, 0.5, FULL)
    calls = [Rows() for _ in range(5)]
    results(*[shared.join(rows) for rows in calls])
    assert passes.groups == [calls]


def test_a_full_pass_does_not_wait_for_the_window() -> None:
    """More would not fit anyway."""
    passes = Passes()
    shared = SharedPasses(passes, LONG_S, FULL)
    calls = [Rows(FULL // 2), Rows(FULL // 2)]
    results(*[shared.join(rows) for rows in calls])
    assert passes.groups == [calls]


def test_a_lone_call_waits_for_the_window_and_no_longer() -> None:
    """Others may yet come, but nobody else has to."""
    shared = SharedPasses(Passes(), 0.3, FULL)
    started = time.monotonic()
    results(shared.join(Rows()))
    assert 0.29 <= time.monotonic() - started < 5


def test_what_arrives_during_a_pass_is_the_next_set() -> None:
    """Also without a window, and without waiting for one again."""
    passes = Passes()
    shared = held(passes)
    late = [Rows() for _ in range(4)]
    futures = [shared.join(rows) for rows in late]
    passes.gate.set()
    results(*futures)
    assert passes.groups[1:] == [late]


def test_a_call_ends_with_its_own_last_row() -> None:
    """It doesn't wait for the longer ones of its set."""
    passes = Passes()
    passes.gate.clear()
    shared = SharedPasses(passes, LONG_S, full_tokens=2)
    first, second = shared.join(Rows(passes=1)), shared.join(Rows(passes=2))
    first.add_done_callback(lambda _: passes.gate.clear())
    passes.gate.set()
    results(first)
    assert len(passes.groups) == 1
    assert not second.done()
    passes.gate.set()
    results(second)


def test_a_failure_reaches_each_call_as_its_own_instance() -> None:
    """With the first error as the cause: what one call adds to it, another doesn't see."""
    error = ValueError("pass")
    shared = SharedPasses(Passes(error), LONG_S, full_tokens=3)
    found = [future.exception(10) for future in [shared.join(Rows()) for _ in range(3)]]
    assert [(type(one), str(one), one.__cause__) for one in found if one] == [(ValueError, "pass", error)] * 3
    assert len({id(one) for one in found}) == 3


def test_a_failed_pass_fails_the_calls_with_rows_in_it_alone() -> None:
    """Those that were answered before, or are in later passes, go on; each that failed has an error of its own."""
    error = ValueError("pass")

    def run(calls: Sequence[Rows]) -> Iterator[tuple[Sequence[Rows], Exception] | None]:
        for index, rows in enumerate(calls):
            if index == 1:
                yield calls[1:3], error
            else:
                rows.left = 0
                yield None

    shared = SharedPasses(run, LONG_S, full_tokens=5)
    found = [future.exception(10) for future in [shared.join(Rows()) for _ in range(5)]]
    assert [type(one) for one in found] == [type(None), ValueError, ValueError, type(None), type(None)]
    assert found[1] is not found[2]


def test_a_lone_call_gets_the_error_itself() -> None:
    """There is nobody to share it with."""
    error = ValueError("pass")
    assert SharedPasses(Passes(error), 0.0, FULL).join(Rows()).exception(10) is error


def test_an_error_that_can_not_be_copied_is_told_as_the_cause() -> None:
    """Its constructor takes what it doesn't keep."""

    class Picky(Exception):
        def __init__(self, *, code: int) -> None:
            super().__init__()

    error = Picky(code=1)
    error.args = ("extra",)
    shared = SharedPasses(Passes(error), LONG_S, full_tokens=2)
    for found in [future.exception(10) for future in [shared.join(Rows()) for _ in range(2)]]:
        assert isinstance(found, LayaError)
        assert "Picky" in str(found)
        assert found.__cause__ is error


def test_an_error_keeps_its_attributes() -> None:
    """A copy says as much as the original."""
    shared = SharedPasses(Passes(QuestionError("no", question_id="q")), LONG_S, full_tokens=2)
    found = [future.exception(10) for future in [shared.join(Rows()) for _ in range(2)]]
    assert [one.question_id for one in found if isinstance(one, QuestionError)] == ["q", "q"]


def test_calls_after_a_failure_are_answered() -> None:
    """The worker outlives it."""
    passes = Passes(ValueError("pass"))
    shared = SharedPasses(passes, 0.0, FULL)
    with pytest.raises(ValueError, match="pass"):
        results(shared.join(Rows()))
    passes.error = None
    results(shared.join(Rows()))


def test_a_cancelled_call_is_not_computed() -> None:
    """The others of its set are."""
    passes = Passes()
    shared = held(passes)
    stays, leaves = Rows(), Rows()
    staying, leaving = shared.join(stays), shared.join(leaves)
    assert leaving.cancel()
    passes.gate.set()
    results(staying)
    assert passes.groups[1:] == [[stays]]
    with pytest.raises(CancelledError):
        leaving.result(10)


def test_one_thread_runs_all_passes_and_ends() -> None:
    """It comes back when there is work again, and keeps nothing alive."""
    passes = Passes()
    shared = SharedPasses(passes, 0.0, FULL)
    for _ in range(2):
        results(*[shared.join(Rows()) for _ in range(3)])
        worker = shared._worker
        assert worker is not None
        worker.join(10)
        assert not worker.is_alive()
        assert shared._worker is None
    assert passes.threads == {"laya-shared-passes"}
    gone = weakref.ref(shared)
    del shared, worker
    gc.collect()
    assert gone() is None


def test_a_process_that_may_start_no_thread_runs_the_pass_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at exit, when hooks still ask."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    passes = Passes()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        shared = SharedPasses(passes, LONG_S, FULL)
        results(shared.join(Rows()))
    assert passes.threads == {threading.current_thread().name}
    shared.window_s = 0
    results(shared.join(Rows()))
    assert "laya-shared-passes" in passes.threads


def test_a_worker_that_never_came_to_run_is_replaced() -> None:
    """An interruption may hit between the making of a thread and its start."""
    shared = SharedPasses(Passes(), 0.0, FULL)
    shared._worker = threading.Thread(target=print)
    results(shared.join(Rows()))


def test_many_threads_all_get_their_answer() -> None:
    """None is lost where the worker ends as another arrives."""
    shared = SharedPasses(Passes(), 0.001, 8)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            for _ in range(50):
                results(shared.join(Rows()))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize(("given", "seconds"), [(None, None), (0, 0.0), (5, 0.005), (2.5, 0.0025)])
def test_a_window_is_a_number_of_milliseconds(given: Any, seconds: float | None) -> None:
    """None shares nothing."""
    assert parse_window(given) == seconds


@pytest.mark.parametrize(
    "given", [-1, True, float("nan"), float("inf"), "5", [5], pytest.param(10**400, id="huge")], ids=repr
)
def test_any_other_window_is_refused(given: Any) -> None:
    """By the argument's name."""
    with pytest.raises(OptionError, match="batch_window_ms"):
        parse_window(given)
