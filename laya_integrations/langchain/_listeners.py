"""Tell whether anybody would see a run, without making what would show it to them."""

from __future__ import annotations

from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import Any

import langchain_core
from langchain_core.callbacks import CallbackManager, base, manager
from langchain_core.globals import get_debug
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers import context as tracing
from langchain_core.utils.env import env_var_is_set
from langsmith.utils import tracing_is_enabled

_KNOWN_RELEASES = "1.8."
"""Those whose sources of callbacks are the ones below. In any other the callbacks are made, and counted."""
_MODULES = (manager.__name__, base.__name__)
"""What makes the callbacks is defined there."""
_ENVIRONMENT = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""LangChain refuses these, in its own words."""

_Registered = list[tuple[ContextVar[Any], bool, type | None, str | None]]
_registered: _Registered | None = (
    getattr(tracing, "_configure_hooks", None) if langchain_core.__version__.startswith(_KNOWN_RELEASES) else None
)


def has_listeners(config: RunnableConfig) -> bool:
    """Whether a run would be seen: by the config's callbacks, or by those that LangChain adds to every run."""
    callbacks = config.get("callbacks")
    if not callbacks and _registered is not None and _is_silent(_registered):
        return False
    return bool(CallbackManager.configure(callbacks).handlers)


def _is_silent(registered: _Registered) -> bool:
    """Whether LangChain adds no callbacks here: by its tracers, by its debug switch, or by what others registered."""
    # Instrumentation replaces what makes the callbacks, or adds its handler to any manager that is made.
    if not all(map(_is_own, (manager._configure, CallbackManager.configure, CallbackManager.__init__))) or get_debug():
        return False
    if tracing.tracing_v2_callback_var.get() is not None or tracing_is_enabled():
        return False
    if any(map(env_var_is_set, _ENVIRONMENT)):
        return False
    return all(var.get() is None and not (env and env_var_is_set(env)) for var, _, _, env in registered)


def _is_own(function: Any) -> bool:
    """Whether LangChain itself defined it. A wrapper takes over a function's name and module, a proxy its class too."""
    if type(function) is MethodType:
        function = function.__func__
    return type(function) is FunctionType and function.__globals__["__name__"] in _MODULES
