"""The prediction lifecycle: what fires when, and what an error does."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from laya._lifecycle import CallHooks, HookedRuntime, HookPolicy, Lifecycle
from laya._pipeline.confidence import ConfidenceGate
from laya.hooks import PredictContext

RESULT = {"answers": {"q": {"type": "noul", "answer_confidence": 0.6}}, "usage": {"input_tokens": 3}}


class Recorder:
    """Notes every event with the state it came for, and raises where it is told to."""

    def __init__(self, name: str = "", **failures: BaseException | Callable[[PredictContext], Any]) -> None:
        self.name = name
        self.failures = failures
        self.events: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.seen: list[dict[str, Any]] = []

    def _note(self, event: str, ctx: PredictContext) -> None:
        self.events.append(f"{self.name}{event}{''.join(map(str, ctx.states))}")
        self.seen.append({"event": event, **vars(ctx)})
        failure = self.failures.get(event)
        if isinstance(failure, BaseException):
            raise failure
        if failure is not None:
            failure(ctx)

    def on_predict_start(self, ctx: PredictContext) -> None:
        self._note("start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> None:
        self._note("end", ctx)

    def on_error(self, ctx: PredictContext) -> None:
        self._note("error", ctx)


def contexts(*states: str) -> list[PredictContext]:
    """A context for each state."""
    return [PredictContext([state], {}) for state in states]


def answer(pending: list[PredictContext]) -> None:
    """Give every pending context one result."""
    for ctx in pending:
        ctx.results = [RESULT]


def boom(pending: list[PredictContext]) -> None:
    """Fail as a forward pass would."""
    raise RuntimeError("pass")


def lifecycle(*hooks: Any, raise_errors: bool = True, gate: float | None = None) -> Lifecycle:
    """A lifecycle over these hooks."""
    return Lifecycle(hooks, HookPolicy(raise_errors), ConfidenceGate.parse(gate))


def chain(error: BaseException) -> list[BaseException]:
    """The error and its contexts; fails on a circle."""
    found: list[BaseException] = []
    node: BaseException | None = error
    while node is not None:
        assert all(node is not other for other in found), "the contexts form a circle"
        found.append(node)
        node = node.__context__
    traceback.format_exception(error)
    return found


def test_contexts_start_in_order_and_end_in_reverse() -> None:
    """What a start hook sets and its end hook resets unwinds to the value it found."""
    hook = Recorder()
    lifecycle(hook).run(contexts("a", "b", "c"), answer)
    assert hook.events == ["starta", "startb", "startc", "endc", "endb", "enda"]


def test_every_hook_runs_before_the_next_event() -> None:
    """In list order."""
    events: list[str] = []
    first, second = Recorder("1"), Recorder("2")
    first.events = second.events = events
    lifecycle(first, second).run(contexts(""), answer)
    assert events == ["1start", "2start", "1end", "2end"]


def test_an_answered_context_is_not_inferred() -> None:
    """`results is not None` decides, so that [] counts."""
    asked: list[list[str]] = []

    def infer(pending: list[PredictContext]) -> None:
        asked.append([ctx.states[0] for ctx in pending])
        answer(pending)

    def skip_nothing(ctx: PredictContext) -> None:
        if ctx.states == ["b"]:
            ctx.states, ctx.results = [], []

    lifecycle(Recorder(start=skip_nothing)).run(contexts("a", "b", "c"), infer)
    assert asked == [["a", "c"]]


def test_usage_and_time_are_there_at_the_end_alone() -> None:
    """None at start."""
    hook = Recorder()
    lifecycle(hook).run(contexts("a"), answer)
    start, end = hook.seen
    assert (start["usage"], start["elapsed_ms"]) == (None, None)
    assert end["usage"] == {"input_tokens": 3, "output_tokens": 0}
    assert end["elapsed_ms"] >= 0


def test_the_gate_runs_before_the_end_hooks_on_a_copy() -> None:
    """An end hook sees what the caller gets; a cached payload stays as it was."""
    hook = Recorder()
    lifecycle(hook, gate=0.9).run(contexts("a"), answer)
    assert hook.seen[-1]["results"][0]["answers"]["q"]["low_confidence"] is True
    assert "low_confidence" not in RESULT["answers"]["q"]  # type: ignore[index]


def test_a_failure_reaches_every_started_context_in_reverse() -> None:
    """on_error, then on_predict_end, one context after the other; usage and time are unset in on_error."""
    hook = Recorder()
    with pytest.raises(RuntimeError, match="pass") as caught:
        lifecycle(hook).run(contexts("a", "b"), boom)
    assert hook.events == ["starta", "startb", "errorb", "endb", "errora", "enda"]
    for seen in hook.seen[2:]:
        assert seen["error"] is caught.value
        assert seen["usage"] is None
        assert (seen["elapsed_ms"] is None) is (seen["event"] == "error")
        assert seen["results"] is None


def test_a_failing_start_hook_fails_the_contexts_that_started() -> None:
    """Its own counts as started; later ones never were."""

    def fail_b(ctx: PredictContext) -> None:
        if ctx.states == ["b"]:
            raise LookupError("b")

    hook = Recorder(start=fail_b)
    with pytest.raises(LookupError):
        lifecycle(hook).run(contexts("a", "b", "c"), answer)
    assert hook.events == ["starta", "startb", "errorb", "endb", "errora", "enda"]


def test_a_skipped_context_of_a_failed_call_has_results_and_error() -> None:
    """A hook skipped, a later one raised: usage is the payload's."""
    hook = Recorder(start=lambda ctx: ctx.skip([RESULT]))
    with pytest.raises(LookupError):
        lifecycle(hook, Recorder(start=LookupError("late"))).run(contexts("a"), answer)
    end = hook.seen[-1]
    assert (end["event"], end["results"], end["usage"]["input_tokens"]) == ("end", [RESULT], 3)
    assert isinstance(end["error"], LookupError)


