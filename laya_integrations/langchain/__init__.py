"""laya in LangChain: decisions as chain steps, tools and branches, in every trace with their tokens.

    from laya_integrations.langchain import AnswerParser, LayaRunnable, LayaTool

Traces are sent in the background; a short script ends with
`langchain_core.tracers.langchain.wait_for_all_tracers()`, or loses its last ones.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from laya_integrations._extras import installed_by

if TYPE_CHECKING:
    from laya_integrations._options import CallOptions
    from laya_integrations.langchain.decision_model import LayaDecisionModel
    from laya_integrations.langchain.messages import state_of
    from laya_integrations.langchain.parsers import AnswerParser
    from laya_integrations.langchain.responses import LayaClassifierResponse
    from laya_integrations.langchain.routing import LayaRouter, RouteOutcome
    from laya_integrations.langchain.runnables import LayaMessage, LayaRunnable
    from laya_integrations.langchain.tools import LayaTool

__all__ = [
    "AnswerParser",
    "CallOptions",
    "LayaClassifierResponse",
    "LayaDecisionModel",
    "LayaMessage",
    "LayaRouter",
    "LayaRunnable",
    "LayaTool",
    "RouteOutcome",
    "state_of",
]

_HOMES = {
    "AnswerParser": "langchain.parsers",
    "CallOptions": "_options",
    "LayaClassifierResponse": "langchain.responses",
    "LayaDecisionModel": "langchain.decision_model",
    "LayaMessage": "langchain.runnables",
    "LayaRouter": "langchain.routing",
    "LayaRunnable": "langchain.runnables",
    "LayaTool": "langchain.tools",
    "RouteOutcome": "langchain.routing",
    "state_of": "langchain.messages",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with installed_by("langchain"):
        value = getattr(import_module(f"laya_integrations.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
