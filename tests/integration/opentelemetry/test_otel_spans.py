"""Each call is one span that says what was decided, hangs where the call was made, and always ends."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.trace import SpanKind, StatusCode

from laya import Router
from laya.hooks import clear_default_hooks, set_default_hooks
from laya_integrations.opentelemetry import OTelHook
from tests.integration.opentelemetry.conftest import QUESTIONS, Backend, open_spans

testing = pytest.importorskip("laya.testing")
FakeRunner, RecordingHook = testing.FakeRunner, testing.RecordingHook
SECRET = "my card is 4111 1111 1111 1111"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes."""
    return dict(span.attributes or {})


class TestWhatASpanSays:
    """Names, attributes and events."""

    def test_a_call_is_described(self, backend: Backend) -> None:
        """By the conventions for generative models where they fit, and by laya's own names."""
        runner = FakeRunner({"urgent": True, "team": "billing", "mood": 2}, hooks=backend.hook())
        result = runner.predict("where is it", QUESTIONS, max_len=64, min_confidence=0.98)
        span = backend.span
        assert (span.name, span.kind, span.status.status_code) == ("decide fake", SpanKind.INTERNAL, StatusCode.UNSET)
        assert attributes(span) == {
            "gen_ai.operation.name": "decide",
            "gen_ai.provider.name": "laya",
            "gen_ai.request.model": "fake",
            "gen_ai.response.model": "laya-rl-agent",
            "gen_ai.usage.input_tokens": result["usage"]["input_tokens"],
            "gen_ai.usage.output_tokens": 0,
            "laya.run_id": result["run_id"],
            "laya.max_len": 64,
            "laya.states": 1,
            "laya.questions": ("urgent", "team", "mood"),
            "laya.answered_by_hook": False,
            "laya.truncated": False,
            "laya.state_tokens_dropped": 0,
            "laya.answer.urgent": 0.97,
            "laya.answer.team": "billing",
            "laya.answer.mood": result["answers"]["mood"]["score"],
            "laya.confidence.urgent": 0.97,
            "laya.confidence.team": 0.97,
            "laya.confidence.mood": 0.97,
            "laya.low_confidence": 3,
            "laya.lowest_confidence": 0.97,
        }

    def test_a_batch_lists_its_answers_in_order(self, backend: Backend) -> None:
        """One call, one span; lists instead of values."""
        runner = FakeRunner({"team": lambda state: state}, hooks=backend.hook())
        runner.predict_batch(["billing", "shipping"], QUESTIONS)
        found = attributes(backend.span)
        assert found["laya.states"] == 2
        assert found["laya.answer.team"] == ("billing", "shipping")
        assert len(found["laya.confidence.urgent"]) == 2

    def test_a_cut_state_shows(self, backend: Backend) -> None:
        """An operator sees that the model did not read everything."""
        FakeRunner(max_len=60, head_max_len=40, hooks=backend.hook()).predict("word " * 99, QUESTIONS)
        found = attributes(backend.span)
        assert found["laya.truncated"] is True and found["laya.state_tokens_dropped"] > 0

    def test_a_router_says_where_it_went(self, backend: Backend) -> None:
        """Each request of a batch is a call of its own, with its routing."""
        router = Router(hooks=backend.hook())
        for name in ("english", "multilingual"):
            router.attach(name, FakeRunner())
        requests = [{"state": text, "questions": QUESTIONS} for text in ("Where is my parcel?", "Где моя посылка?")]
        results = router.predict_batch(requests)
        assert [span.name for span in backend.spans] == ["decide english", "decide multilingual"]
        for span, result in zip(backend.spans, results, strict=True):
            found = attributes(span)
            assert found["laya.run_id"] == result["run_id"]
            assert found["laya.routing.model"] == result["routing"]["model"]
            assert found["laya.routing.reason"] == result["routing"]["reason"]
        assert attributes(backend.spans[1])["laya.routing.script"] == "cyrillic"

    def test_an_answer_from_a_hook_shows(self, backend: Backend) -> None:
        """A cache's hit is told from an inference."""
        runner = FakeRunner(hooks=backend.hook())
        kept = runner.predict("a", QUESTIONS)
        runner.predict("a", QUESTIONS, on_predict_start=lambda ctx: ctx.skip(kept))
        assert [attributes(span)["laya.answered_by_hook"] for span in backend.spans] == [False, True]

    def test_an_answer_from_a_hook_shows_without_a_run_id(self, backend: Backend) -> None:
        """A rule has no earlier call whose id it could name."""
        ruled = {"answers": {"urgent": {"type": "noul", "noul": 0.5}}}
        FakeRunner(hooks=backend.hook()).predict("a", QUESTIONS, on_predict_start=lambda ctx: ctx.skip(ruled))
        assert attributes(backend.span)["laya.answered_by_hook"] is True

    @pytest.mark.parametrize("content", [False, True])
    def test_many_questions_push_nothing_out(self, backend: Backend, content: bool) -> None:
        """An SDK keeps 128 attributes: the answers of 48 questions are shown, and the rest is a number."""
        questions = {f"q{number}": QUESTIONS["team"] for number in range(200)}
        result = FakeRunner(hooks=backend.hook(capture_content=content)).predict(
            "a", questions, max_len=10000, head_max_len=9000, min_confidence=1.0
        )
        span, found = backend.span, attributes(backend.span)
        assert span.dropped_attributes == 0
        assert [name for name in found if "laya.answer." in name] == [f"laya.answer.q{number}" for number in range(48)]
        assert len([name for name in found if "laya.confidence." in name]) == 48
        assert found["laya.answers_left_out"] == 152 and found["laya.low_confidence"] == 200
        assert found["laya.questions"] == tuple(list(questions)[:128])
        assert found["laya.run_id"] == result["run_id"]

    def test_answers_give_way_where_the_tracer_keeps_little(self) -> None:
        """Who asked, what and at what cost stays, whatever the limit: the SDK drops what was set first."""
        small, backend = SpanLimits(max_span_attributes=20), Backend()
        backend.tracers._span_limits = small
        FakeRunner(hooks=backend.hook()).predict("a", {f"q{number}": QUESTIONS["team"] for number in range(80)})
        found = attributes(backend.span)
        assert len(found) == 20
        assert {
            *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"),
            *("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "laya.run_id", "laya.states"),
            *("laya.questions", "laya.answered_by_hook", "laya.answers_left_out"),
        } <= set(found)

    def test_an_odd_payload_costs_only_its_own_part(self, backend: Backend) -> None:
        """A span is never lost, nor is what else it says."""
        payload = {"model": "cached", "answers": {"urgent": {"noul": 0.7}}, "usage": {"input_tokens": 5}}
        FakeRunner(hooks=backend.hook()).predict("a", QUESTIONS, on_predict_start=lambda ctx: ctx.skip(payload))
        found = attributes(backend.span)
        assert found["gen_ai.usage.input_tokens"] == 5 and found["gen_ai.response.model"] == "cached"
        assert not [name for name in found if name.startswith("laya.answer.")]


class TestContent:
    """What users wrote stays out, unless asked for."""

    def test_nothing_a_user_wrote_is_exported(self, backend: Backend) -> None:
        """Neither from a call that ends well nor from an error's text."""
        runner = FakeRunner(hooks=backend.hook())
        runner.predict({"text": SECRET}, QUESTIONS)
        runner.script({"urgent": ValueError(f"can't read {SECRET}")})
        with pytest.raises(ValueError, match="4111"):
            runner.predict(SECRET, QUESTIONS)
        assert len(backend.spans) == 2
        assert not [span for span in backend.spans if "4111" in span.to_json()]

    def test_content_can_be_captured_as_the_hooks_left_it(self, backend: Backend) -> None:
        """A redacting hook after this one is heeded: content is read at the end."""

        def redact(ctx: Any) -> None:
            ctx.states = ["my card is [card]"]

        runner = FakeRunner({"team": "billing"}, hooks=backend.hook(capture_content=True), on_predict_start=redact)
        runner.predict(SECRET, QUESTIONS)
        found = attributes(backend.span)
        assert "my card is [card]" in found["gen_ai.input.messages"] and "4111" not in backend.span.to_json()
        assert '\\"choice\\": \\"billing\\"' in found["gen_ai.output.messages"]
        assert "Which team?" in found["laya.questions.content"]

    def test_an_error_is_told_in_full_with_content(self, backend: Backend) -> None:
        """As an exception event and in the status."""
        runner = FakeRunner({"urgent": ValueError(SECRET)}, hooks=backend.hook(capture_content=True))
        with pytest.raises(ValueError, match="4111"):
            runner.predict("a", QUESTIONS)
        assert [event.name for event in backend.span.events] == ["exception"]
        assert backend.span.status.description == f"ValueError: {SECRET}"


class TestParents:
    """A span is a child of what is current where the call is made."""

    def test_in_threads_each_call_has_its_callers_span(self, backend: Backend) -> None:
        """A thread that runs in a copy of the caller's context."""
        runner = FakeRunner(hooks=backend.hook())

        def request(number: int) -> None:
            with backend.tracer.start_as_current_span(f"request {number}"):
                for _ in range(5):
                    runner.predict(f"state {number}", QUESTIONS)

        threads = [threading.Thread(target=copy_context().run, args=(request, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        families = {span.parent.span_id for span in backend.spans if span.parent}
        assert (len(backend.spans), len(families)) == (20, 4)
        assert {span.context.trace_id for span in backend.spans} == {  # type: ignore[union-attr]
            span.parent.trace_id for span in backend.spans if span.parent
        }

    async def test_tasks_keep_their_own_parents(self, backend: Backend) -> None:
        """Overlapping tasks that ask off the loop don't mix."""
        runner = FakeRunner({"team": lambda state: state}, hooks=backend.hook())
        parents: dict[str, int] = {}

        async def request(team: str) -> None:
            with backend.tracer.start_as_current_span(team) as span:
                parents[team] = span.get_span_context().span_id
                await asyncio.gather(*(asyncio.to_thread(runner.predict, team, QUESTIONS) for _ in range(4)))

        await asyncio.gather(request("billing"), request("shipping"))
        assert len(backend.spans) == 8
        for span in backend.spans:
            assert span.parent and span.parent.span_id == parents[attributes(span)["laya.answer.team"]]

    def test_under_a_hook_timeout_the_parent_is_found(self, backend: Backend) -> None:
        """The hook then runs in another thread."""
        runner = FakeRunner(hooks=backend.hook(), hooks_timeout=30)
        with backend.tracer.start_as_current_span("request") as parent:
            runner.predict("a", QUESTIONS)
        assert backend.span.parent and backend.span.parent.span_id == parent.get_span_context().span_id

    def test_without_a_current_span_a_call_is_a_root(self, backend: Backend) -> None:
        """And leaves none current behind."""
        FakeRunner(hooks=backend.hook()).predict("a", QUESTIONS)
        assert backend.span.parent is None
        assert trace.get_current_span() is trace.INVALID_SPAN

    def test_a_hook_can_hang_its_own_calls_under_the_span(self, backend: Backend) -> None:
        """`span(ctx)` is the open span, and None once it has ended."""
        hook, seen = backend.hook(), []
        helper = FakeRunner(hooks=hook, model_id="helper")

        def ask_helper(ctx: Any) -> None:
            with trace.use_span(hook.span(ctx)):
                helper.predict("b", QUESTIONS)

        FakeRunner(hooks=hook, on_predict_start=ask_helper, on_predict_end=seen.append).predict("a", QUESTIONS)
        child, parent = backend.spans
        assert (child.name, parent.name) == ("decide helper", "decide fake")
        assert child.parent and parent.context and child.parent.span_id == parent.context.span_id
        assert hook.span(seen[0]) is None


class TestEnds:
    """Every span ends, once, and nothing is held on to."""

    def test_a_failure_marks_the_span(self, backend: Backend) -> None:
        """By its class alone."""
        with pytest.raises(RuntimeError):
            FakeRunner({"urgent": RuntimeError("no memory")}, hooks=backend.hook()).predict("a", QUESTIONS)
        assert backend.span.status.status_code is StatusCode.ERROR
        assert backend.span.status.description == attributes(backend.span)["error.type"] == "RuntimeError"
        assert not backend.span.events

    def test_a_laya_error_has_its_full_name(self, backend: Backend) -> None:
        """As the conventions ask."""
        with pytest.raises(ValueError, match="criteria"):
            FakeRunner(hooks=backend.hook()).predict("a", {"q": {"type": "choice", "instructions": "?"}})
        assert attributes(backend.span)["error.type"] == "laya.errors.QuestionError"

    def test_answers_and_an_error_can_both_be_there(self, backend: Backend) -> None:
        """A hook answered, and a later one failed."""
        kept = FakeRunner().predict("a", QUESTIONS)

        def fail(ctx: Any) -> None:
            ctx.skip(kept)
            raise KeyError("x")

        with pytest.raises(KeyError):
            FakeRunner(hooks=backend.hook()).predict("a", QUESTIONS, on_predict_start=fail)
        assert {"error.type", "laya.answer.urgent"} <= set(attributes(backend.span))

    def test_a_call_that_failed_before_its_start_has_a_span(self, backend: Backend) -> None:
        """Routing failed, so no start hook ran."""

        def reroute(ctx: Any) -> None:
            time.sleep(0.05)
            ctx.decision = {"model": "nowhere"}

        with pytest.raises(ValueError, match="nowhere"):
            Router(hooks=[backend.hook(), RecordingHook(on_route=reroute)]).predict("a", QUESTIONS)
        assert backend.span.status.status_code is StatusCode.ERROR
        assert backend.span.start_time and backend.span.end_time
        assert backend.span.end_time - backend.span.start_time > 40e6

    def test_nothing_leaks_when_a_call_is_broken_off(self, backend: Backend) -> None:
        """Whatever breaks it off, and wherever: one span each, and none is held on to."""
        hook = backend.hook()

        def predict_and_break_off(event: str, error: type[BaseException]) -> None:
            def break_off(ctx: Any) -> None:
                raise error

            with pytest.raises(error):
                FakeRunner(hooks=[hook, RecordingHook(**{event: break_off})]).predict("a", QUESTIONS)

        errors = (RuntimeError, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
        for event in ("on_predict_start", "on_predict_end"):
            for error in errors:
                predict_and_break_off(event, error)
        assert len(backend.spans) == 8
        assert [span.status.status_code for span in backend.spans[:4]] == [StatusCode.ERROR] * 4
        assert open_spans(hook) == 0

    async def test_a_cancelled_task_leaves_an_ended_span(self, backend: Backend) -> None:
        """The thread that answers runs to its end."""
        hook, reached, go_on = backend.hook(), threading.Event(), threading.Event()

        def wait(ctx: Any) -> None:
            reached.set()
            go_on.wait(30)

        def predict() -> None:
            try:
                FakeRunner(hooks=hook, on_predict_start=wait).predict("a", QUESTIONS)
            finally:
                ended.set()

        ended = threading.Event()
        task = asyncio.create_task(asyncio.to_thread(predict))
        await asyncio.to_thread(reached.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert backend.spans == []
        go_on.set()
        await asyncio.to_thread(ended.wait, 30)
        assert len(backend.spans) == 1
        del task
        assert open_spans(hook) == 0

    def test_a_start_without_an_end_is_let_go(self, backend: Backend) -> None:
        """A context that is gone takes its span with it."""
        hook = backend.hook()
        contexts: list[Any] = []
        FakeRunner().predict("a", QUESTIONS, on_predict_start=contexts.append)
        hook.on_predict_start(contexts[0])
        assert open_spans(hook) == 1
        contexts.clear()
        assert open_spans(hook) == 0

    def test_a_hook_that_is_installed_twice_counts_once(self, backend: Backend) -> None:
        """As a default of the process and on the runtime."""
        hook = backend.hook()
        set_default_hooks(hook)
        try:
            FakeRunner({"team": "billing"}, hooks=hook).predict("a", QUESTIONS)
        finally:
            clear_default_hooks()
        assert len(backend.spans) == 1
        assert backend.counts("laya.decisions", "laya.question", "laya.label")["team", "billing"] == 1

    def test_a_start_that_comes_too_late_opens_nothing(self, backend: Backend) -> None:
        """As that of a hook which overran its timeout: the call has ended meanwhile."""
        hook = backend.hook()
        contexts: list[Any] = []
        FakeRunner(hooks=hook).predict("a", QUESTIONS, on_predict_end=contexts.append)
        hook.on_predict_start(contexts[0])
        assert hook.span(contexts[0]) is None

    def test_a_hook_may_change_the_run_id(self, backend: Backend) -> None:
        """The span is found by the call, not by its id."""

        def rename(ctx: Any) -> None:
            ctx.run_id = "mine"

        FakeRunner(hooks=backend.hook(), on_predict_start=rename).predict("a", QUESTIONS)
        assert attributes(backend.span)["laya.run_id"] == "mine"

    def test_a_broken_tracer_fails_no_request(self, backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
        """It is logged, and the answer comes."""

        class BrokenTracers(type(backend.tracers)):  # type: ignore[misc]
            def get_tracer(self, *args: Any, **options: Any) -> Any:
                return None

        hook = OTelHook(BrokenTracers(), backend.meters)
        with caplog.at_level(logging.WARNING):
            assert FakeRunner({"team": "billing"}, hooks=hook).predict("a", QUESTIONS)["answers"]
        assert {record.name for record in caplog.records} == {"laya_integrations.opentelemetry"}
