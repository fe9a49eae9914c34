"""The calls under way and their spans: each span ends once, with its call or when the call's context is gone."""

from __future__ import annotations

import atexit
import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from threading import RLock
from weakref import WeakKeyDictionary, WeakSet, finalize

from opentelemetry.trace import Span

from laya.hooks import PredictContext
from laya_integrations.opentelemetry.attributes import Attributes


@dataclass(eq=False, slots=True)
class TracedCall:
    """How far the tracing of one call has come."""

    model: Attributes = field(default_factory=dict)
    """What metrics are split by, for a call whose context can't be asked any more."""
    span: Span | None = None
    """The open span; None before it is opened and once it is being closed."""
    opening: bool = False
    ended: bool = False


class OpenCalls:
    """Know the calls of one hook by their contexts. Safe to share between threads; its lock covers no foreign code.

    By the context itself and not by run_id, which hooks may rewrite; weakly, so that nothing is left behind. A call
    stays known after its end, for as long as its context lives: a hook that is installed twice counts once.

    `end_unheard` gets a call whose context went away with its span open, the span, and when that was (ns since the
    epoch). It runs in a thread of its own, or at the exit of the process, and must not raise.
    """

    def __init__(self, end_unheard: Callable[[TracedCall, Span, int], None]) -> None:
        self._end_unheard = end_unheard
        # Reentrant: a finalizer of somebody's that makes a call may run at any allocation, also under this lock.
        self._lock = RLock()
        self._calls: WeakKeyDictionary[PredictContext, TracedCall] = WeakKeyDictionary()
        self._unheard: deque[tuple[TracedCall, Span, int]] = deque()
        _registries.add(self)

    def __len__(self) -> int:
        return len(self._calls)

    def span(self, ctx: PredictContext) -> Span | None:
        """The open span of a call."""
        with self._lock:
            call = self._calls.get(ctx)
            return None if call is None else call.span

    def begin(self, ctx: PredictContext, model: Attributes) -> TracedCall | None:
        """Reserve a call for the caller, who opens its span and hands it to `opened`; None where it is known."""
        with self._lock:
            if ctx in self._calls:
                return None
            call = self._calls[ctx] = TracedCall(model, opening=True)
        finalize(ctx, self._left, call).atexit = False
        _watch_exit()
        return call

    def opened(self, call: TracedCall, span: Span | None) -> bool:
        """Keep the span of a reserved call, None where it couldn't be opened.

        False where the call ended meanwhile: then the caller closes the span.
        """
        with self._lock:
            call.opening = False
            if not call.ended:
                call.span = span
            return not call.ended

    def finish(self, ctx: PredictContext) -> tuple[bool, Span | None]:
        """Note that a call has ended: whether the caller is to close it, and its span where one is open.

        It is for nobody to close twice, and for its opener where that is still at it.
        """
        with self._lock:
            call = self._calls.get(ctx)
            if call is None:
                call = self._calls[ctx] = TracedCall()
            mine = not call.ended and not call.opening
            span, call.span, call.ended = call.span, None, True
            return mine, span

    def end_all(self) -> None:
        """End what is open, as at the exit of the process: an uncaught error keeps its context until after that."""
        with self._lock:
            for call in self._calls.values():
                self._give_up(call)
        self._end_given_up()

    def _left(self, call: TracedCall) -> None:
        """The context is gone.

        This may run inside the garbage collection of a thread that holds a lock of the tracer, a processor or an
        exporter. So it takes none, and another thread ends the span; `threading.Thread` would take some to start.
        """
        if self._give_up(call):
            with suppress(RuntimeError):  # No thread can be had: the next one ends this span too, or the exit does.
                start_new_thread(self._end_given_up, ())

    def _give_up(self, call: TracedCall) -> bool:
        span, call.span, call.ended = call.span, None, True
        if span is None:
            return False
        self._unheard.append((call, span, time.time_ns()))
        return True

    def _end_given_up(self) -> None:
        while True:
            try:
                call, span, ended_ns = self._unheard.popleft()
            except IndexError:
                return
            self._end_unheard(call, span, ended_ns)


_registries: WeakSet[OpenCalls] = WeakSet()


@cache
def _watch_exit() -> None:
    """Once there is a call: what is registered later runs earlier, and the provider's shutdown must come after."""
    atexit.register(_end_open_calls)


def _end_open_calls() -> None:
    for calls in list(_registries):
        calls.end_all()
