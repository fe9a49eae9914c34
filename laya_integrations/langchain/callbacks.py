"""Write a laya call into the LangChain run that stands for it: model, tokens, laya's run id.

LangChain opens and closes the run (`_call_with_config` and its kin, run type llm). What those have no
argument for is written here, once per call and on that run only, so that a parent never counts it again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.base import AsyncBaseTracer, BaseTracer

from laya_integrations._decisions import Decision

logger = logging.getLogger(__name__)

PROVIDER = "laya"
"""What LangSmith shows as the provider."""


def with_provider(config: RunnableConfig) -> RunnableConfig:
    """The config with the provider in the run's metadata, so that a call that fails shows it too."""
    return {**config, "metadata": {**(config.get("metadata") or {}), "ls_provider": PROVIDER}}


def record_decision(run_manager: Any, decision: Decision) -> None:
    """Book a decision's model, tokens and run id on the run. Never raises."""
    metadata: dict[str, Any] = {"ls_model_name": decision.model_name, **run_metadata(decision)}
    if decision.usage is not None:
        metadata["usage_metadata"] = decision.usage
    for handler in _handlers(run_manager):
        try:
            if isinstance(handler, BaseTracer | AsyncBaseTracer):
                _annotate(handler, run_manager, metadata)
            elif isinstance(handler, UsageMetadataCallbackHandler):
                # It listens to model events only, which this run has none of.
                run = {"run_id": run_manager.run_id, "parent_run_id": run_manager.parent_run_id}
                handler.on_llm_end(_llm_result(decision), **run)
        except Exception:
            logger.warning("laya: a decision could not be booked on its run", exc_info=True)


def record_run_id(run_manager: Any, run_id: str | None) -> None:
    """Note laya's run id on the run of a call that failed. Never raises."""
    if run_id is None:
        return
    for handler in _handlers(run_manager):
        try:
            if isinstance(handler, BaseTracer | AsyncBaseTracer):
                _annotate(handler, run_manager, {"laya_run_id": run_id})
        except Exception:
            logger.warning("laya: a failed call's run id could not be noted on its run", exc_info=True)


def run_metadata(decision: Decision) -> dict[str, Any]:
    """What ties a run or a message to laya's call, and which checkpoint a Router chose for it."""
    metadata: dict[str, Any] = {}
    if decision.run_id is not None:
        metadata["laya_run_id"] = decision.run_id
    if decision.batch_index is not None:
        metadata["laya_batch_index"] = decision.batch_index
    routing = decision.result.get("routing")
    if isinstance(routing, Mapping):
        metadata |= {f"laya_routing_{key}": routing[key] for key in ("model", "reason") if key in routing}
    return metadata


def _llm_result(decision: Decision) -> LLMResult:
    message = AIMessage(
        content="",
        usage_metadata=cast("UsageMetadata | None", decision.usage),
        response_metadata={"model_name": decision.model_name},
    )
    return LLMResult(generations=[[ChatGeneration(message=message)]])


def _handlers(run_manager: BaseRunManager | BaseCallbackManager) -> list[BaseCallbackHandler]:
    return list(run_manager.handlers)


def _annotate(tracer: BaseTracer | AsyncBaseTracer, run_manager: Any, metadata: dict[str, Any]) -> None:
    run = tracer.run_map.get(str(run_manager.run_id))
    if run is not None:
        # A copy: runs of one config share the metadata dict.
        run.extra["metadata"] = {**(run.extra.get("metadata") or {}), **metadata}
