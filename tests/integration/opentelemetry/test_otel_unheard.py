"""What the hook can't know or must not wait for: ends that it never hears, slow tracers, other processes."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import StatusCode

from laya_integrations.opentelemetry import OTelHook
from tests.integration.opentelemetry.conftest import QUESTIONS, Backend, open_spans

FakeRunner = pytest.importorskip("laya.testing").FakeRunner
WAIT_S = 30.0


def eventually(condition: Callable[[], Any]) -> bool:
    """Whether something becomes true within the time that a slow machine takes."""
    deadline = time.monotonic() + WAIT_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(condition())


def fail(ctx: Any) -> None:
    """An end hook before the tracer's."""
    raise RuntimeError("the log is full")


def context() -> Any:
    """The context of a call that the hook has nothing of."""
    contexts: list[Any] = []
    FakeRunner().predict("a", QUESTIONS, on_predict_start=contexts.append)
    return contexts.pop()


class Processor(SpanProcessor):
    """Calls functions when spans start and end."""

    def __init__(self, on_start: Callable[[], Any] = int, on_end: Callable[[], Any] = int) -> None:
        self._start, self._end = on_start, on_end

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._start()

    def on_end(self, span: Any) -> None:
        self._end()


class TestUnheardEnds:
    """An end hook that raises keeps the later hooks from hearing the end."""

    def test_the_span_ends_as_failed_when_its_context_is_gone(self, backend: Backend) -> None:
        """With the identity of the call, and counted among the errors."""
        runner, hook = FakeRunner(on_predict_end=fail), backend.hook()
        before = time.time_ns()
        with pytest.raises(RuntimeError, match="the log is full"):
            runner.predict("a", QUESTIONS, hooks=hook)
        gc.collect()
        gone = time.time_ns()
        assert eventually(lambda: backend.spans)
        span = backend.span
        assert span.status.status_code is StatusCode.ERROR
        assert "never reached the hook" in str(span.status.description)
        assert span.attributes and len(span.attributes["laya.run_id"]) == 32  # type: ignore[arg-type]
        assert span.attributes["error.type"] == "_OTHER"
        assert span.end_time and before < span.end_time < gone
        assert eventually(lambda: backend.points("laya.errors"))
        assert backend.counts("laya.errors", "gen_ai.request.model", "error.type") == {("fake", "_OTHER"): 1}
        assert open_spans(hook) == 0

    def test_a_collection_under_the_tracers_own_lock_waits_for_nothing(self, backend: Backend) -> None:
        """Garbage is collected at any allocation, also while an exporter holds its lock."""
        lock = threading.Lock()

        def export() -> None:
            with lock:
                pass

        backend.tracers.add_span_processor(Processor(on_end=export))
        circle: list[Any] = [context()]
        circle.append(circle)
        backend.hook().on_predict_start(circle[0])

        def collect() -> None:
            with lock:
                gc.collect()

        gc.disable()
        try:
            circle.clear()
            circle = []
            ended = threading.Thread(target=collect, daemon=True)
            ended.start()
            ended.join(WAIT_S)
        finally:
            gc.enable()
        assert not ended.is_alive()
        assert eventually(lambda: backend.spans)

    def test_an_uncaught_error_keeps_no_span_from_the_exporter(self) -> None:
        """It keeps the context until the process is gone; what is open ends before the provider shuts down."""
        program = """
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
            from laya.testing import FakeRunner
            from laya_integrations.opentelemetry import OTelHook

            tracers = TracerProvider()
            tracers.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
            runner = FakeRunner(on_predict_end=lambda ctx: 1 / 0)
            runner.predict("a", {"q": {"type": "noul", "instructions": "?"}}, hooks=OTelHook(tracers))
        """
        lines = "\n".join(line.strip() for line in program.splitlines())
        ended = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
        assert "ZeroDivisionError" in ended.stderr
        assert ended.stdout.count('"name": "decide fake"') == 1 and '"status_code": "ERROR"' in ended.stdout


class TestSlowTracers:
    """No lock is held while a span is opened."""

    def test_a_processor_may_make_calls(self, backend: Backend) -> None:
        """They are traced by the same hook."""
        hook, inner = backend.hook(), []

        def ask() -> None:
            if not inner:
                inner.append(True)
                FakeRunner(hooks=hook, model_id="inner").predict("b", QUESTIONS)

        backend.tracers.add_span_processor(Processor(on_start=ask))
        outer = threading.Thread(target=FakeRunner(hooks=hook).predict, args=("a", QUESTIONS), daemon=True)
        outer.start()
        outer.join(WAIT_S)
        assert not outer.is_alive()
        assert [span.name for span in backend.spans] == ["decide inner", "decide fake"]

    def test_threads_open_their_spans_at_once(self, backend: Backend) -> None:
        """A sampler that takes its time delays its own call only."""
        together = threading.Barrier(2)
        backend.tracers.add_span_processor(Processor(on_start=lambda: together.wait(WAIT_S)))
        runner = FakeRunner(hooks=backend.hook())
        threads = [threading.Thread(target=runner.predict, args=("a", QUESTIONS)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(backend.spans) == 2 and not together.broken

    def test_a_span_that_opens_after_its_call_ended_is_closed_once(self, backend: Backend) -> None:
        """As where opening took longer than the hook's timeout."""
        reached, go_on = threading.Event(), threading.Event()

        def wait() -> None:
            reached.set()
            go_on.wait(WAIT_S)

        backend.tracers.add_span_processor(Processor(on_start=wait))
        hook, ctx = backend.hook(), context()
        opening = threading.Thread(target=hook.on_predict_start, args=(ctx,))
        opening.start()
        assert reached.wait(WAIT_S)
        hook.on_predict_end(ctx)
        assert not backend.spans
        go_on.set()
        opening.join(WAIT_S)
        assert backend.span.attributes and backend.span.attributes["laya.run_id"] == ctx.run_id
        assert hook.span(ctx) is None


class TestPickling:
    """Options and components that hold a hook go to other processes."""

    def test_a_hook_of_the_global_providers_connects_where_it_is_loaded(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With its own option, and none of the calls under way."""
        pickled = pickle.dumps({"hooks": OTelHook(capture_content=True)})
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", backend.tracers)
        hook = pickle.loads(pickled)["hooks"]
        FakeRunner(hooks=hook).predict("where is it", QUESTIONS)
        assert backend.span.attributes
        assert "where is it" in str(backend.span.attributes["gen_ai.input.messages"])

    @pytest.mark.parametrize("name", ["tracer_provider", "meter_provider"])
    def test_a_hook_that_was_given_a_provider_says_why_it_stays(self, backend: Backend, name: str) -> None:
        """A provider holds threads and connections."""
        given = backend.tracers if name == "tracer_provider" else backend.meters
        with pytest.raises(TypeError, match=f"was given a {name} can't be pickled"):
            pickle.dumps(OTelHook(**{name: given}))  # type: ignore[arg-type]

    def test_a_copy_traces_no_call_twice(self, backend: Backend) -> None:
        """A component that is copied keeps its hook."""
        hook = backend.hook()
        FakeRunner(hooks=[copy.copy(hook), copy.deepcopy(hook)]).predict("a", QUESTIONS, hooks=hook)
        assert len(backend.spans) == 1
