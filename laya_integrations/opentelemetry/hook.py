"""A hook that opens a span for each call and closes it, and counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer

import laya
from laya.hooks import BaseHook, PredictContext
from laya_integrations.opentelemetry.attributes import (
    DECIDE,
    ERROR_TYPE,
    UNKNOWN_ERROR,
    closing_attributes,
    error_type,
    model_attributes,
    opening_attributes,
)
from laya_integrations.opentelemetry.calls import OpenCalls, TracedCall
from laya_integrations.opentelemetry.metrics import Instruments

logger = logging.getLogger("laya_integrations.opentelemetry")

SCOPE = "laya"
"""The name of the tracer and of the meter."""

UNHEARD = "the call's end never reached the hook; a hook before it failed, or the program ended first"
"""What the status of a span says that had to be ended without its call."""

_LIVE = ("_tracer", "_instruments", "_calls")
"""What a hook holds for its own process."""


class OTelHook(BaseHook):
    """Trace and count predictions. One hook serves any number of runtimes and threads.

    Args:
        tracer_provider, meter_provider: Where spans and measurements go; None takes the global ones.
        capture_content: Put states, questions, answers and the texts of errors into spans. Without it a span names
            question ids, answers' labels and numbers, and an error's class, and holds nothing that a user wrote.

    Each context is one span, `decide <model>`, child of the span that is current where the call is made: in the
    caller's thread, in `asyncio.to_thread`, under `hooks_timeout`. A failed call's span has the status ERROR. So has
    one whose end the hook never hears, since a hook before it failed: that ends soon after its context is gone. The
    hook never raises and never changes a call; what goes wrong in it is logged.

    It can be pickled where it has the global providers, and then takes those of the process that loads it. Raises
    `TypeError` when one that was given a provider is pickled. A copy is the hook itself, or it would trace twice.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        capture_content: bool = False,
    ) -> None:
        self.capture_content = capture_content
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._connect()

    def _connect(self) -> None:
        self._tracer = get_tracer(SCOPE, laya.__version__, self._tracer_provider)
        self._instruments = Instruments(get_meter(SCOPE, laya.__version__, self._meter_provider))
        self._calls = OpenCalls(self._end_unheard)

    def __getstate__(self) -> dict[str, Any]:
        for name in ("tracer_provider", "meter_provider"):
            if getattr(self, f"_{name}") is not None:
                raise TypeError(
                    f"an OTelHook that was given a {name} can't be pickled: a provider belongs to its process; use "
                    "OTelHook() and set the global providers in each process, or make a hook there"
                )
        return {name: value for name, value in vars(self).items() if name not in _LIVE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    def __copy__(self) -> OTelHook:
        return self

    def __deepcopy__(self, memo: Any) -> OTelHook:
        return self

    def span(self, ctx: PredictContext) -> Span | None:
        """The open span of a call, for a hook that makes calls of its own: `trace.use_span(hook.span(ctx))`."""
        return self._calls.span(ctx)

    def on_predict_start(self, ctx: PredictContext) -> None:
        """Open the call's span.

        It isn't made the current one: a hook with a timeout runs in a copy of the caller's context, and the calls
        of a Router's batch overlap, so that there is no place where it could safely be taken back.
        """
        with _guarded("on_predict_start"):
            call = self._calls.begin(ctx, model_attributes(ctx))
            if call is None:
                return
            span = None
            try:
                span = self._open(ctx)
            finally:
                kept = self._calls.opened(call, span)
            if not kept:
                self._close(span, ctx)

    def on_predict_end(self, ctx: PredictContext) -> None:
        """Close the span, failed or not, and count the call. A call that failed before its start gets a span here."""
        with _guarded("on_predict_end"):
            mine, span = self._calls.finish(ctx)
            if mine:
                self._close(self._open(ctx, _began_ns(ctx)) if span is None else span, ctx)

    def on_load(self, ctx: PredictContext) -> None:
        """Count a checkpoint that was built."""
        with _guarded("on_load"):
            new, _ = self._calls.finish(ctx)
            if new:
                self._instruments.record_load(ctx)

    def on_evict(self, ctx: PredictContext) -> None:
        """Count a checkpoint that was freed."""
        with _guarded("on_evict"):
            new, _ = self._calls.finish(ctx)
            if new:
                self._instruments.record_eviction(ctx)

    def _open(self, ctx: PredictContext, start_ns: int | None = None) -> Span:
        attributes = opening_attributes(ctx)
        name = DECIDE if ctx.model is None else f"{DECIDE} {ctx.model}"
        return self._tracer.start_span(name, kind=SpanKind.INTERNAL, attributes=attributes, start_time=start_ns)

    def _close(self, span: Span, ctx: PredictContext) -> None:
        try:
            if span.is_recording():
                span.set_attributes(closing_attributes(ctx, content=self.capture_content))
                if ctx.error is not None:
                    self._mark_failed(span, ctx.error)
        finally:
            span.end()
        self._instruments.record_call(ctx)

    def _end_unheard(self, call: TracedCall, span: Span, ended_ns: int) -> None:
        with _guarded("a call whose end never came"):
            span.set_attribute(ERROR_TYPE, UNKNOWN_ERROR)
            span.set_status(Status(StatusCode.ERROR, UNHEARD))
            span.end(ended_ns)
            self._instruments.record_unheard(call.model)

    def _mark_failed(self, span: Span, error: BaseException) -> None:
        """An exception's message may quote what a user wrote, so without content only its class is named."""
        if self.capture_content:
            span.record_exception(error)
        described = f"{error_type(error)}: {error}" if self.capture_content else error_type(error)
        span.set_status(Status(StatusCode.ERROR, described))


def _began_ns(ctx: PredictContext) -> int:
    return time.time_ns() - round((ctx.elapsed_ms or 0.0) * 1e6)


@contextmanager
def _guarded(event: str) -> Iterator[None]:
    """A tracer's failure never fails a request."""
    try:
        yield
    except Exception:
        logger.warning("tracing failed on %s", event, exc_info=True)
