"""Callers in many threads and tasks, with a real agent: the same answers, and each call's own records."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import laya
from laya import Agent, PredictContext, Router, hooks
from laya._aside import _THREADS
from laya.errors import LayaError, OptionError, QuestionError, StateError
from laya.hooks import run_coroutine_sync
from laya_integrations._decisions import Decisions

pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")
WINDOW_MS = 100.0
NOUL = {"type": "noul", "instructions": "Does the user threaten to leave?"}
SCORE = {"type": "score", "instructions": "How urgent is it?", "criteria": ["not", "soon", "now"]}
CHOICE = {"type": "choice", "instructions": "Who?", "criteria": {"billing": "invoices", "tech": "bugs", "other": None}}
CHURN = {"churn": NOUL}
QUESTION_SETS: list[dict[str, Any]] = [CHURN, {"urgency": SCORE, "team": CHOICE}, {"churn": NOUL, "team": CHOICE}]
BUDGETS: list[dict[str, int]] = [{}, {"max_len": 80}, {"max_len": 60, "head_max_len": 30}]
request_id: ContextVar[str] = ContextVar("request_id", default="none")


class Recorder:
    """Notes the events of each call by its run id, and the context as it was at the end."""

    def __init__(self, **steps: Callable[[PredictContext], Any]) -> None:
        self.steps = steps
        self.events: dict[str, list[str]] = {}
        self.ended: dict[str, dict[str, Any]] = {}

    def _note(self, event: str, ctx: PredictContext) -> None:
        self.events.setdefault(ctx.run_id, []).append(event)
        if event == "end":
            self.ended[ctx.run_id] = dict(vars(ctx))
        if event in self.steps:
            self.steps[event](ctx)

    def on_predict_start(self, ctx: PredictContext) -> None:
        self._note("start", ctx)

    def on_predict_end(self, ctx: PredictContext) -> None:
        self._note("end", ctx)

    def on_error(self, ctx: PredictContext) -> None:
        self._note("error", ctx)


class Gate:
    """Stands before an agent's forward: counts rows, holds passes back, or fails them."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.rows: list[int] = []
        self.began = threading.Event()
        self.open = threading.Event()
        self.open.set()
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, batch: Any) -> Any:
        self.rows.append(len(batch.input_ids))
        self.began.set()
        assert self.open.wait(60)
        if self.error is not None:
            raise self.error
        return self._inner(batch)


@pytest.fixture(scope="module")
def plain(checkpoints: Path) -> Agent:
    """An agent whose calls have passes of their own."""
    return Agent(checkpoints / "english", device="cpu")


@pytest.fixture(scope="module")
def sharing(checkpoints: Path) -> Agent:
    """The same checkpoint, with a window."""
    return Agent(checkpoints / "english", device="cpu", batch_window_ms=WINDOW_MS)


@pytest.fixture
def agent(sharing: Agent) -> Iterator[Agent]:
    """The one with a window, without hooks before and after."""
    yield sharing
    for hook in sharing.hooks:
        sharing.remove_hook(hook)
    hooks.clear_default_hooks()


