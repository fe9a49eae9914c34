"""Threads for blocking work that may wait for more such work."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, TypeVar

from laya import _exit

T = TypeVar("T")

_IDLE_S = 10.0
"""How long a thread waits for more before it ends."""
_PATIENCE_S = 0.2
"""How long a part may wait and still be taken for one that will go on by itself."""

_Part = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """Runs parts in the order in which they come, `limit` at once and one more for each that has waited for a while.

    A part says where it waits (`waiting`), for it may be for a part that is still in the queue: if as many as there
    are threads did so, nothing would ever go on. Short waits start no thread. While long ones last, `limit` parts more
    are begun in each `_PATIENCE_S`, as long as there are any; without them there are never more threads than `limit`,
    however many parts come.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._renew()

    def submit(self, function: Callable[[], T], at_once: bool = False) -> Future[T]:
        """Run `function` in one of the threads; `at_once` also in one more than `limit`.

        Raises `RuntimeError` where that takes a thread that can't be started.
        """
        future: Future[T] = Future()
        with self._changing:
            if self._ended:
                raise RuntimeError("no thread runs async calls any more: the process is about to end")
            if at_once or self._has_room():
                self._start((future, function))
            else:
                self._queue.append((future, function))
                self._watch()
        return future

    def finish(self) -> None:
        """Take no more parts, and wait until those that are there have ended. An interrupt (Ctrl-C) ends the wait."""
        with self._changing:
            self._ended = True
            idle = self._idle.copy()
            self._idle.clear()
        for worker in idle:
            worker.wake.set()
        while workers := self._workers.copy():
            for worker in workers:
                worker.join()

    def forget(self) -> None:
        """Start anew: a forked child has none of the threads."""
        self._renew()

    def _renew(self) -> None:
        self._changing = threading.Lock()
        self._queue: deque[_Part] = deque()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._busy = 0
        """Parts that have been given to a thread and have not ended."""
        self._waits: dict[object, float] = {}
        """When those of them that wait began to; the oldest first."""
        self._watching = False
        self._ended = False

    def _has_room(self) -> bool:
        if self._busy < self._limit:
            return True
        latest = time.monotonic() - _PATIENCE_S
        long = sum(1 for _ in takewhile(lambda began: began <= latest, self._waits.values()))
        return self._busy - long < self._limit

    def _start(self, part: _Part) -> None:
        if self._idle:
            worker = self._idle.pop()
            worker.part = part
            worker.wake.set()
        else:
            worker = _Worker(self, self._name, part)
            worker.start()
            self._workers.add(worker)
        self._busy += 1

    def _watch(self) -> None:
        """See to it that somebody looks after the queue while all threads may be waiting for it."""
        if not self._watching:
            try:
                threading.Thread(target=self._serve_queue, name="laya-queue", daemon=True).start()
                self._watching = True
            except RuntimeError:  # the process has too many threads; those that there are go on
                return

    def _serve_queue(self) -> None:
        while True:
            time.sleep(_PATIENCE_S)
            with self._changing:
                while self._queue and self._has_room():
                    try:
                        self._start(self._queue[0])
                    except RuntimeError:  # too many threads: the next that is free takes it
                        break
                    self._queue.popleft()
                if not self._queue:
                    self._watching = False
                    return

    def _wait_begins(self, wait: object) -> None:
        with self._changing:
            self._waits[wait] = time.monotonic()

    def _wait_ends(self, wait: object) -> None:
        with self._changing:
            self._waits.pop(wait, None)

    def _next(self, worker: _Worker) -> _Part | None:
        """The next part, at once or within a while; None when the thread is to end."""
        with self._changing:
            self._busy -= 1
            if self._queue and self._has_room():
                self._busy += 1
                return self._queue.popleft()
            if self._ended:
                self._workers.discard(worker)
                return None
            worker.wake.clear()
            self._idle.append(worker)
        worker.wake.wait(_IDLE_S)
        with self._changing:
            if worker in self._idle:
                self._idle.remove(worker)
            if worker.part is None:
                self._workers.discard(worker)
            return worker.take()


class _Worker(threading.Thread):
    """A thread, and what it is to do next."""

    def __init__(self, threads: Threads, name: str, part: _Part) -> None:
        # A daemon: an idle one must not hold up the end of the process, which waits for the others itself.
        super().__init__(name=name, daemon=True)
        self.wake = threading.Event()
        self.part: _Part | None = part
        self._threads = threads

    def take(self) -> _Part | None:
        part, self.part = self.part, None
        return part

    def run(self) -> None:
        _here.threads = self._threads
        _exit.awaited.at_exit = True
        part = self.take()
        while part is not None:
            serve(*part)
            del part  # nothing of a call is kept while the next is waited for
            part = self._threads._next(self)


def serve(future: Future[T], function: Callable[[], T]) -> None:
    """Run `function`, unless its future was cancelled, and set what becomes of it."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


_here = threading.local()
"""Has `threads` in their threads, outside of waits."""


@contextmanager
def waiting() -> Iterator[None]:
    """Let others run, while what runs in this block, in one of the threads, may wait for them."""
    threads: Threads | None = getattr(_here, "threads", None)
    if threads is None:
        yield
        return
    wait = object()
    _here.threads = None  # what the block calls in turn waits within this wait
    threads._wait_begins(wait)
    try:
        yield
    finally:
        threads._wait_ends(wait)
        _here.threads = threads
