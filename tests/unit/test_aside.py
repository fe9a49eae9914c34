"""Parts of an async call where threads are hard to come by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from laya import _aside
from laya._aside import Aside


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A pool without threads, in place of the one of the process."""
    pool = _aside._Pool()
    monkeypatch.setattr(_aside, "_pool", pool)
    yield pool
    if pool._executor is not None:
        pool._executor.shutdown()


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, no thread can be started."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr(threading.Thread, "start", refuse)


async def test_a_part_whose_thread_can_not_start_never_runs(pool: Any, no_more_threads: Callable[[], None]) -> None:
    """The caller has its error; nobody would end what a part begins after that."""
    back = threading.Event()
    ran: list[str] = []
    busy = asyncio.create_task(Aside()(lambda: back.wait(30)))
    await asyncio.sleep(0.05)
    no_more_threads()
    with pytest.raises(RuntimeError, match="can't start"):
        await Aside()(lambda: ran.append("second"))
    back.set()
    assert await busy
    pool._executor.shutdown()
    assert ran == []


async def test_what_must_end_a_call_runs_without_a_thread(pool: Any, no_more_threads: Callable[[], None]) -> None:
    """Rather here, on the loop, than never; and with its error."""
    no_more_threads()
    threads: list[threading.Thread] = []
    await Aside().surely(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    with pytest.raises(LookupError, match="end"):
        await Aside().surely(lambda: (_ for _ in ()).throw(LookupError("end")))


async def test_a_part_that_another_thread_took_counts_as_begun(pool: Any) -> None:
    """It can run before the executor finds that it can start no thread."""

    class Late(ThreadPoolExecutor):
        def submit(self, *args: Any, **options: Any) -> Any:
            super().submit(*args, **options).result()
            raise RuntimeError("can't start new thread")

    pool._executor = Late(1)
    assert await Aside()(lambda: "done") == "done"
