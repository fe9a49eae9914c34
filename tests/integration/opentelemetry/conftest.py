"""A hook that exports to memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from laya_integrations.opentelemetry import OTelHook

QUESTIONS: dict[str, Any] = {
    "urgent": {"type": "noul", "instructions": "Is it urgent?"},
    "team": {"type": "choice", "instructions": "Which team?", "criteria": ["billing", "shipping"]},
    "mood": {"type": "score", "instructions": "How is the mood?", "criteria": ["calm", "cross", "furious"]},
}


class Backend:
    """Keeps what is exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])
        self.tracer = self.tracers.get_tracer("tests")

    def hook(self, **options: Any) -> OTelHook:
        """A hook that exports here."""
        return OTelHook(self.tracers, self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """laya's finished spans, in the order of their ends."""
        scoped = [span for span in self._exporter.get_finished_spans() if span.instrumentation_scope]
        return [span for span in scoped if span.instrumentation_scope.name == "laya"]  # type: ignore[union-attr]

    @property
    def span(self) -> ReadableSpan:
        """The only span of laya's."""
        (span,) = self.spans
        return span

    def points(self, name: str) -> list[Any]:
        """The data points of one instrument."""
        data = self._reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]

    def counts(self, name: str, *attributes: str) -> dict[Any, int]:
        """A counter's values by the values of some attributes."""
        return {tuple(point.attributes[key] for key in attributes): point.value for point in self.points(name)}


@pytest.fixture
def backend() -> Iterator[Backend]:
    """A backend of the test's own."""
    backend = Backend()
    yield backend
    backend.tracers.shutdown()
    backend.meters.shutdown()


def open_spans(hook: OTelHook) -> int:
    """What the hook still holds once all that is garbage is gone."""
    gc.collect()
    return len(hook._calls)
