"""A Router under load from many threads, with room for one checkpoint."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from laya import Router
from tests.integration.router.recording import URGENT, NotingAgent, Recorder, plain

TEXTS = {
    "latin": "Where is my parcel? It was due on Monday",
    "cyrillic": "Где мой заказ? Я жду его с понедельника",
    "arabic": "أين طلبي؟ كان من المفترض أن يصل يوم الاثنين",
    "devanagari": "मेरा पार्सल कहाँ है? यह सोमवार को आना था",
    "han": "我的包裹在哪里?本来应该星期一到",
    "hangul": "제 소포는 어디에 있나요? 월요일에 도착할 예정이었어요",
}
CHECKPOINT = {script: "english" if script == "latin" else "multilingual" for script in TEXTS}
THREADS = 16
REQUESTS = 1000
DEADLINE_S = 100


class Grants(OrderedDict[str, Any]):
    """The table of what is in memory, which notes each use of a name in the order in which it was granted.

    Residency writes to it under its lock, so the order is the true one. A thread that waited for a build of
    another shares that build's grant.
    """

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def __setitem__(self, name: str, agent: Any) -> None:
        self.order.append(name)
        super().__setitem__(name, agent)

    def move_to_end(self, name: str, last: bool = True) -> None:
        self.order.append(name)
        super().move_to_end(name, last)

    @property
    def switches(self) -> int:
        """How often the name changed from one grant to the next."""
        return sum(one != other for one, other in pairwise(self.order))


class StubAgent:
    """Answers with its own name and the state, and at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def system_one(self, state: Any, questions: Any, **options: Any) -> Any:
        """Answer one state."""
        return {"answers": {"who": self.name, "state": state}, "usage": {"input_tokens": 1, "output_tokens": 0}}


class CountingRouter(Router):
    """A Router that notes what it builds and grants."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.builds: list[str] = []
        super().__init__(*args, **options)
        self.grants = Grants()
        self._residency._agents = self.grants

    def _build(self, name: str) -> Any:
        self.builds.append(name)
        return super()._build(name)


class StubRouter(CountingRouter):
    """The same, and its builds take a moment but no files."""

    def _build(self, name: str) -> Any:
        self.builds.append(name)
        time.sleep(0.002)
        return StubAgent(name)


def run_in_threads(work: Callable[[int], None], count: int = THREADS, deadline_s: float = DEADLINE_S) -> None:
    """Run `work` in threads; fail where one fails or doesn't come back."""
    errors: list[BaseException] = []

    def guarded(place: int) -> None:
        try:
            work(place)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(place,), daemon=True) for place in range(count)]
    end = time.monotonic() + deadline_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread still waits"
    assert errors == []


