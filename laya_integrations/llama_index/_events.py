"""What observers of LlamaIndex read about a laya call: a start and an end event, as of a chat model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent

from laya.hooks import PredictContext, aggregate_usage
from laya_integrations._decisions import Decision, token_counts

RUN_ID_TAG = "laya.run_id"
"""The tag that carries laya's id of the call on its span and on both events."""


class LayaPredictStartEvent(LLMChatStartEvent):
    """laya was asked: the states as one user message, the questions in `additional_kwargs`."""

    @classmethod
    def class_name(cls) -> str:
        """The class's name."""
        return "LayaPredictStartEvent"


class LayaPredictEndEvent(LLMChatEndEvent):
    """laya has answered: the bare answers as the response's text, tokens and whole answers in its `raw`.

    `raw` has `id` (laya's run id), `model`, `usage` under both namings, `answers` (one dict a state), and
    `routing` where a Router chose.
    """

    @classmethod
    def class_name(cls) -> str:
        """The class's name."""
        return "LayaPredictEndEvent"


def start_event(ctx: PredictContext, span_id: str) -> LayaPredictStartEvent:
    """The event of a call that starts."""
    return LayaPredictStartEvent(
        span_id=span_id,
        tags={RUN_ID_TAG: ctx.run_id},
        messages=_messages(ctx),
        additional_kwargs={"questions": ctx.questions},
        model_dict=model_dict(ctx),
    )


def end_event(ctx: PredictContext, span_id: str) -> LayaPredictEndEvent:
    """The event of a call that has results."""
    message = ChatMessage(role=MessageRole.ASSISTANT, content=answers_text(ctx.results))
    return LayaPredictEndEvent(
        span_id=span_id,
        tags={RUN_ID_TAG: ctx.run_id},
        messages=_messages(ctx),
        response=ChatResponse(message=message, raw=_raw(ctx)),
    )


def completion(ctx: PredictContext) -> CompletionResponse:
    """The results for callback handlers, which would count the tokens of a text that reports none."""
    raw = _raw(ctx)
    text = answers_text(ctx.results) if raw["usage"]["completion_tokens"] else ""
    return CompletionResponse(text=text, raw=raw)


def prompt(ctx: PredictContext) -> str:
    """The states for callback handlers; nothing where laya read nothing, for the same reason."""
    return states_text(ctx.states) if _usage(ctx)["prompt_tokens"] else ""


def model_dict(ctx: PredictContext) -> dict[str, Any]:
    """What answers: the checkpoint by name or id."""
    return {"class_name": "LayaRouter" if ctx.router is not None else "LayaAgent", "model": ctx.model}


def states_text(states: Any) -> str:
    """One state as text, several as a JSON array.

    One message holds them all: an OpenTelemetry span keeps 128 attributes, and each message takes two.
    """
    one = isinstance(states, Sequence) and not isinstance(states, str) and len(states) == 1
    state = states[0] if one else states
    return state if isinstance(state, str) else _json(state)


def answers_text(results: Any) -> str:
    """The bare answers of one result, or of each, as compact JSON."""
    values = [_values(result) for result in results or ()]
    return _json(values[0] if len(values) == 1 else values)


def _messages(ctx: PredictContext) -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole.USER, content=states_text(ctx.states))]


def _raw(ctx: PredictContext) -> dict[str, Any]:
    results: list[Mapping[str, Any]] = list(filter(_is_mapping, ctx.results or ()))
    first: Mapping[str, Any] = results[0] if results else {}
    raw = {
        "id": ctx.run_id,
        "model": first.get("model") or ctx.model or "laya",
        "usage": _usage(ctx),
        "answers": [result.get("answers") for result in results],
    }
    return {**raw, "routing": dict(first["routing"])} if isinstance(first.get("routing"), Mapping) else raw


def _usage(ctx: PredictContext) -> dict[str, int]:
    counts = token_counts(ctx.usage if ctx.usage is not None else aggregate_usage(ctx.results))
    return {"prompt_tokens": counts["input_tokens"], "completion_tokens": counts["output_tokens"], **counts}


def _values(result: Any) -> Any:
    """The bare answers; what a hook's payload has instead, as it is."""
    try:
        return Decision(result).values
    except (AttributeError, KeyError, TypeError, ValueError):
        return result


def _is_mapping(result: object) -> bool:
    return isinstance(result, Mapping)


def _json(value: Any) -> str:
    """Compact JSON, or the type's name: a state is shown before laya has refused it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
