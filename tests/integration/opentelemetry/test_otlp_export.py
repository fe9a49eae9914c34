"""What leaves over OTLP arrives, read from the bytes of a real exporter by a receiver on this machine."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from laya_integrations.opentelemetry import OTelHook
from tests.integration.opentelemetry.conftest import QUESTIONS

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Receiver(BaseHTTPRequestHandler):
    """One export."""

    server: Collector

    def do_POST(self) -> None:
        """Read the request by its path."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer: Any
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
            answer = ExportTraceServiceResponse()
        else:
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.server.metrics |= {m.name: m for scope in resource.scope_metrics for m in scope.metrics}
            answer = ExportMetricsServiceResponse()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(answer.SerializeToString())

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A receiver on loopback."""
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_spans_and_metrics_arrive(collector: Collector) -> None:
    """Parent and child in one trace, the attributes readable, the counters with their labels."""
    runner_class = pytest.importorskip("laya.testing").FakeRunner
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.url}/v1/metrics"), 3_600_000)
    meters = MeterProvider([reader])
    runner = runner_class({"urgent": True, "team": "billing"}, hooks=OTelHook(tracers, meters))
    with tracers.get_tracer("app").start_as_current_span("request"):
        result = runner.predict("where is it", QUESTIONS)
    tracers.shutdown()
    meters.shutdown()

    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"request", "decide fake"}
    decided = spans["decide fake"]
    assert (decided.trace_id, decided.parent_span_id) == (spans["request"].trace_id, spans["request"].span_id)
    said = {item.key: item.value for item in decided.attributes}
    assert said["laya.run_id"].string_value == result["run_id"]
    assert said["laya.answer.team"].string_value == "billing"
    assert said["laya.answer.urgent"].double_value == 0.97
    assert said["gen_ai.usage.input_tokens"].int_value == result["usage"]["input_tokens"]
    assert [value.string_value for value in said["laya.questions"].array_value.values] == [*QUESTIONS]
    labels = {
        tuple(item.value.string_value for item in point.attributes if item.key.startswith("laya."))
        for point in collector.metrics["laya.decisions"].sum.data_points
    }
    assert {("urgent", "true"), ("team", "billing")} <= labels
    assert collector.metrics["gen_ai.client.operation.duration"].histogram.data_points[0].count == 1