def answer_all(router: Router, scripts: list[str], answered: Callable[[str, Any], None], deadline_s: float) -> None:
    """Answer a text in each of these scripts, taken by the threads in this order."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for script in scripts:
        waiting.put(script)

    def work(place: int) -> None:
        while True:
            try:
                script = waiting.get_nowait()
            except queue.Empty:
                return
            answered(script, router.predict(TEXTS[script], URGENT))

    run_in_threads(work, deadline_s=deadline_s)


def check_builds(router: CountingRouter, hook: Recorder) -> None:
    """At most one build more than switches; each build was told, and each but the last left again."""
    assert len(router.builds) <= router.grants.switches + 1
    events = [event for event in hook.events if event.startswith(("on_load", "on_evict"))]
    assert sorted(event.split()[1] for event in events if event.startswith("on_load")) == sorted(router.builds)
    assert len(events) == 2 * len(router.builds) - 1
    assert len(router.loaded) == 1


@pytest.mark.parametrize("run", [1, 20])
def test_a_thousand_requests_build_no_more_than_they_switch(run: int) -> None:
    """Six scripts in runs of this length, 16 threads, one checkpoint in memory: every answer is right."""
    hook = Recorder()
    router = StubRouter(max_loaded=1, hooks=hook)
    shuffled = random.Random(run)
    scripts = [script for _ in range(REQUESTS // run) for script in [shuffled.choice(list(TEXTS))] * run]
    answers: list[tuple[str, Any]] = []
    answer_all(router, scripts, lambda script, result: answers.append((script, result)), DEADLINE_S)
    assert len(answers) == REQUESTS
    for script, result in answers:
        assert result["answers"] == {"who": CHECKPOINT[script], "state": TEXTS[script]}
        assert result["routing"]["model"] == CHECKPOINT[script]
    assert len({result["run_id"] for _, result in answers}) == REQUESTS
    check_builds(router, hook)


def _check_real(models: dict[str, Path], agents: dict[str, NotingAgent], scripts: list[str], deadline_s: float) -> None:
    hook = Recorder()
    router = CountingRouter(models, device="cpu", max_loaded=1, hooks=hook)
    expected = {script: plain(agents[CHECKPOINT[script]].predict(text, URGENT)) for script, text in TEXTS.items()}
    answers: list[tuple[str, Any]] = []
    answer_all(router, scripts, lambda script, result: answers.append((script, result)), deadline_s)
    assert len(answers) == len(scripts)
    for script, result in answers:
        assert plain(result) == expected[script]
        assert result["routing"]["model"] == CHECKPOINT[script]
    check_builds(router, hook)


def test_real_checkpoints_come_and_go_under_load(models: dict[str, Path], agents: dict[str, NotingAgent]) -> None:
    """A few switches, all built from disk while others answer."""
    scripts = [script for script in ("latin", "cyrillic", "han", "latin") for _ in range(16)]
    _check_real(models, agents, scripts, DEADLINE_S)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thousand_requests_to_real_checkpoints(models: dict[str, Path], agents: dict[str, NotingAgent]) -> None:
    """The same as with stubs, and the answers are those of one thread."""
    shuffled = random.Random(4)
    scripts = [script for _ in range(40) for script in [shuffled.choice(list(TEXTS))] * 25]
    _check_real(models, agents, scripts, 800)


def test_everything_at_once() -> None:
    """Predicting, batches, loading, unloading, attaching and preloading together: no wrong answer, no deadlock."""
    hook = Recorder()
    router = StubRouter(max_loaded=1, hooks=hook, hooks_concurrent=False)
    stop = threading.Event()

    def ask(place: int) -> None:
        chosen = random.Random(place)
        for _ in range(40):
            scripts = chosen.choices(list(TEXTS), k=3)
            single = router.predict(TEXTS[scripts[0]], URGENT)
            assert single["answers"]["who"] == CHECKPOINT[scripts[0]]
            several = router.predict_batch([{"state": TEXTS[script], "questions": URGENT} for script in scripts])
            assert [result["answers"]["who"] for result in several] == [CHECKPOINT[script] for script in scripts]
            assert [result["answers"]["state"] for result in several] == [TEXTS[script] for script in scripts]

    def disturb(place: int) -> None:
        chosen = random.Random(place)
        while not stop.is_set():
            name = chosen.choice(["english", "multilingual"])
            chosen.choice(
                [
                    partial(router.unload, name),
                    router.unload,
                    partial(router.load, name),
                    partial(router.preload, [name]),
                    partial(router.attach, name, StubAgent(name)),
                    partial(router.attach, f"own-{place}", StubAgent("own")),
                    lambda: router.loaded,
                    lambda: repr(router),
                ]
            )()
            time.sleep(0.001)

    remaining = [12]
    counting = threading.Lock()

    def counted(place: int) -> None:
        try:
            disturb(place) if place < 4 else ask(place)
        finally:
            with counting:
                remaining[0] -= place >= 4
                if not remaining[0]:
                    stop.set()

    run_in_threads(counted)
    starts, ends = hook.at("on_predict_start"), hook.at("on_predict_end")
    assert len(starts) == len(ends) == 12 * 40 * 4
    assert all(ctx.error is None for ctx in ends)


class AsyncHooks:
    """A hook whose method is a coroutine."""

    async def on_predict_start(self, ctx: Any) -> None:
        """Let others run."""
        await asyncio.sleep(0.001)


async def test_async_callers_answer_side_by_side(router: Router, agents: dict[str, NotingAgent]) -> None:
    """From the loop's threads, each as its own call; and from the loop's own, which then waits."""
    scripts = [*TEXTS] * 3
    results = await asyncio.gather(
        *(asyncio.to_thread(router.predict, TEXTS[script], URGENT, hooks=AsyncHooks()) for script in scripts)
    )
    assert [result["routing"]["model"] for result in results] == [CHECKPOINT[script] for script in scripts]
    assert len({result["run_id"] for result in results}) == len(scripts)
    assert plain(router.predict(TEXTS["han"], URGENT, hooks=AsyncHooks())) == plain(results[4])
