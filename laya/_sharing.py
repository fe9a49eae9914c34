"""Let calls that arrive within a short window share forward passes."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from laya._exit import native_code
from laya._forks import in_forked_child
from laya._numbers import as_float
from laya.errors import LayaError, OptionError

_IDLE_S = 0.25
"""How long the worker waits for more before it ends; while it waits, it keeps the model in memory."""


class Rows(Protocol):
    """What one call has to be computed."""

    @property
    def tokens(self) -> int:
        """Of all rows together."""

    @property
    def answered(self) -> bool:
        """Whether all rows have been through a pass."""


RunTogether = Callable[[Sequence[Any]], Iterator[tuple[Sequence[Any], Exception] | None]]
"""Runs the rows of several calls; yields after each pass, when some of them may have been answered.

For a pass that failed it yields the calls with rows in it and the error, and goes on with the next.
"""


class SharedPasses:
    """Gathers calls, and runs their rows as one set. Safe to use from many threads and event loops.

    A gathering starts with the first call that waits. It runs once `window_s` have passed since, or once
    `full_tokens` have gathered, and not before the passes of the one before have ended: calls that arrive meanwhile
    go together, and without a wait if theirs is over by then. A lone call is delayed by the window, never by more.

    One thread runs all passes. It starts with the first call and ends when no more come. No caller runs another's
    rows: whoever is interrupted or cancelled leaves, and the others don't notice.
    """

    def __init__(self, run: RunTogether, window_s: float, full_tokens: int) -> None:
        self.window_s = window_s
        self._run = run
        self._full_tokens = full_tokens
        self._renew()
        in_forked_child(self._renew)

    def join(self, rows: Rows) -> Future[None]:
        """Have `rows` computed; the future ends when they are answered, or with the error of their pass.

        Cancelling it takes the rows out, unless their pass has begun. If a pass fails, each call with rows in it gets
        an exception instance of its own; the others go on.
        """
        ticket = _Ticket(rows)
        with self._changed:
            self._waiting.append(ticket)
            self._tokens += rows.tokens
            served = self._wake_worker()
        if not served:
            self._run_group(self._take())
        return ticket.done

    def _renew(self) -> None:
        """Start anew: a forked child has neither the thread nor those who wait."""
        self._changed = threading.Condition(threading.Lock())
        self._waiting: list[_Ticket] = []
        self._tokens = 0
        self._worker: threading.Thread | None = None

    def _wake_worker(self) -> bool:
        """See to it that a worker takes what waits; False where this process may start no thread."""
        if native_code.is_closed:  # a worker would be held back; the main thread may still compute itself
            return False
        # The thread itself says whether there is one: no interruption can leave behind a flag that is wrong.
        if self._worker is not None and self._worker.is_alive():
            if len(self._waiting) == 1 or self._is_full():
                self._changed.notify()
            return True
        self._worker = threading.Thread(target=self._serve, name="laya-shared-passes", daemon=True)
        try:
            self._worker.start()
        except RuntimeError:  # the process ends, or has too many threads
            self._worker = None
        return self._worker is not None

    def _serve(self) -> None:
        while (group := self._gather()) is not None:
            self._run_group(group)
            del group  # nothing of a call is kept while the next is waited for

    def _gather(self) -> list[_Ticket] | None:
        """Wait for the next group; None when the worker is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, _IDLE_S)
            if not self._waiting:
                self._worker = None
                return None
            closes = self._waiting[0].arrived + self.window_s
            self._changed.wait_for(self._is_full, max(0.0, closes - time.monotonic()))
        return self._take()

    def _is_full(self) -> bool:
        return self._tokens >= self._full_tokens

    def _take(self) -> list[_Ticket]:
        with self._changed:
            group, self._waiting, self._tokens = self._waiting, [], 0
        return group

    def _run_group(self, group: list[_Ticket]) -> None:
        open_tickets = [ticket for ticket in group if ticket.done.set_running_or_notify_cancel()]
        try:
            for failure in self._run([ticket.rows for ticket in open_tickets]):
                failed = []
                still_open = []
                for ticket in open_tickets:
                    if ticket.rows.answered:
                        ticket.done.set_result(None)
                    elif failure is not None and any(rows is ticket.rows for rows in failure[0]):
                        failed.append(ticket)
                    else:
                        still_open.append(ticket)
                open_tickets = still_open
                if failure is not None:
                    _fail(failed, failure[1])
        except BaseException as error:
            _fail(open_tickets, error)


class _Ticket:
    """A call's place in a gathering."""

    __slots__ = ("arrived", "done", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.done: Future[None] = Future()
        self.arrived = time.monotonic()


def parse_window(batch_window_ms: Any) -> float | None:
    """A `batch_window_ms` argument in seconds, or `OptionError` (a `ValueError`)."""
    if batch_window_ms is None:
        return None
    number = as_float(batch_window_ms)
    if number is not None and 0 <= number / 1000 <= threading.TIMEOUT_MAX:
        return number / 1000
    got = f"{batch_window_ms!r:.80}" if number is None else repr(number)
    raise OptionError(
        f"batch_window_ms must be a number of milliseconds from 0 on, or None, got {got}",
        option="batch_window_ms",
    )


def _fail(tickets: list[_Ticket], error: BaseException) -> None:
    """Give each call the error; where there are several, an instance each, since each call adds to its own."""
    for ticket in tickets:
        ticket.done.set_exception(error if len(tickets) == 1 else _instance_of(error))


def _instance_of(error: BaseException) -> BaseException:
    try:
        own = copy.copy(error)
    except Exception:  # its constructor takes other arguments than it keeps
        own = error
    if own is error or type(own) is not type(error):
        own = LayaError(f"the pass that this call shared with others failed with {type(error).__name__}: {error}")
    own.__cause__ = error
    return own
