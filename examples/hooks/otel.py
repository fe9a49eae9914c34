"""Spans and metrics of predictions: to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, and to the screen.

python examples/hooks/otel.py [CHECKPOINT]
"""

import os
import sys

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import laya
from laya_integrations.opentelemetry import OTelHook

QUESTIONS = {
    "team": {"type": "choice", "instructions": "Which team should handle this?", "criteria": ["billing", "technical"]},
    "urgent": {"type": "noul", "instructions": "Is it urgent?"},
}


def main(model: str) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, readers = TracerProvider(), [reader]
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        # pip install opentelemetry-exporter-otlp-proto-http; it sends from a thread, so no request waits for it.
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    meters = MeterProvider(readers)

    agent = laya.load(model, hooks=OTelHook(tracers, meters))
    with tracers.get_tracer("shop").start_as_current_span("POST /tickets"):
        agent.predict("My invoice is wrong and I need it today.", QUESTIONS, min_confidence=0.9)

    for span in spans.get_finished_spans():
        print(f"{span.name.partition(' /')[0]}, child of {span.parent.span_id:x}" if span.parent else span.name)
        for name, value in sorted(span.attributes.items()):
            print(f"    {name} = {value}")
    for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
        print("metric", metric.name)
    tracers.shutdown()
    meters.shutdown()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
