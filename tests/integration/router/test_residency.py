"""Which checkpoints a Router keeps in memory, and what it says about it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laya import PredictContext, Router, hooks
from laya.errors import CheckpointNotFoundError, OptionError
from tests.integration.router.recording import URGENT, NotingAgent, Recorder

Cold = Callable[..., Router]
STATE = "Where is my parcel?"


def test_the_least_recently_used_leaves(cold: Cold) -> None:
    """A prediction is a use; `loaded` lists the least recent first."""
    hook = Recorder()
    router = cold(hooks=hook)
    assert (router.loaded, router.max_loaded) == ([], 2)
    router.load("english")
    router.load("ml")
    router.predict(STATE, URGENT, model="english")
    assert router.loaded == ["multilingual", "english"]
    router.predict_batch([{"state": STATE, "questions": URGENT, "model": "typed"}])
    assert router.loaded == ["english", "typed-decisions"]
    lifecycle = [event for event in hook.events if event.startswith(("on_load", "on_evict"))]
    assert lifecycle == [
        *("on_load english", "on_load multilingual"),
        *("on_evict multilingual", "on_load typed-decisions"),
    ]


def test_loading_twice_builds_once(cold: Cold) -> None:
    """The events of one load have one run_id, and no state."""
    hook = Recorder()
    router = cold(max_loaded=1, hooks=hook)
    agent = router.load("en")
    assert router.load("english") is agent
    assert hook.events == ["on_load english"]
    assert hook.at("on_load")[0].agent is agent
    router.load("ml")
    assert len({ctx.run_id for _, ctx in hook.seen}) == 2


def test_default_hooks_hear_of_loading(cold: Cold) -> None:
    """Loading, preloading and unloading are events for them too."""
    default = Recorder()
    hooks.set_default_hooks(default)
    router = cold()
    router.preload(["english"])
    router.unload()
    assert default.events == ["on_load english", "on_evict english"]


def test_threads_build_a_checkpoint_once(cold: Cold) -> None:
    """All answer with the one that was built."""
    hook = Recorder()
    router = cold(hooks=hook)
    start = threading.Barrier(4)
    got: list[Any] = []

    def load() -> None:
        start.wait(30)
        got.append(router.load("english"))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(got) == 4
    assert len({id(agent) for agent in got}) == 1
    assert hook.events == ["on_load english"]


def test_unload_frees_one_or_all(cold: Cold) -> None:
    """on_evict for each, nothing for what isn't there; a running name is built anew later."""
    hook = Recorder()
    router = cold(hooks=hook)
    router.load("english")
    router.load("multilingual")
    hook.seen.clear()
    router.unload("typed")
    router.unload("EN")
    assert router.loaded == ["multilingual"]
    router.unload()
    router.unload()
    assert router.loaded == []
    assert hook.events == ["on_evict english", "on_evict multilingual"]
    with pytest.raises(OptionError, match="nope"):
        router.unload("nope")


def test_a_failing_evict_hook_hides_no_eviction(cold: Cold) -> None:
    """Hooks hear of each one that left; the first failure comes out."""

    def fail(ctx: PredictContext) -> None:
        raise RuntimeError(ctx.model)

    hook = Recorder(on_evict=fail)
    router = cold(hooks=hook)
    router.preload(["english", "multilingual"])
    with pytest.raises(RuntimeError, match="english"):
        router.unload()
    assert hook.events[2:] == ["on_evict english", "on_evict multilingual"]
    assert router.loaded == []


def test_a_block_unloads_at_its_end(cold: Cold) -> None:
    """Also when it raises."""
    hook = Recorder()
    with pytest.raises(LookupError), cold(hooks=hook) as router:
        router.load("english")
        raise LookupError
    assert router.loaded == []
    assert hook.events == ["on_load english", "on_evict english"]


def test_preload_builds_all_and_makes_room(cold: Cold) -> None:
    """At construction or later; what is there already is not built again."""
    hook = Recorder()
    router = cold(max_loaded=1, preload=True, hooks=hook)
    assert router.loaded == ["english", "multilingual", "typed-decisions"]
    assert router.max_loaded == 3
    router.preload()
    assert hook.events == [f"on_load {name}" for name in router.loaded]