@pytest.mark.parametrize("events", [("error",), ("end",), ("error", "end")])
def test_failing_hooks_never_hide_the_first_error(events: tuple[str, ...]) -> None:
    """They are all in its contexts, without a circle."""
    failures = {event: LookupError(event) for event in events}
    hook = Recorder(**failures)
    with pytest.raises(RuntimeError, match="pass") as caught:
        lifecycle(hook).run(contexts("a"), boom)
    assert hook.events == ["starta", "errora", "enda"]
    found = chain(caught.value)
    assert found[0] is caught.value
    assert set(failures.values()) <= set(found)
    assert caught.value.__cause__ is None


def test_an_errors_own_context_is_kept() -> None:
    """What the failure was raised from stays readable behind the hooks' failures."""
    cause = KeyError("older")

    def infer(pending: list[PredictContext]) -> None:
        try:
            raise cause
        except KeyError:
            raise RuntimeError("newer") from None

    hook = Recorder(error=LookupError("hook"))
    with pytest.raises(RuntimeError, match="newer") as caught:
        lifecycle(hook).run(contexts("a"), infer)
    assert [type(error) for error in chain(caught.value)] == [RuntimeError, LookupError, KeyError]


def test_a_hook_that_raises_the_error_again_closes_no_circle() -> None:
    """It is the first error already."""

    def again(ctx: PredictContext) -> None:
        assert ctx.error is not None
        raise ctx.error

    with pytest.raises(RuntimeError, match="pass") as caught:
        lifecycle(Recorder(error=again, end=again)).run(contexts("a", "b"), boom)
    assert chain(caught.value) == [caught.value]


def test_a_hook_that_wraps_the_error_is_chained() -> None:
    """Even though it names the first error as its cause."""

    def wrap(ctx: PredictContext) -> None:
        raise LookupError("wrapped") from ctx.error

    with pytest.raises(RuntimeError, match="pass") as caught:
        lifecycle(Recorder(error=wrap)).run(contexts("a"), boom)
    assert [type(error) for error in chain(caught.value)] == [RuntimeError, LookupError]


