"""One laya call as LlamaIndex shows it: a span with its events, and an LLM event for callback managers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any
from uuid import uuid4

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.dispatcher import Dispatcher, active_instrument_tags
from llama_index_instrumentation.event_handlers import NullEventHandler
from llama_index_instrumentation.events.span import SpanDropEvent
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span_handlers import NullSpanHandler

from laya.hooks import PredictContext
from laya_integrations._openinference import complete_llama_index_span
from laya_integrations.llama_index import _events

logger = logging.getLogger(__name__)

dispatcher = get_dispatcher(__name__)

_TRACE = "laya"

Payload = dict[str, Any]


def is_observed() -> bool:
    """Whether a handler that does something hears the dispatcher."""
    return _hears_events() or any(
        not isinstance(handler, NullSpanHandler) for source in _sources() for handler in source.span_handlers
    )


def _hears_events() -> bool:
    return any(not isinstance(handler, NullEventHandler) for source in _sources() for handler in source.event_handlers)


def _sources() -> Iterator[Dispatcher]:
    """The dispatcher and those that it passes on to."""
    source = dispatcher
    while source is not None:
        yield source
        if not source.propagate:
            return
        source = source.parent


class CallSpan:
    """The span of one call, and its events.

    Everything is sent from a private copy of the context that the call started in. There the span is the
    active one; the caller's context never changes, siblings that overlap can't become each other's parents,
    and a start and an end that run in two threads still belong together.
    """

    def __init__(self, ctx: PredictContext) -> None:
        runtime = "LayaRouter" if ctx.router is not None else "LayaAgent"
        self.span_id = f"{runtime}.predict-{uuid4()}"
        self._instance = ctx.router if ctx.router is not None else ctx.agent
        self._tags = {_events.RUN_ID_TAG: ctx.run_id}
        self._bound_args = _SIGNATURE.bind(states=ctx.states, questions=ctx.questions)
        self._context = copy_context()
        self._context.run(self._enter, ctx)

    def close(self, ctx: PredictContext) -> None:
        """End with the call's results, or with its error."""
        if ctx.error is not None or ctx.results is None:
            self.drop(ctx.error)
        else:
            self._context.run(self._exit, ctx)

    def drop(self, error: BaseException | None) -> None:
        """End without results."""
        self._context.run(self._drop, error)

    def _enter(self, ctx: PredictContext) -> None:
        parent_id = active_span_id.get()
        tags = {**active_instrument_tags.get(), **self._tags}
        dispatcher.span_enter(self.span_id, self._bound_args, instance=self._instance, parent_id=parent_id, tags=tags)
        active_span_id.set(self.span_id)
        _attempt("attributes on the OpenInference span", lambda: complete_llama_index_span(ctx))
        _send("start event", lambda: _events.start_event(ctx, self.span_id))

    def _exit(self, ctx: PredictContext) -> None:
        _send("end event", lambda: _events.end_event(ctx, self.span_id))
        dispatcher.span_exit(self.span_id, self._bound_args, instance=self._instance, result=ctx.results)

    def _drop(self, error: BaseException | None) -> None:
        _send("drop event", lambda: self._drop_event(error))
        dispatcher.span_drop(self.span_id, self._bound_args, instance=self._instance, err=error)

    def _drop_event(self, error: BaseException | None) -> SpanDropEvent:
        reason = "" if error is None else f"{type(error).__name__}: {error}"
        return SpanDropEvent(span_id=self.span_id, tags=self._tags, err_str=reason)


class CallbackEvent:
    """The LLM event of one call on a callback manager, inside a trace of its own or the one that is open."""

    def __init__(self, ctx: PredictContext, manager: CallbackManager) -> None:
        self.handlers = frozenset(map(id, manager.handlers))
        """Identities of the handlers that hear of the call."""
        self._manager = manager
        self._event_id = str(uuid4())
        self._context: Context = copy_context()
        self._context.run(self._start, ctx)

    def close(self, ctx: PredictContext) -> None:
        """End with the call's results, or with its error."""
        if ctx.error is not None or ctx.results is None:
            self.drop(ctx.error)
        else:
            self._context.run(self._end, _outcome(ctx))

    def drop(self, error: BaseException | None) -> None:
        """End without results."""
        self._context.run(self._end, {EventPayload.EXCEPTION: error})

    def _start(self, ctx: PredictContext) -> None:
        payload: Payload = {
            EventPayload.PROMPT: _events.states_text(ctx.states),
            EventPayload.SERIALIZED: _events.model_dict(ctx),
        }
        _attempt("trace start", lambda: self._manager.start_trace(_TRACE))
        _attempt("callback", lambda: self._manager.on_event_start(CBEventType.LLM, payload, event_id=self._event_id))

    def _end(self, payload: Payload) -> None:
        _attempt("callback", lambda: self._manager.on_event_end(CBEventType.LLM, payload, event_id=self._event_id))
        _attempt("trace end", lambda: self._manager.end_trace(_TRACE))


def _outcome(ctx: PredictContext) -> Payload:
    """What callback handlers read of a call's results; nothing where a hook left what can't be read."""
    try:
        return {EventPayload.PROMPT: _events.prompt(ctx), EventPayload.COMPLETION: _events.completion(ctx)}
    except Exception as error:
        logger.warning("laya: LlamaIndex's callbacks got no results of a call: %s", type(error).__name__)
        return {}


def _send(what: str, make: Callable[[], BaseEvent]) -> None:
    """Dispatch an event, which is made only where it is heard."""
    if _hears_events():
        _attempt(what, lambda: dispatcher.event(make()))


def _attempt(what: str, step: Callable[[], Any]) -> None:
    """Run one step of tracing; a failure is logged by its type alone, for a message may quote a state."""
    try:
        step()
    except Exception as error:
        logger.warning("laya: LlamaIndex got no %s of a call: %s", what, type(error).__name__)


def _predict(states: Any, questions: Any) -> None:
    """What a span says it was called with."""


_SIGNATURE = inspect.signature(_predict)
