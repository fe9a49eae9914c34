"""Show laya's calls to LlamaIndex's observers: spans, events, and the token counts of callback handlers.

The classes of this package show theirs by themselves. For calls that your own code makes:

    LlamaIndexHook().install()                  # every call in this process
    runner.add_hook(LlamaIndexHook())           # every call of a runner
    runner.predict(state, questions, hooks=LlamaIndexHook())
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.settings import Settings
from llama_index_instrumentation.span import active_span_id

from laya.hooks import BaseHook, HookRegistry, PredictContext, add_default_hook, default_hooks, set_default_hooks
from laya_integrations._calls import CallStart, takes_part
from laya_integrations._decisions import Decisions
from laya_integrations._options import CallOptions
from laya_integrations.llama_index._spans import CallbackEvent, CallSpan, is_observed

logger = logging.getLogger(__name__)

_installing = threading.Lock()


class LlamaIndexHook(BaseHook):
    """Turn each laya call into a LlamaIndex span with a start and an end event, and an LLM event for callbacks.

    A call is a leaf under whatever span is active where it is made. However often it is hooked - by the
    process, the runner, the call, or by a Router and the agent that it asks - it shows once. A batch is one
    call with its tokens summed; a Router's batch is one call for each request, as it is to every hook. With
    nobody listening nothing is done. A failure is logged and never reaches the call; so a token budget of a
    `TokenCountingHandler` counts laya's tokens, and stops the next LLM call rather than laya's.

    Args:
        callback_manager: Whose handlers hear of the calls; without one, or while it has none, those of
            `Settings.callback_manager` at the time of the call.
    """

    def __init__(self, callback_manager: CallbackManager | None = None) -> None:
        self._callback_manager = callback_manager

    def install(self) -> LlamaIndexHook:
        """Show every call in this process; where a hook of this class is installed already, that one stays."""
        with _installing:
            if not self.is_installed():
                add_default_hook(self)
        return self

    @classmethod
    def uninstall(cls) -> bool:
        """Take the process-wide hook out again, and tell whether there was one."""
        with _installing:
            before = default_hooks()
            others = [hook for hook in before if not isinstance(hook, LlamaIndexHook)]
            if len(others) == len(before):
                return False
            set_default_hooks(others)
            return True

    @classmethod
    def is_installed(cls) -> bool:
        """Whether every call in this process is shown."""
        return any(isinstance(hook, LlamaIndexHook) for hook in default_hooks())

    def on_predict_start(self, ctx: PredictContext) -> None:
        """Open what the call shows."""
        try:
            _start(ctx, self._manager())
        except Exception as error:
            logger.warning("laya: a call could not be shown to LlamaIndex: %s", type(error).__name__)

    def on_predict_end(self, ctx: PredictContext) -> None:
        """Close what the call shows; it runs after a failure too."""
        with _lock:
            call = _open.pop(ctx, None)
        if call is None:
            return
        try:
            call.close(ctx)
        except Exception as error:
            logger.warning("laya: a call's end could not be shown to LlamaIndex: %s", type(error).__name__)

    def _manager(self) -> CallbackManager | None:
        return heard_manager(self._callback_manager)


def traced_decisions(
    runner: Any, questions: Any, options: CallOptions, callback_manager: CallbackManager | None = None
) -> Decisions:
    """Make the decisions of an adapter class, which show to LlamaIndex without anything being installed.

    Args:
        runner: Who answers; one without laya's hooks is asked as it is.
        questions: What to ask.
        options: The call's options; their own hooks stay.
        callback_manager: The component's; see `LlamaIndexHook`.
    """
    if isinstance(runner, HookRegistry) and (is_observed() or heard_manager(callback_manager) is not None):
        given = options.hooks
        hooks = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
        options = options.replaced(hooks=[LlamaIndexHook(callback_manager), *hooks])
    return Decisions(runner, questions, options)


def heard_manager(own: CallbackManager | None) -> CallbackManager | None:
    """The manager whose handlers hear of a call that starts now; None where there are no handlers."""
    if own is not None and own.handlers:
        return own
    shared = Settings.callback_manager
    return shared if shared.handlers else None


class _Call:
    """What one call shows, while it is open."""

    def __init__(self, ctx: PredictContext) -> None:
        self.start = CallStart(active_span_id.get())
        self.closed = False
        self.span = CallSpan(ctx) if is_observed() else None
        self.callbacks: list[CallbackEvent] = []

    def tell(self, ctx: PredictContext, manager: CallbackManager | None) -> None:
        """Open the callback event, unless one of the manager's handlers heard of this call already."""
        if manager is not None and not any(
            event.handlers.intersection(map(id, manager.handlers)) for event in self.callbacks
        ):
            self.callbacks.append(CallbackEvent(ctx, manager))

    def close(self, ctx: PredictContext) -> None:
        """Close all with the call's outcome."""
        self.closed = True
        for event in reversed(self.callbacks):
            event.close(ctx)
        if self.span is not None:
            self.span.close(ctx)

    def drop(self) -> None:
        """Close all of a call whose end no hook was told: another hook's failure came in between."""
        if self.closed:
            return
        self.closed = True
        for event in reversed(self.callbacks):
            event.drop(None)
        if self.span is not None:
            self.span.drop(None)


_lock = threading.RLock()
"""Held for what follows; re-entrant, for garbage that is collected meanwhile may close a call's span."""
_open: weakref.WeakKeyDictionary[PredictContext, _Call] = weakref.WeakKeyDictionary()
"""The open calls of all hooks in the process."""
_parts: weakref.WeakSet[PredictContext] = weakref.WeakSet()
"""What agents do for open Router calls; each of an agent's hooks hears of it."""


def _start(ctx: PredictContext, manager: CallbackManager | None) -> None:
    with _lock:
        call = _open.get(ctx)
    if call is None:
        if (manager is None and not is_observed()) or _is_part_of_router_call(ctx):
            return
        call = _Call(ctx)
        with _lock:
            _open[ctx] = call
        weakref.finalize(ctx, call.drop).atexit = False
    call.tell(ctx, manager)


def _is_part_of_router_call(ctx: PredictContext) -> bool:
    """Whether an agent is asked by a Router whose call shows already, and has the tokens."""
    if ctx.router is not None:
        return False
    with _lock:
        if ctx not in _parts and takes_part([(o, call.start) for o, call in _open.items()], ctx, active_span_id.get()):
            _parts.add(ctx)
        return ctx in _parts
