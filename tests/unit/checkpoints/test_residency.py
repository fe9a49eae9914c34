"""Which agents are in memory, and who builds them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from laya._checkpoints.residency import Residency

WAIT_S = 30


class Built:
    """What a build makes; each is its own."""

    def __init__(self, name: str) -> None:
        self.name = name


class Workshop:
    """A build that can be held up, can fail, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.errors: dict[str, BaseException] = {}
        self.held: set[str] = set()
        self.began = threading.Semaphore(0)
        self.go_on = threading.Event()

    def build(self, name: str) -> Built:
        """Build one, or raise the error that stands for it, once."""
        self.asked.append(name)
        held, error = name in self.held, self.errors.pop(name, None)
        if held:
            self.began.release()
            assert self.go_on.wait(WAIT_S)
        if error is not None:
            raise error
        return Built(name)

    def wait_for_build(self) -> None:
        """Return as soon as a held build is under way."""
        assert self.began.acquire(timeout=WAIT_S)


@pytest.fixture
def workshop() -> Workshop:
    """What builds."""
    return Workshop()


@pytest.fixture
def residency(workshop: Workshop) -> Residency:
    """A table with room for two."""
    return Residency(workshop.build, 2)


@pytest.fixture
def pool(workshop: Workshop) -> Iterator[ThreadPoolExecutor]:
    """Threads; a held build is let go before they are waited for."""
    with ThreadPoolExecutor(8) as pool:
        yield pool
        workshop.go_on.set()


def wait_until(true: Callable[[], bool]) -> None:
    """Return as soon as something is true."""
    pause = threading.Event()
    for _ in range(WAIT_S * 1000):
        if true():
            return
        pause.wait(0.001)
    raise AssertionError("it never came true")


def waiting_threads(residency: Residency) -> int:
    """How many threads wait for a build of another."""
    return len(residency._changed._waiters)  # type: ignore[attr-defined]


def outcomes(calls: list[Future[Any]]) -> list[Any]:
    """What calls returned or raised."""
    return [call.exception(WAIT_S) or call.result() for call in calls]


def test_a_name_is_built_once_and_then_kept(residency: Residency, workshop: Workshop) -> None:
    """The first call says that it built, later ones do not."""
    first, second = residency.get("a"), residency.get("a")
    assert first.agent is second.agent
    assert (first.built, second.built) == (True, False)
    assert workshop.asked == ["a"]


def test_the_least_recently_used_goes_first(residency: Residency, workshop: Workshop) -> None:
    """Asking for a resident name makes it the most recent; the one that leaves is named."""
    residency.get("a")
    residency.get("b")
    assert residency.names == ["a", "b"]
    assert residency.get("a").evicted == ()
    assert residency.names == ["b", "a"]
    assert residency.get("c").evicted == ("b",)
    assert residency.names == ["a", "c"]
    assert residency.get("b").evicted == ("a",)
    assert workshop.asked == ["a", "b", "c", "b"]


def test_an_evicted_agent_is_not_held(residency: Residency) -> None:
    """The table keeps no reference, so the memory goes with the caller's."""
    seen = weakref.ref(residency.get("a").agent)
    residency.get("b")
    assert seen() is not None
    residency.get("c")
    assert seen() is None


def test_put_keeps_all_and_raises_the_limit(residency: Residency, workshop: Workshop) -> None:
    """What a caller registers is never built and pushes nobody out."""
    residency.get("a")
    residency.get("b")
    mine = Built("c")
    residency.put("c", mine)
    assert residency.names == ["a", "b", "c"]
    assert residency.limit == 3
    assert residency.get("c").agent is mine
    assert workshop.asked == ["a", "b"]


def test_put_replaces_an_agent_of_that_name(residency: Residency) -> None:
    """The new one counts as just used, and the limit stays."""
    residency.get("a")
    residency.get("b")
    mine = Built("a")
    residency.put("a", mine)
    assert residency.names == ["b", "a"]
    assert residency.limit == 2
    assert residency.get("a").agent is mine


def test_reserve_counts_what_is_resident_once(residency: Residency) -> None:
    """Names that are there already need no further room, and the limit never falls."""
    residency.get("a")
    residency.get("x")
    residency.reserve({"a", "b", "c"})
    assert residency.limit == 4
    residency.reserve({"a"})
    assert residency.limit == 4


def test_remove_drops_one_or_all(residency: Residency, workshop: Workshop) -> None:
    """It says what was resident; what is gone is built again."""
    residency.get("a")
    residency.get("b")
    assert residency.remove("nowhere") == []
    assert residency.remove("a") == ["a"]
    assert residency.names == ["b"]
    residency.get("a")
    assert residency.remove() == ["b", "a"]
    assert residency.remove() == []
    residency.get("b")
    assert workshop.asked == ["a", "b", "a", "b"]