@pytest.fixture
def gate(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Stands before the forward of the agent with a window."""
    assert agent._engine is not None
    gate = Gate(agent._engine.forward)
    monkeypatch.setattr(agent._engine, "forward", gate)
    yield gate
    gate.open.set()


def call_of(index: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """State, questions and options of the index-th caller: any mix."""
    state = f"Customer {index} was billed twice. " + "Please refund it today. " * (index % 7)
    return state, QUESTION_SETS[index % 3], dict(BUDGETS[index // 3 % 3])


def assert_same(got: Any, expected: Any) -> None:
    """Results that differ by no more than the company in a pass may make them differ."""
    numbers = (int, float)
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            if key != "run_id":
                assert_same(got[key], expected[key])
    elif isinstance(expected, numbers) and not isinstance(expected, bool):
        assert got == pytest.approx(expected, abs=2e-4)
    else:
        assert got == expected


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread brings about."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


async def auntil(condition: Callable[[], bool]) -> None:
    """`until`, on the event loop."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


def test_threads_get_the_answers_that_they_get_alone(plain: Agent, agent: Agent, gate: Gate) -> None:
    """32 of them, with all sorts of questions and budgets, in a few passes."""
    calls = [call_of(index) for index in range(32)]
    expected = [plain.predict(state, questions, **options) for state, questions, options in calls]
    barrier = threading.Barrier(32)

    def call(index: int) -> Any:
        state, questions, options = calls[index]
        barrier.wait()
        return agent.predict(state, questions, **options)

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(call, range(32)))
    for got, alone in zip(results, expected, strict=True):
        assert_same(got, alone)
    assert sum(gate.rows) == sum(len(questions) for _, questions, _ in calls)
    assert len(gate.rows) <= 16


def test_every_call_keeps_its_own_records(agent: Agent, gate: Gate) -> None:
    """Run id, context, hooks, usage, time and gate, in one shared pass."""
    installed = Recorder()
    agent.add_hook(installed)
    own = [Recorder() for _ in range(8)]
    barrier = threading.Barrier(8)

    def call(index: int) -> Any:
        barrier.wait()
        threshold = 0.9999 if index == 3 else None
        return agent.predict(f"state {index}", CHURN, hooks=own[index], min_confidence=threshold)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, range(8)))
    assert len(gate.rows) < 8
    assert len({result["run_id"] for result in results}) == 8
    assert set(installed.events) == {result["run_id"] for result in results}
    for index, (result, hook) in enumerate(zip(results, own, strict=True)):
        (seen,) = hook.ended.values()
        assert hook.events == {result["run_id"]: ["start", "end"]}
        assert installed.events[result["run_id"]] == ["start", "end"]
        assert (seen["states"], seen["run_id"], seen["error"]) == ([f"state {index}"], result["run_id"], None)
        assert seen["results"] == [result]
        assert seen["usage"]["input_tokens"] == result["usage"]["input_tokens"]
        assert 0 < seen["elapsed_ms"] < 60_000
        assert ("low_confidence" in result["answers"]["churn"]) is (index == 3)


def test_a_bad_call_fails_alone(agent: Agent, gate: Gate) -> None:
    """It never joins the others."""
    bad: list[tuple[Any, Any, type[Exception]]] = [
        (None, CHURN, StateError),
        ({"a": object()}, CHURN, StateError),
        ("x", {"q": {"type": "bogus"}}, QuestionError),
    ]
    barrier = threading.Barrier(6)

    def call(index: int) -> Any:
        hook = Recorder()
        barrier.wait()
        if index % 2:
            return agent.predict("good", CHURN)
        state, questions, expected = bad[index // 2]
        with pytest.raises(expected) as caught:
            agent.predict(state, questions, hooks=hook)
        assert list(hook.events.values()) == [["start", "error", "end"]]
        return caught.value

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(call, range(6)))
    assert all(result["answers"] for result in results[1::2])
    assert sum(gate.rows) == 3


def test_a_failed_pass_reaches_all_its_calls(agent: Agent, gate: Gate) -> None:
    """As an error of their own, and with their hooks."""
    gate.error = RuntimeError("pass")
    barrier = threading.Barrier(4)

    def call(index: int) -> tuple[BaseException, dict[str, Any]]:
        hook = Recorder()
        barrier.wait()
        with pytest.raises(RuntimeError, match="pass") as caught:
            agent.predict("state", CHURN, hooks=hook)
        assert list(hook.events.values()) == [["start", "error", "end"]]
        return caught.value, *hook.ended.values()  # type: ignore[return-value]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(call, range(4)))
    assert len(gate.rows) < 4
    assert len({id(error) for error, _ in found}) == 4
    assert all(seen["error"] is error for error, seen in found)
    gate.error = None
    assert agent.predict("state", CHURN)["answers"]


