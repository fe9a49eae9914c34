"""The prediction lifecycle: the only place where predict hooks fire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any

from laya._forks import in_forked_child
from laya._pipeline.confidence import ConfidenceGate
from laya._rewrites import Rewrites
from laya.hooks import HookRegistry, PredictContext, aggregate_usage, compose_hooks, dispatch, normalise_hooks
from laya.hooks._dispatch import check_timeout, warn_of_failure

Infer = Callable[[list[PredictContext]], None]
"""Fills `results` of the contexts that no hook has answered; called once, also where there are none."""


@dataclass(frozen=True, slots=True)
class HookPolicy:
    """How hooks are called during one public call."""

    raise_errors: bool = True
    lock: RLock | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Runs the predict events of one public call over its contexts; a single call is a list of one.

    `hooks` is the call's own snapshot. Every started context ends exactly once. A failure fails all contexts
    that have started, since the caller gets the exception and no result of any of them.
    """

    hooks: Sequence[Any]
    policy: HookPolicy
    gate: ConfidenceGate | None = None
    single: bool = False
    """Whether each context is about one state, and has one result."""

    def run(self, contexts: Iterable[PredictContext], infer: Infer) -> list[PredictContext]:
        """Start in order, infer what no hook answered, end in reverse order; return the contexts.

        Raises the first failure. An end hook's error is raised after all contexts have ended.
        """
        started: list[PredictContext] = []
        try:
            infer(self.start(contexts, started))
        except BaseException as error:
            self.fail(started, error)
            raise
        self.end(started)
        return started

    def start(self, contexts: Iterable[PredictContext], started: list[PredictContext]) -> list[PredictContext]:
        """Start contexts in order, noting each in `started` first; return those that no hook answered.

        The caller ends them all, by `fail` or `end`, also where this raises.
        """
        for ctx in contexts:
            started.append(ctx)
            self._emit_checked("on_predict_start", ctx)
        return [ctx for ctx in started if ctx.results is None]

    def end(self, started: Sequence[PredictContext]) -> None:
        """End contexts that were answered, in reverse order; raises the first failure after all have ended."""
        first: BaseException | None = None
        for ctx in reversed(started):
            try:
                self._end(ctx, self._emit_checked)
            except BaseException as error:
                first = _graver(first, error)
        if first is not None:
            raise first

    def fail(self, contexts: Sequence[PredictContext], error: BaseException) -> None:
        """Report `error` to contexts, in reverse order: on_error, then on_predict_end.

        A hook that fails here doesn't hide `error`: it is chained to the end of its `__context__`s.
        """
        for ctx in reversed(contexts):
            ctx.error = error
            for step in (partial(self.emit, "on_error", ctx), partial(self._end, ctx, self.emit)):
                try:
                    step()
                except BaseException as later:
                    _chain(error, later)

    def emit(self, event: str, ctx: PredictContext) -> None:
        """Call one event on every hook."""
        if self.hooks:
            dispatch(
                self.hooks,
                event,
                ctx,
                raise_errors=self.policy.raise_errors,
                lock=self.policy.lock,
                timeout=self.policy.timeout,
            )

    def _emit_checked(self, event: str, ctx: PredictContext) -> None:
        """Call one event on every hook; what they leave that no call can go on with is a failure of theirs."""
        if not self.hooks:
            return
        rewrites = Rewrites(ctx, event, self.single)
        self.emit(event, ctx)
        error = rewrites.error()
        if error is not None:
            if self.policy.raise_errors:
                raise error
            warn_of_failure(None, event, error)

    def _end(self, ctx: PredictContext, emit: Callable[[str, PredictContext], None]) -> None:
        try:
            ctx.elapsed_ms = (time.perf_counter() - ctx.started_at) * 1000.0
            if ctx.results is not None:
                ctx.usage = aggregate_usage(ctx.results)
                if self.gate is not None:
                    ctx.results = self.gate.apply(ctx.results)
        finally:
            # A hook of a failed call may have assigned what can't be read here.
            emit("on_predict_end", ctx)