def test_threads_share_one_build(residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor) -> None:
    """Those that come while it runs wait for it; one of all calls says that it built."""
    workshop.held.add("a")
    calls = [pool.submit(residency.get, "a") for _ in range(6)]
    workshop.wait_for_build()
    wait_until(lambda: waiting_threads(residency) == 5)
    workshop.go_on.set()
    loaded = outcomes(calls)
    assert workshop.asked == ["a"]
    assert len({id(each.agent) for each in loaded}) == 1
    assert sorted(each.built for each in loaded) == [False] * 5 + [True]


def test_the_table_is_free_while_one_is_built(
    residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor
) -> None:
    """Others are got, built, put, removed and listed meanwhile."""
    residency.get("b")
    workshop.held.add("a")
    slow = pool.submit(residency.get, "a")
    workshop.wait_for_build()

    def others() -> list[str]:
        residency.get("b")
        residency.get("c")
        residency.put("d", Built("d"))
        residency.reserve({"c"})
        residency.remove("c")
        return residency.names

    assert pool.submit(others).result(WAIT_S) == ["b", "d"]
    assert not slow.done()
    workshop.go_on.set()
    assert slow.result(WAIT_S).agent.name == "a"
    assert residency.names == ["b", "d", "a"]


def test_two_names_are_built_at_the_same_time(
    residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor
) -> None:
    """One slow build doesn't hold up another."""
    workshop.held |= {"a", "b"}
    calls = [pool.submit(residency.get, name) for name in "ab"]
    workshop.wait_for_build()
    workshop.wait_for_build()
    workshop.go_on.set()
    assert sorted(loaded.agent.name for loaded in outcomes(calls)) == ["a", "b"]


def test_a_failed_build_leaves_nothing_and_evicts_nothing(residency: Residency, workshop: Workshop) -> None:
    """The next call tries again."""
    residency.get("b")
    residency.get("c")
    workshop.errors["a"] = OSError("no such file")
    with pytest.raises(OSError, match="no such file"):
        residency.get("a")
    assert residency.names == ["b", "c"]
    assert residency.get("a").evicted == ("b",)
    assert workshop.asked.count("a") == 2


def test_waiting_threads_share_the_failure(residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor) -> None:
    """They don't queue up to fail one after the other."""
    workshop.held.add("a")
    workshop.errors["a"] = OSError("no such file")
    calls = [pool.submit(residency.get, "a") for _ in range(5)]
    workshop.wait_for_build()
    wait_until(lambda: waiting_threads(residency) == 4)
    workshop.go_on.set()
    assert [type(each) for each in outcomes(calls)] == [OSError] * 5
    assert workshop.asked == ["a"]
    assert residency.get("a").built


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_stays_in_its_own_thread(
    residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor, interrupt: type[BaseException]
) -> None:
    """One of those that waited builds instead; the others wait for that one."""
    workshop.held.add("a")
    workshop.errors["a"] = interrupt()
    ended: list[BaseException] = []

    def builder() -> None:
        try:
            residency.get("a")
        except BaseException as error:
            ended.append(error)

    first = threading.Thread(target=builder)
    first.start()
    workshop.wait_for_build()
    calls = [pool.submit(residency.get, "a") for _ in range(4)]
    wait_until(lambda: waiting_threads(residency) == 4)
    workshop.go_on.set()
    first.join(WAIT_S)
    loaded = outcomes(calls)
    assert [type(error) for error in ended] == [interrupt]
    assert len({id(each.agent) for each in loaded}) == 1
    assert workshop.asked == ["a", "a"]
    assert residency.names == ["a"]


def test_waiting_threads_get_the_agent_even_if_it_was_evicted_since(
    residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor
) -> None:
    """The wait ends with an agent, not with another build."""
    residency.limit = 0  # it leaves as soon as it is there
    workshop.held.add("a")
    calls = [pool.submit(residency.get, "a") for _ in range(3)]
    workshop.wait_for_build()
    wait_until(lambda: waiting_threads(residency) == 2)
    workshop.go_on.set()
    assert len({id(loaded.agent) for loaded in outcomes(calls)}) == 1
    assert workshop.asked == ["a"]
    assert residency.names == []


def test_an_agent_put_during_a_build_stays(residency: Residency, workshop: Workshop, pool: ThreadPoolExecutor) -> None:
    """Who waited gets it too; what was built is dropped, and nobody says that it built."""
    workshop.held.add("a")
    calls = [pool.submit(residency.get, "a") for _ in range(3)]
    workshop.wait_for_build()
    wait_until(lambda: waiting_threads(residency) == 2)
    mine = Built("a")
    residency.put("a", mine)
    workshop.go_on.set()
    loaded = outcomes(calls)
    assert [each.agent is mine for each in loaded] == [True] * 3
    assert [each.built for each in loaded] == [False] * 3
    assert residency.get("a").agent is mine
    assert residency.names == ["a"]
