"""An invoke opens no run where nobody listens, and one for whoever does, however they came to listen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import Any

import pytest
from langchain_core.callbacks import (
    BaseCallbackHandler,
    CallbackManager,
    dispatch_custom_event,
    get_usage_metadata_callback,
    manager,
)
from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.globals import set_debug
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.context import collect_runs, register_configure_hook, tracing_v2_enabled
from langsmith.run_helpers import tracing_context

import laya
from laya.hooks import BaseHook, clear_default_hooks, set_default_hooks
from laya_integrations.langchain import CallOptions, LayaRunnable, _listeners
from laya_integrations.langchain._listeners import has_listeners
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces

TEXT = "The invoice was charged twice."


class Listener(BaseCallbackHandler):
    """Counts the runs that it sees begin and end."""

    begun = ended = 0

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        """Count it."""
        type(self).begun += 1

    def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
        """Count it."""
        type(self).ended += 1


_by_environment: ContextVar[Any] = ContextVar("laya_test_listener", default=None)
register_configure_hook(_by_environment, inheritable=True, handle_class=Listener, env_var="LAYA_TEST_LISTENER")


@pytest.fixture(autouse=True)
def nothing_heard() -> None:
    """Each test counts from nothing."""
    Listener.begun = Listener.ended = 0


@pytest.fixture
def configured() -> Iterator[list[str]]:
    """Grows with each time that LangChain makes the callbacks of a call."""
    made: list[str] = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is manager._configure.__code__:
            made.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        yield made
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("callbacks", [None, []])
def test_where_nobody_listens_no_callbacks_are_made(
    runnable: LayaRunnable, configured: list[str], callbacks: Any
) -> None:
    """They would cost more than all the rest."""
    assert runnable.invoke(TEXT, {"callbacks": callbacks}).result["answers"]
    assert not configured
    runnable.invoke(TEXT, {"callbacks": [Listener()]})
    assert configured


def test_another_release_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its sources of callbacks aren't known, its callbacks are made and counted."""
    monkeypatch.setattr(_listeners, "_registered", None)
    assert not has_listeners({})
    with collect_runs():
        assert has_listeners({})


def test_a_handler_of_the_call_listens(runnable: LayaRunnable) -> None:
    """Alone, or in a manager."""
    runnable.invoke(TEXT, {"callbacks": [Listener()]})
    runnable.invoke(TEXT, {"callbacks": CallbackManager([Listener()])})
    assert (Listener.begun, Listener.ended) == (2, 2)
    assert not has_listeners({"callbacks": CallbackManager([])})


def test_a_handler_around_the_call_listens(runnable: LayaRunnable) -> None:
    """It was given to the chain, of which the call is one step."""

    def step(text: str) -> Any:
        return runnable.invoke(text)

    RunnableLambda(step).invoke(TEXT, {"callbacks": [Listener()]})
    assert (Listener.begun, Listener.ended) == (2, 2)


