"""Parts of an async call where threads are hard to come by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from laya import _aside
from laya._aside import _THREADS, Aside
from laya._threads import Threads
from laya.hooks import PredictContext
from laya.testing import FakeRunner

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    """A pool without threads, in place of the one of the process."""
    pool = Threads(_THREADS, "test-aside")
    monkeypatch.setattr(_aside, "_threads", pool)
    yield pool
    pool.finish()


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, no thread can be started."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr(threading.Thread, "start", refuse)


async def test_a_part_whose_thread_can_not_start_never_runs(pool: Threads, no_more_threads: Callable[[], None]) -> None:
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
    pool.finish()
    assert ran == []


async def test_what_must_end_a_call_runs_without_a_thread(pool: Threads, no_more_threads: Callable[[], None]) -> None:
    """Rather here, on the loop, than never; and with its error."""
    no_more_threads()
    threads: list[threading.Thread] = []
    await Aside().surely(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    with pytest.raises(LookupError, match="end"):
        await Aside().surely(lambda: (_ for _ in ()).throw(LookupError("end")))


async def test_hooks_may_wait_for_calls_that_others_make(pool: Threads) -> None:
    """More at once than there are threads, for calls that can't be known for theirs: an application's own worker
    makes them, on the loop and in its own context."""
    helper, todo = FakeRunner(), asyncio.Queue[tuple[Any, Future[Any]]]()
    loop = asyncio.get_running_loop()

    def tell(done: Future[Any], task: asyncio.Task[Any]) -> None:
        done.set_result(task.result())

    async def work() -> None:
        answering = set()
        while True:
            state, done = await todo.get()
            task = asyncio.create_task(helper.apredict(state, QUESTIONS))
            task.add_done_callback(partial(tell, done))
            answering.add(task)

    def enrich(ctx: PredictContext) -> None:
        done: Future[Any] = Future()
        loop.call_soon_threadsafe(todo.put_nowait, (ctx.states[0], done))
        ctx.states = [done.result(30)["model"]]

    worker = asyncio.create_task(work())
    agent, count = FakeRunner(on_predict_start=enrich), 2 * _THREADS
    calls = asyncio.gather(*(agent.apredict(f"state {index}", QUESTIONS) for index in range(count)))
    assert len(await asyncio.wait_for(calls, 25)) == count
    worker.cancel()
