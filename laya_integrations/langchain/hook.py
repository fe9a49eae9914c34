"""Put laya calls that code makes by itself into the trace of the chain, tool or graph node around them.

agent = laya.load("...", hooks=LangChainHook())  # or LangChainHook().install(), for every call in the process
RunnableLambda(lambda text: agent.predict(text, questions)["answers"]).invoke("My invoice is wrong.")
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Self
from weakref import WeakKeyDictionary

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import ensure_config
from langchain_core.runnables.config import get_callback_manager_for_config

from laya.hooks import BaseHook, PredictContext, add_default_hook, default_hooks, set_default_hooks
from laya_integrations._calls import takes_part
from laya_integrations.langchain._call_runs import CallRuns
from laya_integrations.langchain._covered import current_cover
from laya_integrations.langchain.callbacks import note_on_parent, with_provider

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_open: dict[str, CallRuns] = {}
"""The calls that run, by laya's run id; every hook sees them, so that two make no second run."""
_ended: WeakKeyDictionary[PredictContext, bool] = WeakKeyDictionary()
"""The contexts that were seen, and whether they have ended."""

_Event = Callable[["LangChainHook", PredictContext], None]


def _guarded(event: _Event) -> _Event:
    """A trace that fails leaves the request alone."""

    @wraps(event)
    def guarded(hook: LangChainHook, ctx: PredictContext) -> None:
        try:
            event(hook, ctx)
        except Exception:
            logger.warning("laya: a call could not be traced", exc_info=True)

    return guarded


class LangChainHook(BaseHook):
    """Trace bare laya calls: a run of type llm named `laya.predict` for each, under the run around it.

    Give it to one call, to an Agent or Router (`hooks=LangChainHook()`), or `install()` it for the process;
    several are as good as one. The run's id is laya's run id; several states of one Agent call have a run
    each, with the call's id as `laya_run_id` and their place as `laya_batch_index`. The metadata has model,
    routing, tokens, duration, confidence and truncation. A call that a class of this package makes has its
    run already and gets no second one. Checkpoints that a Router loads or frees are listed in the
    metadata of the run around the call. Never raises.

    It makes its run nobody's parent: what laya's hooks do inside a call lies under the run around the call.
    """

    def install(self) -> Self:
        """Trace every laya call of this process; once is enough."""
        with _lock:
            if not any(hook is self for hook in default_hooks()):
                add_default_hook(self)
        return self

    def uninstall(self) -> None:
        """Take `install` back; calls that run are still traced to their end."""
        with _lock:
            hooks = default_hooks()
            if any(hook is self for hook in hooks):
                set_default_hooks([hook for hook in hooks if hook is not self])

    @_guarded
    def on_predict_start(self, ctx: PredictContext) -> None:
        """Open the call's runs, unless it has one."""
        with _lock:
            if ctx in _ended:
                return
            _ended[ctx] = False
        cover = current_cover()
        if _is_part(ctx):
            return
        covered = cover.covers(ctx) if cover is not None else False
        manager = None if covered else _manager()
        if manager is None:
            return
        runs = CallRuns(ctx, manager, cover)
        with _lock:
            _open[ctx.run_id] = runs
        if covered is False:
            runs.open()
        if _ended[ctx]:
            # Its time was up, and the end came first.
            _close(ctx)

    @_guarded
    def on_predict_end(self, ctx: PredictContext) -> None:
        """Close the call's runs with its answers or its error."""
        with _lock:
            started = ctx in _ended
            _ended[ctx] = True
        if not started and ctx.error is not None:
            # Routing or loading failed, so that the call never started.
            cover = current_cover()
            covered = cover is not None and cover.covers(ctx) is not False
            manager = None if covered else _manager()
            if manager is not None:
                _open[ctx.run_id] = CallRuns(ctx, manager)
        _close(ctx)

    @_guarded
    def on_load(self, ctx: PredictContext) -> None:
        """Note the checkpoint on the run around the call."""
        _note("laya_loads", ctx)

    @_guarded
    def on_evict(self, ctx: PredictContext) -> None:
        """Note the checkpoint on the run around the call."""
        _note("laya_evictions", ctx)


def _manager() -> CallbackManager | None:
    """The callbacks of the run around the call; None where nobody listens."""
    manager = get_callback_manager_for_config(with_provider(ensure_config()))
    return manager if manager.handlers else None


def _close(ctx: PredictContext) -> None:
    with _lock:
        runs = _open.pop(ctx.run_id, None)
    if runs is not None:
        runs.close()


def _is_part(ctx: PredictContext) -> bool:
    """Whether this is an agent's call for a Router call that has its run."""
    if ctx.router is not None or not _open:
        return False
    parent_run_id = get_callback_manager_for_config(ensure_config()).parent_run_id
    with _lock:
        return takes_part([(runs.ctx, runs.start) for runs in _open.values()], ctx, parent_run_id)


def _note(key: str, ctx: Any) -> None:
    manager = _manager()
    if manager is not None and ctx.model is not None:
        with _lock:
            note_on_parent(manager, key, str(ctx.model))