def test_a_registered_handler_listens(runnable: LayaRunnable, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its variable, as usage counters and run collectors do, or by one of the environment."""
    with get_usage_metadata_callback() as usage, collect_runs() as collected:
        runnable.invoke(TEXT)
    assert len(usage.usage_metadata) == len(collected.traced_runs) == 1
    monkeypatch.setenv("LAYA_TEST_LISTENER", "1")
    runnable.invoke(TEXT)
    assert (Listener.begun, Listener.ended) == (1, 1)


def test_instrumentation_listens(runnable: LayaRunnable, monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds its handler to every manager that is made, as OpenInference's does."""
    made = BaseCallbackManager.__init__

    def instrumented(self: BaseCallbackManager, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if not any(isinstance(handler, Listener) for handler in self.inheritable_handlers):
            self.add_handler(Listener(), True)

    monkeypatch.setattr(BaseCallbackManager, "__init__", instrumented)
    runnable.invoke(TEXT)
    assert (Listener.begun, Listener.ended) == (1, 1)


def wrapped(configure: Callable[..., Any]) -> Callable[..., Any]:
    """What adds a listener to the callbacks that it makes, looking like the original."""

    @wraps(configure)
    def adding(*args: Any, **kwargs: Any) -> Any:
        made = configure(*args, **kwargs)
        made.add_handler(Listener())
        return made

    return adding


def test_who_replaces_what_makes_the_callbacks_listens(runnable: LayaRunnable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentry replaces the function behind, other tracers the method."""
    with monkeypatch.context() as patch:
        patch.setattr(manager, "_configure", wrapped(manager._configure))
        runnable.invoke(TEXT)
    with monkeypatch.context() as patch:
        patch.setattr(CallbackManager, "configure", wrapped(CallbackManager.configure))
        runnable.invoke(TEXT)
    assert (Listener.begun, Listener.ended) == (2, 2)


@pytest.mark.parametrize(
    ("holder", "name"), [(manager, "_configure"), (CallbackManager, "configure"), (BaseCallbackManager, "__init__")]
)
def test_who_puts_a_proxy_before_it_listens(
    runnable: LayaRunnable, monkeypatch: pytest.MonkeyPatch, holder: Any, name: str
) -> None:
    """OpenTelemetry's instrumentation does, by wrapt, whose proxies have the class of what they stand for."""
    wrapt = pytest.importorskip("wrapt")

    def adding(made: Callable[..., Any], instance: Any, args: Any, keywords: Any) -> Any:
        found = made(*args, **keywords) or instance
        if not any(isinstance(handler, Listener) for handler in found.inheritable_handlers):
            found.add_handler(Listener())
        return found if name != "__init__" else None

    monkeypatch.setattr(holder, name, holder.__dict__[name])  # what it is now comes back
    wrapt.wrap_function_wrapper(holder, name, adding)
    runnable.invoke(TEXT)
    assert (Listener.begun, Listener.ended) == (1, 1)


def test_who_adds_a_listener_by_tag_listens(runnable: LayaRunnable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the callbacks is told the tags and metadata, as for any other run."""
    configure = CallbackManager.configure

    def adding(*args: Any, **kwargs: Any) -> Any:
        made = configure(*args, **kwargs)
        if "watched" in (kwargs.get("inheritable_tags") or ()):
            made.add_handler(Listener())
        return made

    monkeypatch.setattr(CallbackManager, "configure", adding)
    runnable.invoke(TEXT)
    runnable.invoke(TEXT, {"tags": ["watched"]})
    assert (Listener.begun, Listener.ended) == (1, 1)


class Announcing(BaseHook):
    """Dispatches one of LangChain's own events, which fails outside of a run."""

    def __init__(self) -> None:
        self.announced = 0

    def on_predict_start(self, ctx: laya.PredictContext) -> None:
        """Announce it."""
        dispatch_custom_event("deciding", {"states": len(ctx.states)})
        self.announced += 1


@pytest.mark.parametrize("where", ["call", "runner", "process"])
def test_a_hook_finds_a_run_where_nobody_listens(agent: Any, where: str) -> None:
    """It may dispatch LangChain's custom events, whoever listens."""
    hook = Announcing()
    options = CallOptions(hooks=hook if where == "call" else None)
    runnable = LayaRunnable(agent, questions=QUESTIONS, options=options)
    set_default_hooks(hook if where == "process" else None)
    try:
        with agent.hooks_installed(*([hook] if where == "runner" else [])):
            assert runnable.invoke(TEXT).result["answers"]
    finally:
        clear_default_hooks()
    assert hook.announced == 1


def test_langsmith_listens(runnable: LayaRunnable, traces: Traces) -> None:
    """Switched on for a block, or by a tracer of its own."""
    runnable.invoke(TEXT)
    assert [run.name for run in traces.runs()] == ["LayaRunnable"]
    with tracing_context(enabled=False):
        assert not has_listeners({})
        with tracing_v2_enabled(client=traces.client):
            assert has_listeners({})


def test_debug_output_is_listening(runnable: LayaRunnable, capsys: pytest.CaptureFixture[str]) -> None:
    """LangChain prints the runs."""
    set_debug(True)
    try:
        runnable.invoke(TEXT)
    finally:
        set_debug(False)
    assert "LayaRunnable" in capsys.readouterr().out


def test_an_environment_that_langchain_refuses_is_refused(
    runnable: LayaRunnable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In LangChain's words, as by any other runnable."""
    monkeypatch.setattr(_listeners, "_is_refused", _listeners._is_refused.__wrapped__)  # as in a new process
    monkeypatch.setenv("LANGCHAIN_TRACING", "true")
    for call in (runnable.invoke, RunnableLambda(str).invoke):
        with pytest.raises(RuntimeError, match="LANGCHAIN_TRACING_V2"):
            call(TEXT)
