"""Tell whether anybody would see a run, without making what would show it to them."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from types import FunctionType
from typing import Any

import langchain_core
from langchain_core.callbacks import CallbackManager, base, manager
from langchain_core.globals import get_debug
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_callback_manager_for_config
from langchain_core.tracers import context as tracing
from langchain_core.utils.env import env_var_is_set
from langsmith.utils import tracing_is_enabled

_KNOWN_RELEASES = "1.8."
"""Those whose sources of callbacks are the ones below. In any other the callbacks are made, and counted."""
_MODULES = (manager.__name__, base.__name__)
"""What makes the callbacks is defined there."""
_REFUSED = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""Variables with which LangChain raises, in its own words."""

_Registered = list[tuple[ContextVar[Any], bool, type | None, str | None]]
_registered: _Registered | None = (
    getattr(tracing, "_configure_hooks", None) if langchain_core.__version__.startswith(_KNOWN_RELEASES) else None
)


def has_listeners(config: RunnableConfig) -> bool:
    """Whether a run would be seen: by the config's callbacks, or by those that LangChain adds to every run."""
    callbacks = config.get("callbacks")
    if not callbacks and _registered is not None and _is_silent(_registered):
        return False
    return bool(get_callback_manager_for_config(config).handlers)


def _is_silent(registered: _Registered) -> bool:
    """Whether LangChain adds no callbacks here: by its tracers, by its debug switch, or by what others registered."""
    if not _makers.are_own() or get_debug():
        return False
    if tracing.tracing_v2_callback_var.get() is not None or tracing_is_enabled():
        return False
    for listener, _, _, switch in registered:
        if listener.get() is not None or (switch and env_var_is_set(switch)):
            return False
    return not _is_refused()


@cache
def _is_refused() -> bool:
    """Looked up once: whoever sets one sets it for good, and a look into the environment is dear beside the rest."""
    return any(map(env_var_is_set, _REFUSED))


class _Makers:
    """What makes the callbacks. Instrumentation replaces it, or adds its handler to any manager that is made."""

    _own: tuple[Any, Any, Any] = (None, None, None)
    """Those that were found to be LangChain's."""

    def are_own(self) -> bool:
        """Whether they are LangChain's; those that were once found so are not looked at again."""
        configure, method, init = found = (
            manager._configure,
            CallbackManager.__dict__.get("configure"),
            CallbackManager.__init__,
        )
        own = self._own
        # Not `==`, by which a proxy equals what it stands for.
        if configure is own[0] and method is own[1] and init is own[2]:
            return True
        if not all(map(_is_own, found)):
            return False
        self._own = found
        return True


_makers = _Makers()


def _is_own(function: Any) -> bool:
    """Whether LangChain itself defined it. A wrapper takes over a function's name and module, a proxy its class too."""
    if type(function) is classmethod:
        function = function.__func__
    return type(function) is FunctionType and function.__globals__["__name__"] in _MODULES
