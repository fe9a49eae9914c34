"""What a hook is, and how hook arguments become one list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias

from laya.errors import HookError
from laya.hooks._context import HOOK_EVENTS, PredictContext
from laya.hooks._coroutines import run_coroutine_sync

PredictHook: TypeAlias = Callable[[PredictContext], Any]
"""A callable, plain or async, for `on_predict_start=` and `on_predict_end=`."""

HookArg: TypeAlias = Any
"""One hook, a list or tuple of them, or None. No type can say "any subset of the six events"."""

PredictHookArg: TypeAlias = PredictHook | list[PredictHook] | tuple[PredictHook, ...] | None
"""One callable, a list or tuple of them, or None."""


_ABSENT = object()


class Hook(Protocol):
    """Describe the events of a hook; an object with any subset of them is one."""

    def on_predict_start(self, ctx: PredictContext) -> None: ...
    def on_predict_end(self, ctx: PredictContext) -> None: ...
    def on_route(self, ctx: PredictContext) -> None: ...
    def on_load(self, ctx: PredictContext) -> None: ...
    def on_evict(self, ctx: PredictContext) -> None: ...
    def on_error(self, ctx: PredictContext) -> None: ...


class BaseHook:
    """Do nothing on any event; a subclass overrides those it needs."""

    def on_predict_start(self, ctx: PredictContext) -> Any:
        """See the call before anything is inferred; may rewrite it, skip inference or refuse the call."""

    def on_predict_end(self, ctx: PredictContext) -> Any:
        """See the call at its end, failed or not."""

    def on_route(self, ctx: PredictContext) -> Any:
        """See the Router's decision before anything is loaded; may replace it."""

    def on_load(self, ctx: PredictContext) -> Any:
        """See a checkpoint that was built."""

    def on_evict(self, ctx: PredictContext) -> Any:
        """See a checkpoint that was freed."""

    def on_error(self, ctx: PredictContext) -> Any:
        """See the failure of a call, before `on_predict_end`."""


class AsyncHook(BaseHook):
    """Run the async methods of `hook` to their end, on `loop` where one is given.

    The loop is checked when an event runs: it must be running, in another thread.
    """

    def __init__(self, hook: Any, loop: asyncio.AbstractEventLoop | None = None) -> None:
        check_hook(hook, "hook")
        self.hook = hook
        self.loop = loop

    def on_predict_start(self, ctx: PredictContext) -> None:
        self._run("on_predict_start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> None:
        self._run("on_predict_end", ctx)

    def on_route(self, ctx: PredictContext) -> None:
        self._run("on_route", ctx)

    def on_load(self, ctx: PredictContext) -> None:
        self._run("on_load", ctx)

    def on_evict(self, ctx: PredictContext) -> None:
        self._run("on_evict", ctx)

    def on_error(self, ctx: PredictContext) -> None:
        self._run("on_error", ctx)

    def _run(self, event: str, ctx: PredictContext) -> None:
        method = getattr(self.hook, event, None)
        outcome = None if method is None else method(ctx)
        if isawaitable(outcome):
            run_coroutine_sync(outcome, self.loop)


class CallableHook:
    """Run one callable on one event."""

    def __init__(self, event: str, function: PredictHook) -> None:
        self.function = function
        setattr(self, event, function)


def normalise_hooks(
    hooks: HookArg = None, on_predict_start: PredictHookArg = None, on_predict_end: PredictHookArg = None
) -> list[Any]:
    """Return the hooks of all three arguments in the order in which they run.

    Args:
        hooks: One hook, or a list or tuple of them.
        on_predict_start: One callable, or a list or tuple of them; they come after `hooks`.
        on_predict_end: The same for the end; they come last.

    Raises:
        TypeError: Something given isn't a hook, or isn't callable.
    """
    given = [] if hooks is None else list(hooks) if _is_sequence(hooks) else [hooks]
    for hook in given:
        check_hook(hook, "hooks")
    for event, functions in (("on_predict_start", on_predict_start), ("on_predict_end", on_predict_end)):
        given += [CallableHook(event, function) for function in _callables(functions, event)]
    return given


def check_hook(hook: object, option: str) -> None:
    """Refuse what isn't a hook object, naming the argument it came by."""
    kind = type(hook).__name__
    if isinstance(hook, type):
        raise HookError(f"{option} got the class {hook.__name__}; pass an instance of it", option=option)
    events = {event: getattr(hook, event, _ABSENT) for event in HOOK_EVENTS}
    events = {event: method for event, method in events.items() if method is not _ABSENT}
    if not events:
        advice = (
            "pass a callable as on_predict_start= or on_predict_end="
            if callable(hook)
            else f"a hook implements at least one of {', '.join(HOOK_EVENTS)}"
        )
        raise HookError(f"{option} got {kind}, which has none of the hook events; {advice}", option=option)
    for event, method in events.items():
        if not callable(method):
            raise HookError(
                f"{option} got {kind}, whose {event} is {type(method).__name__}; make it a method",
                option=option,
                event=event,
            )


def hook_name(hook: object) -> str:
    """Return the name by which a message speaks of `hook`."""
    if isinstance(hook, AsyncHook):
        return hook_name(hook.hook)
    if isinstance(hook, CallableHook):
        return str(getattr(hook.function, "__name__", type(hook.function).__name__))
    return type(hook).__name__


def _is_sequence(value: object) -> bool:
    """Tell a list or tuple of hooks from a hook that is one itself, such as a NamedTuple with methods."""
    return isinstance(value, (list, tuple)) and not any(hasattr(value, event) for event in HOOK_EVENTS)


def _callables(functions: PredictHookArg, option: str) -> list[PredictHook]:
    if functions is None:
        return []
    given: list[Any] = list(functions) if isinstance(functions, (list, tuple)) else [functions]
    for function in given:
        if not callable(function):
            raise HookError(
                f"{option} got {type(function).__name__}, which can't be called; "
                "pass a callable, or a hook object as hooks=",
                option=option,
            )
    return given
