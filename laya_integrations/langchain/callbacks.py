"""Write a laya call into the LangChain run that stands for it: model, tokens, laya's run id.

LangChain opens and closes the run (`_call_with_config` and its kin, run type llm). What those have no
argument for is written here, once per call and on that run only, so that a parent never counts it again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.base import AsyncBaseTracer, BaseTracer

from laya_integrations._decisions import MAPPINGS, Decision
from laya_integrations._openinference import complete_langchain_span

logger = logging.getLogger(__name__)

PROVIDER = "laya"
"""What LangSmith shows as the provider."""


def with_provider(config: RunnableConfig) -> RunnableConfig:
    """The config with the provider in the run's metadata, so that a call that fails shows it too."""
    return {**config, "metadata": {**(config.get("metadata") or {}), "ls_provider": PROVIDER}}


def record_decision(run_manager: Any, decision: Decision) -> None:
    """Book a decision's model, tokens and run id on the run. Never raises."""
    if not run_manager.handlers:
        return
    annotate(run_manager, decision_metadata(decision))
    for handler in run_manager.handlers:
        if isinstance(handler, UsageMetadataCallbackHandler):
            try:
                # It listens to model events only, which this run has none of.
                run = {"run_id": run_manager.run_id, "parent_run_id": run_manager.parent_run_id}
                handler.on_llm_end(llm_result(decision), **run)
            except Exception:
                logger.warning("laya: a decision's tokens could not be counted", exc_info=True)


def record_run_id(run_manager: Any, run_id: str | None) -> None:
    """Note laya's run id on the run of a call that failed. Never raises."""
    if run_id is not None:
        annotate(run_manager, {"laya_run_id": run_id})


def annotate(run_manager: Any, metadata: Mapping[str, Any]) -> None:
    """Add to the run's metadata in every tracer. Never raises."""
    for handler in run_manager.handlers:
        try:
            if isinstance(handler, BaseTracer | AsyncBaseTracer):
                _add(handler, run_manager.run_id, metadata)
        except Exception:
            logger.warning("laya: metadata could not be written on a run", exc_info=True)
    try:
        complete_langchain_span(run_manager.run_id, metadata)
    except Exception:
        logger.warning("laya: an OpenInference span could not be completed", exc_info=True)


def note_on_parent(manager: BaseCallbackManager, key: str, item: str) -> None:
    """Add to a list in the metadata of the run that the manager's runs lie under, where it is known."""
    for handler in manager.handlers:
        if isinstance(handler, BaseTracer | AsyncBaseTracer):
            run = handler.run_map.get(str(manager.parent_run_id))
            before = (run.extra.get("metadata") or {}).get(key, []) if run is not None else []
            _add(handler, manager.parent_run_id, {key: [*before, item]})


def decision_metadata(decision: Decision, *, counts: bool = True) -> dict[str, Any]:
    """What a decision's run says about it; the tokens only where it `counts`, lest they count twice."""
    metadata: dict[str, Any] = {"ls_model_name": decision.model_name, **run_metadata(decision)}
    if counts and decision.usage is not None:
        metadata["usage_metadata"] = decision.usage
    if decision.truncated:
        metadata["laya_truncated"] = True
    answers = decision.result.get("answers")
    if isinstance(answers, MAPPINGS):
        metadata["laya_confidence"] = {
            question_id: answer["answer_confidence"]
            for question_id, answer in answers.items()
            if isinstance(answer, MAPPINGS) and "answer_confidence" in answer
        }
    return metadata


def run_metadata(decision: Decision) -> dict[str, Any]:
    """What ties a run or a message to laya's call, and which checkpoint a Router chose for it."""
    metadata: dict[str, Any] = {}
    if decision.run_id is not None:
        metadata["laya_run_id"] = decision.run_id
    if decision.batch_index is not None:
        metadata["laya_batch_index"] = decision.batch_index
    routing = decision.result.get("routing")
    if routing is not None and isinstance(routing, MAPPINGS):
        metadata |= {f"laya_routing_{key}": routing[key] for key in ("model", "reason") if key in routing}
    return metadata


def llm_result(decision: Decision, content: str = "", *, counts: bool = True) -> LLMResult:
    """The decision as a model's output, which usage handlers read."""
    message = AIMessage(
        content=content,
        usage_metadata=cast("UsageMetadata | None", decision.usage if counts else None),
        response_metadata={"model_name": decision.model_name},
    )
    return LLMResult(generations=[[ChatGeneration(message=message)]])


def _add(tracer: BaseTracer | AsyncBaseTracer, run_id: Any, metadata: Mapping[str, Any]) -> None:
    run = tracer.run_map.get(str(run_id))
    if run is not None:
        # A copy: runs of one config share the metadata dict.
        run.extra["metadata"] = {**(run.extra.get("metadata") or {}), **metadata}
