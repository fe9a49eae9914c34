"""Threads whose parts may wait for one another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait

import pytest

from laya import _threads
from laya._threads import Threads, waiting

LIMIT = 3


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Three threads, which have ended after the test."""
    made = Threads(LIMIT, "test-threads")
    yield made
    made.finish()
    _until(lambda: _running() == 0)


class Held:
    """Parts that run until they are let go, within a wait or not; counts those that have begun."""

    def __init__(self, in_wait: bool = False) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.in_wait = in_wait

    def __call__(self) -> str:
        self.begun.release()
        if self.in_wait:
            with waiting():
                assert self.go.wait(30)
        else:
            assert self.go.wait(30)
        return threading.current_thread().name

    def await_begun(self, count: int) -> None:
        """Wait until so many have begun."""
        for _ in range(count):
            assert self.begun.acquire(timeout=30)


def results(futures: list[Future[str]]) -> set[str]:
    """Wait for them all."""
    return {future.result(30) for future in futures}


def test_parts_share_a_few_threads(threads: Threads) -> None:
    """In the order in which they come, and in the threads that there are."""
    order: list[int] = []

    def note(index: int) -> Callable[[], int]:
        def run() -> int:
            order.append(index)
            return threading.get_ident()

        return run

    held = Held()
    blocking = [threads.submit(held) for _ in range(LIMIT)]
    held.await_begun(LIMIT)
    later = [threads.submit(note(index)) for index in range(50)]
    assert not wait(later, timeout=0.05).done
    assert _running() == LIMIT
    held.go.set()
    results(blocking)
    assert len({future.result(30) for future in later}) <= LIMIT
    assert sorted(order) == list(range(50))
    assert _running() == LIMIT


def test_parts_that_wait_for_parts_in_the_queue_end(threads: Threads) -> None:
    """However many do so: each sees to one more thread, though not at once."""

    inner: list[Future[str]] = []
    queued = threading.Event()

    def outer() -> str:
        with waiting():
            assert queued.wait(30)
            return inner.pop().result(30)

    outers = [threads.submit(outer) for _ in range(4 * LIMIT)]
    inner.extend(threads.submit(lambda: "inner") for _ in range(4 * LIMIT))
    queued.set()
    assert results(outers) == {"inner"}


def test_a_short_wait_starts_no_thread(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most hooks are quick; a thousand calls with one each need no thousand threads."""
    monkeypatch.setattr(_threads, "_PATIENCE_S", 60.0)
    held = Held(in_wait=True)
    parts = [threads.submit(held) for _ in range(20)]
    held.await_begun(LIMIT)
    assert not held.begun.acquire(timeout=0.1)
    assert _running() == LIMIT
    held.go.set()
    results(parts)
    assert _running() == LIMIT


def test_a_part_may_be_run_at_once(threads: Threads) -> None:
    """Where all threads are taken, in one more."""
    held = Held()
    parts = [threads.submit(held) for _ in range(LIMIT + 2)]
    held.await_begun(LIMIT)
    assert threads.submit(lambda: "nested", at_once=True).result(30) == "nested"
    held.go.set()
    results(parts)


def test_idle_threads_end(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """And new ones come when they are needed."""
    monkeypatch.setattr(_threads, "_IDLE_S", 0.01)
    for _ in range(2):
        assert threads.submit(lambda: "done").result(30) == "done"
        _until(lambda: _running() == 0)


def test_what_was_cancelled_in_the_queue_never_runs(threads: Threads) -> None:
    """It takes no thread either."""
    held = Held()
    parts = [threads.submit(held) for _ in range(LIMIT)]
    ran: list[str] = []
    cancelled = threads.submit(lambda: ran.append("cancelled"))
    assert cancelled.cancel()
    held.go.set()
    results(parts)
    assert threads.submit(lambda: "next").result(30) == "next"
    assert ran == []


def test_the_end_waits_for_all_that_is_there(threads: Threads) -> None:
    """What is queued runs too; what comes later is refused."""
    held = Held()
    parts = [threads.submit(held) for _ in range(3 * LIMIT)]
    held.await_begun(LIMIT)
    finishing = threading.Thread(target=threads.finish)
    finishing.start()
    finishing.join(0.05)
    assert finishing.is_alive()
    with pytest.raises(RuntimeError, match="about to end"):
        threads.submit(lambda: None)
    held.go.set()
    finishing.join(30)
    assert not finishing.is_alive()
    assert all(part.done() for part in parts)


def test_a_failure_is_the_futures(threads: Threads) -> None:
    """The thread goes on."""

    def fail() -> None:
        raise LookupError("part")

    with pytest.raises(LookupError, match="part"):
        threads.submit(fail).result(30)
    assert threads.submit(lambda: "next").result(30) == "next"


def _running() -> int:
    return sum(thread.name == "test-threads" for thread in threading.enumerate())


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