def test_a_lone_call_is_later_by_the_window_at_most(agent: Agent, plain: Agent) -> None:
    """Its answer is the same."""
    alone = plain.predict("state", CHURN)
    hook = Recorder()
    assert_same(agent.predict("state", CHURN, hooks=hook), alone)
    (seen,) = hook.ended.values()
    assert WINDOW_MS - 1 <= seen["elapsed_ms"] < WINDOW_MS + 5000


def test_calls_that_say_how_their_passes_are_have_their_own(agent: Agent, gate: Gate) -> None:
    """A batch size is obeyed; a batch that fills passes doesn't wait either."""
    agent.predict_batch(["a", "b", "c"], CHURN, batch_size=2)
    assert gate.rows == [2, 1]
    assert len(agent.predict_batch(["a"] * 257, CHURN)) == 257
    assert agent._shared is not None
    assert agent.predict_batch([], CHURN) == []
    assert agent.predict_batch(["a"], {})[0]["answers"] == {}


def test_long_states_batches_and_schemas_share_as_well(agent: Agent, plain: Agent, gate: Gate) -> None:
    """Everything that predicts."""
    text = " ".join(f"Invoice {index} was paid late." for index in range(60))
    expected = (plain.predict_long(text, CHURN), plain.predict_batch(["a", "b"], CHURN))
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(agent.predict_long, text, CHURN)
        batch = pool.submit(agent.predict_batch, ["a", "b"], CHURN)
        assert_same(long.result(60), expected[0])
        for got, alone in zip(batch.result(60), expected[1], strict=True):
            assert_same(got, alone)
    assert sum(gate.rows) == expected[0]["usage"]["windows"] + 2


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_hook_may_predict(checkpoints: Path, concurrent: bool) -> None:
    """Before and after, in every thread, under a timeout and with one hook at a time: no deadlock."""
    agent = Agent(
        checkpoints / "english", device="cpu", batch_window_ms=5, hooks_concurrent=concurrent, hooks_timeout=60
    )
    inner: list[str] = []

    def ask(ctx: PredictContext) -> None:
        inner.append(agent.predict("inner", CHURN)["run_id"])

    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(agent.predict, "outer", CHURN, Recorder(start=ask, end=ask)) for _ in range(6)]
        outer = [call.result(60)["run_id"] for call in calls]
    assert len({*inner, *outer}) == 18


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, which a job in a shell's background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupted_caller_leaves_the_others_alone(agent: Agent, gate: Gate) -> None:
    """Ctrl-C reaches the main thread alone, and its hooks."""
    gate.open.clear()
    hook = Recorder()
    with ThreadPoolExecutor(4) as pool, interruptible():

        def others() -> list[Any]:
            assert gate.began.wait(30)
            calls = [pool.submit(agent.predict, f"state {index}", CHURN) for index in range(3)]
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            until(lambda: "error" in str(hook.events))
            gate.open.set()
            return [call.result(60) for call in calls]

        asked = pool.submit(others)
        with pytest.raises(KeyboardInterrupt):
            agent.predict("state", CHURN, hooks=hook)
        assert len(asked.result(60)) == 3
    assert list(hook.events.values()) == [["start", "error", "end"]]
    assert agent.predict("later", CHURN)["answers"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_shares_anew(checkpoints: Path) -> None:
    """It has neither the worker nor those who wait for it."""
    script = f"""
        import asyncio, os, sys, threading, warnings
        warnings.simplefilter("ignore")
        import laya
        agent = laya.load({str(checkpoints / "english")!r}, device="cpu", batch_window_ms=50)
        question = {{"q": {{"type": "noul", "instructions": "Is it?"}}}}
        asyncio.run(agent.apredict("x", question))
        waiting = threading.Thread(target=agent.predict, args=("x", question))
        waiting.start()
        pid = os.fork()
        if pid == 0:
            threads = [threading.Thread(target=agent.predict, args=("x", question)) for _ in range(3)]
            [thread.start() for thread in threads]
            [thread.join(60) for thread in threads]
            result = asyncio.run(agent.apredict("x", question))
            os._exit(0 if result["answers"] and not any(thread.is_alive() for thread in threads) else 1)
        waiting.join(60)
        _, status = os.waitpid(pid, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_agent_answers_those_who_wait(checkpoints: Path) -> None:
    """And refuses later ones."""
    agent = Agent(checkpoints / "english", device="cpu", batch_window_ms=300)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.predict, "state", CHURN)
        until(lambda: agent._shared is not None and bool(agent._shared._waiting))
        agent.close()
        assert waiting.result(60)["answers"]
    with pytest.raises(LayaError, match="closed"):
        agent.predict("state", CHURN)


def test_first_loads_may_come_together(checkpoints: Path) -> None:
    """In a process that has imported nothing yet, where each thread would import what builds encoders."""
    script = f"""
        import threading, laya
        from concurrent.futures import ThreadPoolExecutor
        together = threading.Barrier(4)
        def load(_):
            laya.Agent
            together.wait()
            return laya.load({str(checkpoints / "bert")!r}, device="cpu")
        with ThreadPoolExecutor(4) as pool:
            print(len(list(pool.map(load, range(4)))))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("4\n", "")


def test_a_bad_window_is_refused_before_anything_is_loaded() -> None:
    """The checkpoint doesn't even exist."""
    for make in (Agent, laya.load, laya.ONNXAgent):
        with pytest.raises(OptionError, match="batch_window_ms"):
            make("nowhere", batch_window_ms=-1)  # type: ignore[operator]


class TestTasks:
    """`apredict` and `apredict_batch`."""

    async def test_many_tasks_get_the_answers_that_they_get_alone(self, plain: Agent, agent: Agent, gate: Gate) -> None:
        """200 wait at once, although the threads are few."""
        calls = [call_of(index) for index in range(200)]
        hook = Recorder()
        gate.open.clear()
        tasks = [
            asyncio.create_task(agent.apredict(state, questions, hooks=hook, **options))
            for state, questions, options in calls
        ]
        await auntil(lambda: len(hook.events) == 200)
        assert not hook.ended
        assert sum(thread.name.startswith("laya-async") for thread in threading.enumerate()) <= _THREADS
        gate.open.set()
        results = await asyncio.gather(*tasks)
        assert set(hook.events) == {result["run_id"] for result in results}
        assert all(events == ["start", "end"] for events in hook.events.values())
        assert sum(gate.rows) == sum(len(questions) for _, questions, _ in calls)
        assert len(gate.rows) <= 40
        for index in range(0, 200, 11):
            state, questions, options = calls[index]
            assert_same(results[index], plain.predict(state, questions, **options))

    @pytest.mark.parametrize("window", [None, WINDOW_MS])
    async def test_batches_are_awaited_too(self, plain: Agent, agent: Agent, window: float | None) -> None:
        """With the results of `predict_batch`, in input order."""
        asked = plain if window is None else agent
        states = [f"state {index}" for index in range(5)]
        results = await asked.apredict_batch(states, CHURN, 2, min_confidence=0.5)
        for got, alone in zip(results, plain.predict_batch(states, CHURN, 2, min_confidence=0.5), strict=True):
            assert_same(got, alone)
        assert await asked.apredict_batch([], CHURN) == []

    async def test_the_loop_runs_on_during_hooks_and_passes(self, agent: Agent, gate: Gate) -> None:
        """Each waits for what only the loop can give it."""
        from_loop = threading.Event()
        gate.open.clear()
        hook = Recorder(start=lambda ctx: from_loop.wait(30))
        task = asyncio.create_task(agent.apredict("state", CHURN, hooks=hook))
        await auntil(lambda: bool(hook.events))
        from_loop.set()
        await auntil(gate.began.is_set)
        gate.open.set()
        assert (await task)["answers"]

    @pytest.mark.parametrize("window", [None, WINDOW_MS])
    async def test_hooks_see_the_callers_context(self, plain: Agent, agent: Agent, window: float | None) -> None:
        """What a start hook sets its end hook finds, and the caller doesn't."""
        seen: list[str] = []

        def start(ctx: PredictContext) -> None:
            seen.append(request_id.get())
            request_id.set("hook")

        request_id.set("caller")
        hook = Recorder(start=start, end=lambda ctx: seen.append(request_id.get()))
        await (plain if window is None else agent).apredict("state", CHURN, hooks=hook)
        assert seen == ["caller", "hook"]
        assert request_id.get() == "caller"

    async def test_errors_come_as_from_predict(self, agent: Agent, gate: Gate) -> None:
        """A bad argument, a bad state, a failing hook and a failing pass."""
        with pytest.raises(TypeError):
            await agent.apredict("state", CHURN, hooks=5)
        with pytest.raises(StateError):
            await agent.apredict(None, CHURN)
        with pytest.raises(OptionError):
            await agent.apredict_batch(["state"], CHURN, batch_size=0)

        def fail(ctx: PredictContext) -> None:
            raise LookupError("hook")

        for step in ("start", "end"):
            with pytest.raises(LookupError, match="hook"):
                await agent.apredict("state", CHURN, hooks=Recorder(**{step: fail}))
        gate.error = RuntimeError("pass")
        hook = Recorder()
        with pytest.raises(RuntimeError, match="pass"):
            await agent.apredict("state", CHURN, hooks=hook)
        assert list(hook.events.values()) == [["start", "error", "end"]]

    async def test_a_hook_that_raises_stop_iteration_hangs_nothing(self, agent: Agent) -> None:
        """No future takes it; it comes as what a coroutine makes of it."""

        def fail(ctx: PredictContext) -> None:
            raise StopIteration

        hook = Recorder(start=fail)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(agent.apredict("state", CHURN, hooks=hook), 30)
        (seen,) = hook.ended.values()
        assert isinstance(seen["error"], StopIteration)

    async def test_a_cancelled_task_takes_its_rows_out(self, agent: Agent, gate: Gate) -> None:
        """Its contexts are closed with the cancellation; the others are answered."""
        gate.open.clear()
        first = asyncio.create_task(agent.apredict("first", CHURN))
        await auntil(gate.began.is_set)
        hook = Recorder()
        stays = asyncio.create_task(agent.apredict("stays", CHURN))
        leaves = asyncio.create_task(agent.apredict("leaves", CHURN, hooks=hook))
        await auntil(lambda: agent._shared is not None and len(agent._shared._waiting) == 2)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        assert list(hook.events.values()) == [["start", "error", "end"]]
        (seen,) = hook.ended.values()
        assert isinstance(seen["error"], asyncio.CancelledError)
        gate.open.set()
        assert (await first)["answers"]
        assert (await stays)["answers"]
        assert gate.rows == [1, 1]

    async def test_a_task_is_not_held_by_its_hook(self, agent: Agent, gate: Gate) -> None:
        """It is cancelled at once; its contexts are closed when the hook comes back, and nothing is computed."""
        back = threading.Event()
        hook = Recorder(start=lambda ctx: back.wait(30))
        task = asyncio.create_task(agent.apredict("state", CHURN, hooks=hook))
        await auntil(lambda: bool(hook.events))
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.01)
        assert time.monotonic() - started < 5
        assert not hook.ended
        back.set()
        await auntil(lambda: bool(hook.ended))
        assert list(hook.events.values()) == [["start", "error", "end"]]
        assert (await agent.apredict("later", CHURN))["answers"]
        assert gate.rows == [1]

    async def test_a_cancelled_batch_ends_before_its_next_pass(self, plain: Agent, monkeypatch: Any) -> None:
        """Also where the passes are its own."""
        assert plain._engine is not None
        gate = Gate(plain._engine.forward)
        monkeypatch.setattr(plain._engine, "forward", gate)
        gate.open.clear()
        hook = Recorder()
        task = asyncio.create_task(plain.apredict_batch(["a"] * 50, CHURN, batch_size=1, hooks=hook))
        await auntil(gate.began.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open.set()
        await auntil(lambda: bool(hook.ended))
        assert gate.rows == [1]
        assert list(hook.events.values()) == [["start", "error", "end"]]

    async def test_a_task_that_never_got_a_thread_starts_nothing(self, plain: Agent) -> None:
        """Cancelled in the queue."""
        back = threading.Event()
        blocking = Recorder(start=lambda ctx: back.wait(30))
        busy = [asyncio.create_task(plain.apredict("a", CHURN, hooks=blocking)) for _ in range(_THREADS)]
        await auntil(lambda: len(blocking.events) == _THREADS)
        hook = Recorder()
        task = asyncio.create_task(plain.apredict("b", CHURN, hooks=hook))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        back.set()
        await asyncio.gather(*busy)
        assert hook.events == {}

    async def test_a_cancellation_at_the_end_closes_as_usual(self, agent: Agent) -> None:
        """The answer is there; only the task doesn't want it any more."""
        back = threading.Event()
        hook = Recorder(end=lambda ctx: back.wait(30))
        task = asyncio.create_task(agent.apredict("state", CHURN, hooks=hook))
        await auntil(lambda: bool(hook.ended))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        back.set()
        assert list(hook.events.values()) == [["start", "end"]]

    async def test_adapters_await_them(self, agent: Agent, gate: Gate) -> None:
        """With the framework's context variables in the hooks, and a run id each."""
        seen: list[str] = []
        agent.add_hook(Recorder(start=lambda ctx: seen.append(request_id.get())))
        request_id.set("framework")
        gate.open.clear()
        decisions = Decisions(agent, CHURN)
        asked = [asyncio.create_task(decisions.aone(f"state {index}")) for index in range(2 * _THREADS)]
        await auntil(lambda: len(seen) == len(asked))
        gate.open.set()
        found = await asyncio.gather(*asked, decisions.aone("one more"))
        (first, second) = await decisions.amany(["a", "b"])
        assert len({decision.run_id for decision in found}) == len(found)
        assert (first.run_id, first.batch_index, second.batch_index) == (second.run_id, 0, 1)
        assert set(seen) == {"framework"}

    async def test_hooks_may_await_further_calls(self, agent: Agent) -> None:
        """More of them than there are threads."""

        def ask(ctx: PredictContext) -> None:
            assert run_coroutine_sync(agent.apredict("inner", CHURN))["answers"]

        count = 2 * _THREADS
        calls = [agent.apredict("outer", CHURN, hooks=Recorder(start=ask, end=ask)) for _ in range(count)]
        assert len(await asyncio.wait_for(asyncio.gather(*calls), 100)) == count

    async def test_nothing_stays_behind(self, agent: Agent) -> None:
        """No task, and no thread but those of the pool."""
        await asyncio.gather(*(agent.apredict("state", CHURN) for _ in range(5)))
        await auntil(lambda: agent._shared is not None and agent._shared._worker is None)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not any(thread.name.startswith("laya-shared") for thread in threading.enumerate())


class TestRouter:
    """The same through a Router."""

    @pytest.fixture
    def router(self, agent: Agent, plain: Agent) -> Router:
        """One agent with a window and one without."""
        router = Router(models={}, device="cpu")
        router.attach("english", agent)
        router.attach("plain", plain)
        return router

    async def test_tasks_share_passes(self, router: Router, plain: Agent, gate: Gate) -> None:
        """More wait at once than there are threads; each result has its routing and the Router's run id."""
        own, default = Recorder(), Recorder()
        hooks.add_default_hook(default)
        gate.open.clear()
        count = 3 * _THREADS
        calls = [router.apredict(f"state {i}", CHURN, model="english", hooks=own) for i in range(count)]
        tasks = [asyncio.create_task(call) for call in calls]
        await auntil(lambda: len(own.events) == count)
        gate.open.set()
        results = await asyncio.gather(*tasks)
        assert len(gate.rows) < count
        assert {result["run_id"] for result in results} == set(own.events) == set(default.events)
        assert all(events == ["start", "end"] for events in (own.events | default.events).values())
        expected = Router.predict(router, "state 0", CHURN, model="plain")
        assert_same(results[0]["answers"], expected["answers"])
        assert results[0]["routing"]["model"] == "english"

    @pytest.mark.parametrize("model", ["english", "plain"])
    async def test_a_batch_is_routed_as_by_predict_batch(self, router: Router, model: str) -> None:
        """In input order, with contexts for each request."""
        requests = [
            {"state": f"state {index}", "questions": QUESTION_SETS[index % 2], "model": name}
            for index, name in enumerate([model, "plain", model, "english", model])
        ]
        hook = Recorder()
        results = await router.apredict_batch(requests, hooks=hook)
        for got, expected in zip(results, router.predict_batch(requests), strict=True):
            assert_same(got, expected)
        assert {result["run_id"] for result in results} == set(hook.events)
        assert all(events == ["start", "end"] for events in hook.events.values())

    async def test_hooks_of_router_and_agent_see_one_context(self, router: Router, agent: Agent) -> None:
        """What the Router's start hook sets the agent's hooks see."""
        seen: list[str] = []
        agent.add_hook(Recorder(start=lambda ctx: seen.append(request_id.get())))
        hook = Recorder(start=lambda ctx: request_id.set("router"), end=lambda ctx: seen.append(request_id.get()))
        await router.apredict("state", CHURN, model="english", hooks=hook)
        assert seen == ["router", "router"]

    async def test_a_failure_to_route_reaches_the_hooks(self, router: Router) -> None:
        """As in `predict`."""
        with pytest.raises(ValueError, match="nowhere"):
            await router.apredict("state", CHURN, model="nowhere")
        with pytest.raises(TypeError):
            await router.apredict_batch({"state": "x"})  # type: ignore[arg-type]

        def fail(ctx: PredictContext) -> None:
            raise LookupError("route")

        hook = Recorder()
        hook.on_route = fail  # type: ignore[attr-defined]
        with pytest.raises(LookupError, match="route"):
            await router.apredict("state", CHURN, hooks=hook)
        assert list(hook.events.values()) == [["error", "end"]]

    async def test_a_cancelled_call_closes_both_contexts(self, router: Router, agent: Agent, gate: Gate) -> None:
        """The agent's before the Router's."""
        order: list[str] = []
        agent.add_hook(Recorder(end=lambda ctx: order.append(f"agent {type(ctx.error).__name__}")))
        hook = Recorder(end=lambda ctx: order.append(f"router {type(ctx.error).__name__}"))
        gate.open.clear()
        task = asyncio.create_task(router.apredict("state", CHURN, model="english", hooks=hook))
        await auntil(gate.began.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await auntil(lambda: len(order) == 2)
        assert order == ["agent CancelledError", "router CancelledError"]

    async def test_an_agent_that_can_not_be_awaited_is_called_in_a_thread(self, router: Router) -> None:
        """Anything with `predict` may be attached."""

        class Other:
            def predict(self, state: Any, questions: Any, **options: Any) -> dict[str, Any]:
                name = threading.current_thread().name
                return {"model": name, "answers": {}, "usage": {"input_tokens": 1, "output_tokens": 0}}

        router.attach("other", Other())
        result = await router.apredict("state", CHURN, model="other")
        assert result["model"].startswith("laya-async")
        request = {"state": "state", "questions": CHURN, "model": "other"}
        assert (await router.apredict_batch([request]))[0]["model"].startswith("laya-async")
