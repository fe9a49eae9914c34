"""What happens between the start hooks and the end hooks of a call, blocking or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from laya._aside import Aside
from laya._lifecycle import Lifecycle
from laya._lowering import lower_questions
from laya._pipeline.calibration import Temperatures
from laya._pipeline.engine import BatchOptions, Engine
from laya._pipeline.rows import CallRows
from laya._sharing import SharedPasses
from laya.hooks import PredictContext

Wait = Callable[[], Awaitable[None]]
"""Waits on the event loop, without a thread; cancelling it takes the request back."""


class Inference(Protocol):
    """Answers the contexts of one call: by `infer`, or in two blocking parts with waits in between."""

    def infer(self, pending: list[PredictContext]) -> None:
        """Set the results, in this thread."""

    def ask(self, pending: list[PredictContext]) -> Sequence[Wait]:
        """Check what is asked and request it; where that answers it already, there is nothing to wait for."""

    def answer(self) -> None:
        """Set the results, when all waits are over."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call before its start hooks."""

    lifecycle: Lifecycle
    contexts: Iterable[PredictContext]
    inference: Inference

    def run(self) -> list[PredictContext]:
        """Start, infer and end, in this thread; return the contexts."""
        return self.lifecycle.run(self.contexts, self.inference.infer)


class AsyncRun:
    """Runs the lifecycle of one call off the event loop: `Lifecycle.run`, with waits that take no thread."""

    def __init__(self, aside: Aside, prepare: Callable[[], Prepared]) -> None:
        self._aside = aside
        self._prepare = prepare
        self._call: Prepared | None = None
        """None before the contexts start, and again when they have ended."""
        self._started: list[PredictContext] = []

    async def finish(self) -> list[PredictContext]:
        """Start, infer and end; return the contexts. Raises as `Lifecycle.run` does, and when the task is cancelled."""
        try:
            for wait in await self._aside(self._begin):
                await wait()
        except BaseException as error:
            if self._call is not None:
                await self._aside.surely(partial(self._fail, self._call, error))
            raise
        if self._call is not None:
            await self._aside.surely(partial(self._end, self._call))
        return self._started

    def _begin(self) -> Sequence[Wait]:
        self._aside.check()
        self._call = call = self._prepare()
        try:
            pending = call.lifecycle.start(call.contexts, self._started)
            self._aside.check()
            waits = call.inference.ask(pending)
        except BaseException as error:
            self._fail(call, error)
            raise
        if not waits:
            self._end(call)
        return waits

    def _end(self, call: Prepared) -> None:
        try:
            call.inference.answer()
        except BaseException as error:
            self._fail(call, error)
            raise
        self._call = None
        call.lifecycle.end(self._started)

    def _fail(self, call: Prepared, error: BaseException) -> None:
        self._call = None
        call.lifecycle.fail(self._started, error)


@dataclass(slots=True)
class EngineInference:
    """Answers with an engine: in passes of the call's own, or in shared ones where its rows are few."""

    engine: Engine
    shared: SharedPasses | None
    options: BatchOptions
    temperatures: Temperatures | None
    check: Callable[[PredictContext], None] | None = None
    """Refuses what the start hooks left."""
    _joined: list[tuple[PredictContext, CallRows, Future[None]]] = field(default_factory=list)

    def infer(self, pending: list[PredictContext]) -> None:
        """Ask, wait in this thread, and answer."""
        self.ask(pending)
        waiting = [done for _, _, done in self._joined]
        try:
            while waiting:
                waiting[-1].result()
                waiting.pop()
        except BaseException:
            # An interrupted caller takes its rows out. Nothing keeps a future here: it holds the error, whose
            # traceback holds this call.
            while waiting:
                waiting.pop().cancel()
            self._joined.clear()
            raise
        self.answer()

    def ask(self, pending: list[PredictContext]) -> list[Wait]:
        """Infer at once, or have the rows join a shared pass."""
        for ctx in pending:
            if self.check is not None:
                self.check(ctx)
            # A start hook may have put models where dicts were.
            asked = ctx.states, lower_questions(ctx.questions), (ctx.max_len, ctx.head_max_len)
            shared = self._shared()
            rows = None if shared is None else self.engine.prepare(*asked, self.temperatures)
            if shared is None or rows is None:
                _set_results(ctx, self.engine.infer(*asked, self.options, self.temperatures))
            else:
                self._joined.append((ctx, rows, shared.join(rows)))
        return [partial(_wait, done) for _, _, done in self._joined]

    def answer(self) -> None:
        """Set the results of what joined."""
        for ctx, rows, _ in self._joined:
            _set_results(ctx, rows.results())

    def _shared(self) -> SharedPasses | None:
        """The passes to share; None for a call that says how its own are made or shown."""
        own = self.options.batch_size is not None or self.options.show_progress
        return None if own else self.shared


async def _wait(done: Future[None]) -> None:
    await asyncio.wrap_future(done)


def _set_results(ctx: PredictContext, results: list[dict[str, object]]) -> None:
    for result in results:
        result["run_id"] = ctx.run_id
    ctx.results = results
