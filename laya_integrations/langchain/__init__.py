"""laya in LangChain: decisions as chain steps, tools and branches, in every trace with their tokens.

    from laya_integrations.langchain import AnswerParser, LayaRunnable, LayaTool

Traces are sent in the background; a short script ends with
`langchain_core.tracers.langchain.wait_for_all_tracers()`, or loses its last ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laya_integrations._extras import lazy_names

if TYPE_CHECKING:
    from laya_integrations._options import CallOptions
    from laya_integrations.langchain.decision_model import LayaDecisionModel
    from laya_integrations.langchain.evaluator import LayaEvaluator, laya_evaluator
    from laya_integrations.langchain.guardrail import LayaGuardrail
    from laya_integrations.langchain.guardrail_middleware import LayaGuardrailMiddleware
    from laya_integrations.langchain.hook import LangChainHook
    from laya_integrations.langchain.messages import state_of
    from laya_integrations.langchain.parsers import AnswerParser
    from laya_integrations.langchain.responses import LayaClassifierResponse
    from laya_integrations.langchain.routing import LayaRouter, RouteOutcome
    from laya_integrations.langchain.runnables import LayaMessage, LayaRunnable
    from laya_integrations.langchain.tool_selector import LayaToolSelectorMiddleware
    from laya_integrations.langchain.tools import LayaTool, laya_tools
    from laya_integrations.langchain.verdicts import GuardrailError, GuardrailVerdict, Violation

__all__ = [
    "AnswerParser",
    "CallOptions",
    "GuardrailError",
    "GuardrailVerdict",
    "LangChainHook",
    "LayaClassifierResponse",
    "LayaDecisionModel",
    "LayaEvaluator",
    "LayaGuardrail",
    "LayaGuardrailMiddleware",
    "LayaMessage",
    "LayaRouter",
    "LayaRunnable",
    "LayaTool",
    "LayaToolSelectorMiddleware",
    "RouteOutcome",
    "Violation",
    "laya_evaluator",
    "laya_tools",
    "state_of",
]

_HOMES = {
    "AnswerParser": "langchain.parsers",
    "CallOptions": "_options",
    "GuardrailError": "langchain.verdicts",
    "GuardrailVerdict": "langchain.verdicts",
    "LangChainHook": "langchain.hook",
    "LayaClassifierResponse": "langchain.responses",
    "LayaDecisionModel": "langchain.decision_model",
    "LayaEvaluator": "langchain.evaluator",
    "LayaGuardrail": "langchain.guardrail",
    "LayaGuardrailMiddleware": "langchain.guardrail_middleware",
    "LayaMessage": "langchain.runnables",
    "LayaRouter": "langchain.routing",
    "LayaRunnable": "langchain.runnables",
    "LayaTool": "langchain.tools",
    "LayaToolSelectorMiddleware": "langchain.tool_selector",
    "RouteOutcome": "langchain.routing",
    "Violation": "langchain.verdicts",
    "laya_evaluator": "langchain.evaluator",
    "laya_tools": "langchain.tools",
    "state_of": "langchain.messages",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES, extra="langchain")