_outer_call: ContextVar[bool] = ContextVar("laya_outer_call", default=False)


@contextmanager
def inner_call() -> Iterator[None]:
    """Mark the next public call of this context as part of one that has run the process-wide hooks.

    Only that one call: what its hooks call in turn is a call of its own, with the process-wide hooks.
    """
    token = _outer_call.set(True)
    try:
        yield
    finally:
        _outer_call.reset(token)


def _take_outer_call() -> bool:
    inside = _outer_call.get()
    if inside:
        _outer_call.set(False)
    return inside


@dataclass(frozen=True, slots=True)
class CallHooks:
    """The hook arguments of one public call, as the caller gave them; None means the instance's value."""

    hooks: Any = None
    on_predict_start: Any = None
    on_predict_end: Any = None
    hooks_raise: bool | None = None
    hooks_timeout: float | None = None

    def timeout(self) -> float | None:
        """The hooks' timeout in seconds, checked; raises `OptionError` (a `ValueError`)."""
        return None if self.hooks_timeout is None else check_timeout(self.hooks_timeout, "hooks_timeout")

    def check(self) -> None:
        """Refuse what is no hook, before any expensive work; raises `TypeError` or `ValueError`."""
        normalise_hooks(self.hooks, self.on_predict_start, self.on_predict_end)
        self.timeout()


class HookedRuntime(HookRegistry):
    """What every runtime shares: installed hooks, and how they are called."""

    def __init__(
        self,
        installed: CallHooks,
        hooks_concurrent: bool = True,
    ) -> None:
        super().__init__(installed.hooks, installed.on_predict_start, installed.on_predict_end)
        self.hooks_raise = True if installed.hooks_raise is None else bool(installed.hooks_raise)
        self.hooks_concurrent = hooks_concurrent
        self.hooks_timeout = installed.timeout()
        self._renew_locks()
        in_forked_child(self._renew_locks)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} can't be pickled or copied: it holds a model, hooks and locks; share it between "
            "threads, and load one in each process"
        )

    def _renew_locks(self) -> None:
        self._hook_lock = RLock()

    def _lifecycle(self, call: CallHooks, min_confidence: Any = None, *, single: bool = False) -> Lifecycle:
        """Check a call's hook arguments and take its snapshot of the hooks; `single` is about one state a context."""
        hooks = compose_hooks(
            self.hooks,
            call.hooks,
            call.on_predict_start,
            call.on_predict_end,
            process_defaults=not _take_outer_call(),
        )
        timeout = call.timeout()
        policy = HookPolicy(
            raise_errors=self.hooks_raise if call.hooks_raise is None else bool(call.hooks_raise),
            lock=None if self.hooks_concurrent else self._hook_lock,
            timeout=self.hooks_timeout if timeout is None else timeout,
        )
        return Lifecycle(hooks, policy, ConfidenceGate.parse(min_confidence), single)


def _chain(first: BaseException, later: BaseException) -> None:
    """Make `later` the `__context__` of `first`, which is what gets raised; nothing is lost and no circle closed."""
    before = first.__context__
    seen = {id(first)}
    node: BaseException = later
    while id(node) not in seen and node.__context__ is not None and id(node.__context__) not in seen:
        seen.add(id(node))
        node = node.__context__
    if node is first:
        return
    seen.add(id(node))
    # `later` was raised while `first` was handled: its own chain ends in `first`, and there takes the older context.
    node.__context__ = before if before is not None and id(before) not in seen else None
    first.__context__ = later


def _graver(first: BaseException | None, later: BaseException) -> BaseException:
    """Of two end hooks' failures the first is raised, but an interrupt is never lost behind an error."""
    if first is None or (isinstance(first, Exception) and not isinstance(later, Exception)):
        return later
    return first
