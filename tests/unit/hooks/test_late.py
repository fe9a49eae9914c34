"""Hooks that go on after their time: their call is done with them."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from laya.errors import HookError
from laya.hooks import AsyncHook, PredictContext, dispatch, normalise_hooks
from laya.testing import FakeRunner

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}


class Late:
    """A hook that waits to be let go, and then does what it was told to; keeps what that raised."""

    def __init__(self, step: Callable[[PredictContext], Any]) -> None:
        self.step = step
        self.go = threading.Event()
        self.done = threading.Event()
        self.raised: BaseException | None = None

    def on_predict_start(self, ctx: PredictContext) -> None:
        self.go.wait(30)
        try:
            self.step(ctx)
        except BaseException as error:
            self.raised = error
        self.done.set()

    def finish(self) -> None:
        """Let the hook go and wait for its end."""
        self.go.set()
        assert self.done.wait(30)


class LateCoroutine(Late):
    """The same, as a coroutine."""

    async def on_predict_start(self, ctx: PredictContext) -> None:  # type: ignore[override]
        await asyncio.to_thread(super().on_predict_start, ctx)


def overrun(hook: Any, ctx: PredictContext) -> None:
    """Dispatch to a hook that takes too long."""
    with pytest.raises(TimeoutError):
        dispatch([hook], "on_predict_start", ctx, timeout=0.05)


@pytest.mark.parametrize("wrap", [lambda hook: hook, AsyncHook])
@pytest.mark.parametrize("kind", [Late, LateCoroutine])
def test_a_late_hook_sets_nothing(kind: type[Late], wrap: Callable[[Any], Any]) -> None:
    """Neither states nor, by `skip`, results; it is told so, also in a thread or task of its own."""
    ctx = PredictContext(["a"], {})
    for step in (lambda call: call.skip([{}]), lambda call: setattr(call, "states", ["b"])):
        hook = kind(step)
        overrun(wrap(hook), ctx)
        hook.finish()
        assert isinstance(hook.raised, HookError)
        assert f"hook {kind.__name__} set ctx." in str(hook.raised)
        assert hook.raised.event == "on_predict_start"
    assert (ctx.states, ctx.results) == (["a"], None)


def test_everybody_else_goes_on_with_the_context() -> None:
    """It is the same object, and looks the same; another context of the late hook's is not its concern."""
    ctx, other = PredictContext(["a"], {}), PredictContext(["b"], {})
    keys, shown = {ctx: "span"}, repr(ctx)
    hook = Late(lambda call: setattr(other, "max_len", 7))
    overrun(hook, ctx)
    ctx.states = ["c"]
    dispatch(normalise_hooks(on_predict_start=lambda call: call.skip([{}])), "on_predict_start", ctx, timeout=30)
    hook.finish()
    assert (keys[ctx], repr(ctx), isinstance(ctx, PredictContext)) == ("span", shown, True)
    assert (ctx.states, ctx.results, other.max_len, hook.raised) == (["c"], [{}], 7, None)


def test_a_late_hook_does_not_replace_the_answer_of_its_call() -> None:
    """The end hooks, the usage and the gate are about the answer that the caller gets."""
    hook = Late(lambda call: call.skip({"answers": {"late": 1}}))
    runner = FakeRunner({"urgent": True}, hooks=hook, hooks_raise=False, hooks_timeout=0.1)
    with pytest.warns(RuntimeWarning, match="took longer"):
        result = runner.predict("x", QUESTIONS, on_predict_end=lambda ctx: hook.finish())
    answer: Any = result["answers"]["urgent"]
    assert answer["noul"] == 0.97
    assert isinstance(hook.raised, HookError)


def test_a_context_of_a_late_hook_is_pickled_like_any_other() -> None:
    """Work is handed to other processes; what arrives there is nobody's late hook's."""
    late = Late(lambda c: None)
    ctx = PredictContext(states=["a"], questions=QUESTIONS)
    overrun(late, ctx)
    late.finish()
    for twin in (pickle.loads(pickle.dumps(ctx)), copy.copy(ctx), dataclasses.replace(ctx)):
        assert vars(twin) == vars(ctx)
    assert type(pickle.loads(pickle.dumps(ctx))) is PredictContext