def test_preload_takes_names(cold: Cold) -> None:
    """By alias too; the room is for these beside what is resident."""
    router = cold(max_loaded=1)
    router.load("english")
    router.preload(["ml", "multilingual"])
    assert router.loaded == ["english", "multilingual"]
    assert router.max_loaded == 2
    with pytest.raises(OptionError, match="nope"):
        router.preload(["typed", "nope"])
    assert router.loaded == ["english", "multilingual"]


def test_preload_passes_over_what_was_attached_and_left(cold: Cold, agents: dict[str, NotingAgent]) -> None:
    """It can't be built."""
    router = cold()
    router.attach("mine", agents["english"])
    router.unload("mine")
    router.preload()
    assert router.loaded == ["english", "multilingual", "typed-decisions"]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None, "2"])
def test_the_limit_is_a_positive_number(limit: Any) -> None:
    """Anything else is refused at construction."""
    with pytest.raises(OptionError, match="max_loaded"):
        Router(max_loaded=limit)


def test_a_failed_build_leaves_nothing(models: dict[str, Path], tmp_path: Path) -> None:
    """What is in memory stays there, and the next call tries again."""
    hook = Recorder()
    place = tmp_path / "later"
    router = Router({**models, "english": place}, device="cpu", max_loaded=1, hooks=hook)
    router.load("multilingual")
    for _ in range(2):
        with pytest.raises(CheckpointNotFoundError):
            router.load("english")
    assert router.loaded == ["multilingual"]
    place.symlink_to(models["english"], target_is_directory=True)
    router.load("english")
    assert hook.events == ["on_load multilingual", "on_evict multilingual", "on_load english"]


def test_agents_are_built_with_the_routers_options(models: dict[str, Path]) -> None:
    """Among them hooks of the agents' own."""
    own = Recorder()
    router = Router(models, device="cpu", agent_options={"hooks": own})
    router.predict(STATE, URGENT, model="english")
    assert own.events == ["on_predict_start", "on_predict_end"]
    assert str(router.load("english").device) == "cpu"


@pytest.mark.parametrize("leave", ["evict", "unload", "replace"])
def test_a_checkpoint_that_leaves_answers_its_calls(cold: Cold, agents: dict[str, NotingAgent], leave: str) -> None:
    """It is out of the table at once, and its memory is free when the call ends."""
    router = cold(max_loaded=1)
    expected = agents["english"].predict(STATE, URGENT)["answers"]
    alive: list[weakref.ref[Any]] = []

    def take_away(ctx: PredictContext) -> None:
        alive.append(weakref.ref(ctx.agent._engine.forward.network))
        if leave == "evict":
            router.load("multilingual")
        elif leave == "unload":
            router.unload("english")
        else:
            router.attach("english", agents["english"])

    gc.collect()
    gc.disable()
    try:
        result = router.predict(STATE, URGENT, model="english", on_predict_start=take_away)
        assert result["answers"] == expected
        assert router.loaded == {"evict": ["multilingual"], "unload": [], "replace": ["english"]}[leave]
        assert alive[0]() is None
    finally:
        gc.enable()


def test_a_batch_holds_no_checkpoint_that_it_is_done_with(cold: Cold) -> None:
    """When the second one answers, the first is out of memory."""
    router = cold(max_loaded=1)
    alive: list[weakref.ref[Any]] = []

    def look(ctx: PredictContext) -> None:
        alive.append(weakref.ref(ctx.agent._engine.forward.network))
        if ctx.model == "multilingual":
            assert alive[0]() is None

    requests = [{"state": STATE, "questions": URGENT, "model": model} for model in ("english", "ml")]
    gc.collect()
    gc.disable()
    try:
        router.predict_batch(requests, on_predict_start=look)
    finally:
        gc.enable()
    assert len(alive) == 2


def test_the_repr_says_what_is_there(cold: Cold) -> None:
    """Names, what is loaded, the limit and the default; nothing of hooks but their number."""
    router = cold(default="ml", hooks=Recorder())
    router.load("english")
    assert repr(router) == (
        "Router(english, multilingual, typed-decisions; loaded=['english'], max_loaded=2, "
        "default='multilingual', hooks=1)"
    )