def test_a_failing_end_hook_ends_the_others_first() -> None:
    """The first such error is raised; no context gets on_error, for the prediction succeeded."""

    def fail(ctx: PredictContext) -> None:
        raise LookupError(ctx.states[0])

    hook = Recorder(end=fail)
    with pytest.raises(LookupError, match="c"):
        lifecycle(hook).run(contexts("a", "b", "c"), answer)
    assert hook.events[3:] == ["endc", "endb", "enda"]
    assert all(seen["error"] is None for seen in hook.seen)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_interrupts_take_the_same_path(interrupt: type[BaseException]) -> None:
    """A tracer closes its spans after Ctrl-C too."""

    def infer(pending: list[PredictContext]) -> None:
        raise interrupt

    hook = Recorder()
    with pytest.raises(interrupt):
        lifecycle(hook, raise_errors=False).run(contexts("a"), infer)
    assert hook.events == ["starta", "errora", "enda"]


def test_end_hooks_run_after_results_that_no_gate_can_read() -> None:
    """A hook may have assigned anything."""

    def spoil(ctx: PredictContext) -> None:
        ctx.results = 5  # type: ignore[assignment]

    hook = Recorder(start=spoil)
    with pytest.raises(TypeError):
        lifecycle(hook, gate=0.5).run(contexts("a"), answer)
    assert "enda" in hook.events


def test_a_lenient_policy_warns_and_goes_on() -> None:
    """A tracer's failure fails no request."""
    broken, hook = Recorder(start=LookupError("x"), end=LookupError("y")), Recorder()
    (ctx,) = contexts("a")
    with pytest.warns(RuntimeWarning) as caught:
        lifecycle(broken, hook, raise_errors=False).run([ctx], answer)
    assert len(caught) == 2
    assert hook.events == ["starta", "enda"]
    assert ctx.results == [RESULT]


def test_fail_reports_contexts_that_never_started() -> None:
    """A Router that can't route has no start to report."""
    hook = Recorder()
    (ctx,) = contexts("a")
    lifecycle(hook).fail([ctx], RuntimeError("route"))
    assert hook.events == ["errora", "enda"]
    assert ctx.elapsed_ms is not None


def test_a_call_takes_its_snapshot_once() -> None:
    """A hook that is installed by a hook runs from the next call on."""
    late = Recorder()
    runtime = HookedRuntime(CallHooks())
    runtime.add_hook(Recorder(start=lambda ctx: runtime.add_hook(late)))
    runtime._lifecycle(CallHooks()).run(contexts("a"), answer)
    assert late.events == []
    runtime._lifecycle(CallHooks()).run(contexts("b"), answer)
    assert late.events == ["startb", "endb"]


def test_a_calls_policy_overrides_the_instances() -> None:
    """None means the instance's value."""
    runtime = HookedRuntime(CallHooks(hooks_raise=False, hooks_timeout=5), hooks_concurrent=False)
    assert runtime._lifecycle(CallHooks()).policy == HookPolicy(False, runtime._hook_lock, 5)
    strict = runtime._lifecycle(CallHooks(hooks_raise=True, hooks_timeout=1)).policy
    assert (strict.raise_errors, strict.timeout) == (True, 1)
    assert HookedRuntime(CallHooks())._lifecycle(CallHooks()).policy == HookPolicy(True, None, None)


@pytest.mark.parametrize("timeout", [0, -1, True, float("nan"), float("inf"), "1", [1]], ids=repr)
def test_a_bad_timeout_is_a_value_error_before_any_hook(timeout: Any) -> None:
    """At construction and at the call."""
    with pytest.raises(ValueError, match="hooks_timeout"):
        HookedRuntime(CallHooks(hooks_timeout=timeout))
    with pytest.raises(ValueError, match="hooks_timeout"):
        HookedRuntime(CallHooks())._lifecycle(CallHooks(hooks_timeout=timeout))


def test_elapsed_counts_from_started_at() -> None:
    """In milliseconds."""
    (ctx,) = contexts("a")
    ctx.started_at = time.perf_counter() - 2
    lifecycle().run([ctx], answer)
    assert ctx.elapsed_ms is not None
    assert 2000 <= ctx.elapsed_ms < 60_000
