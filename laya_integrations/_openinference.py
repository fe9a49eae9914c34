"""Write what OpenInference's instrumentors pass over on the spans that they make of laya's calls.

They know the frameworks' own models: of a LangChain run they read the tokens only in an LLM's output, of a LlamaIndex
span no tags, and the model only in an LLM's own fields. Phoenix and its like would then show a decision without its
tokens, or without laya's run id and checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from laya.hooks import PredictContext

RUN_ID = "laya.run_id"

_TOKENS = {
    "input_tokens": "llm.token_count.prompt",
    "output_tokens": "llm.token_count.completion",
    "total_tokens": "llm.token_count.total",
}


def complete_langchain_span(run_id: UUID, metadata: Mapping[str, Any]) -> None:
    """Put laya's run id and the tokens of a run's metadata on its span, where LangChain is instrumented."""
    # An instrumentor that is at work has been imported; this package depends on none.
    module = sys.modules.get("openinference.instrumentation.langchain")
    if module is None:
        return
    instrumentor = module.LangChainInstrumentor()
    span = instrumentor.get_span(run_id) if instrumentor.is_instrumented_by_opentelemetry else None
    if span is None:
        return
    if "laya_run_id" in metadata:
        span.set_attribute(RUN_ID, metadata["laya_run_id"])
    usage = metadata.get("usage_metadata") or {}
    span.set_attributes({_TOKENS[name]: count for name, count in usage.items() if name in _TOKENS})


def complete_llama_index_span(ctx: PredictContext) -> None:
    """Put laya's run id, the checkpoint and a Router's choice on the active span, where LlamaIndex is instrumented."""
    module = sys.modules.get("openinference.instrumentation.llama_index")
    span = module.get_current_span() if module is not None else None
    if span is None:
        return
    route = ctx.decision or {}
    known = {
        RUN_ID: ctx.run_id,
        "llm.model_name": ctx.model,
        "laya.routing.model": route.get("model"),
        "laya.routing.reason": route.get("reason"),
    }
    span.set_attributes({name: value for name, value in known.items() if value is not None})
