"""What a span says about a call: GenAI semantic conventions where they have a name, `laya.*` elsewhere.

Attributes come from small generators, each guarded: a payload of an odd shape, which a hook may hand in, loses what
that generator would have said and nothing else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from laya.hooks import PredictContext

try:
    from laya.types import Result
except ImportError:
    _RUN_IDS = False
else:
    # Releases of laya differ in whether an inferred result has a run_id; without, none tells who answered.
    _RUN_IDS = "run_id" in Result.__annotations__

logger = logging.getLogger("laya_integrations.opentelemetry")

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ERROR_TYPE = "error.type"
RUN_ID = "laya.run_id"

UNKNOWN_ERROR = "_OTHER"
"""The conventions' `error.type` of an error whose class isn't known."""

DECIDE = "decide"
"""The operation: the conventions have no name for a typed decision, and allow one of one's own."""

MOST_LISTED = 128
"""Entries of an attribute that is a list: states of a call, question ids. The metrics count all answers."""

MOST_QUESTIONS = 48
"""Questions whose answers a span holds, in two attributes each: an SDK keeps 128 attributes unless told otherwise."""

Attributes = dict[str, Any]
_Pairs = Iterator[tuple[str, Any]]


def opening_attributes(ctx: PredictContext) -> Attributes:
    """What is known when a span starts, for samplers."""
    return _collected(ctx, (_identity,))


def closing_attributes(ctx: PredictContext, *, content: bool) -> Attributes:
    """What the finished call says, as the hooks left it; states, questions and answers in full only with `content`.

    In rising order of worth: an SDK whose limit is reached drops the attribute that was set the longest ago.
    """
    parts = (_answers, *((_content,) if content else ()), _summary, _routing, _request, _usage, _identity, _error)
    return _collected(ctx, parts)


def model_attributes(ctx: PredictContext) -> Attributes:
    """What every metric is split by."""
    return _collected(ctx, (_model,))


def error_type(error: BaseException) -> str:
    """The error's class by its full name, without `builtins`."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def answers_of(ctx: PredictContext) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each answer of the call with its question id, state after state."""
    results: Any = ctx.results or ()
    for result in results:
        answers = result.get("answers") if isinstance(result, Mapping) else None
        for question_id, answer in answers.items() if isinstance(answers, Mapping) else ():
            if isinstance(answer, Mapping):
                yield str(question_id), answer


def _collected(ctx: PredictContext, parts: Any) -> Attributes:
    found: Attributes = {}
    for part in parts:
        _collect(part, ctx, found)
    return found


def _collect(part: Callable[[PredictContext], _Pairs], ctx: PredictContext, found: Attributes) -> None:
    try:
        for name, value in part(ctx):
            if value is not None:
                found[name] = value
    except Exception:
        logger.debug("a span lacks what %s says", part.__name__.strip("_"), exc_info=True)


def _model(ctx: PredictContext) -> _Pairs:
    yield OPERATION, DECIDE
    yield PROVIDER, "laya"
    yield REQUEST_MODEL, None if ctx.model is None else str(ctx.model)


def _identity(ctx: PredictContext) -> _Pairs:
    yield from _model(ctx)
    yield RUN_ID, ctx.run_id


def _request(ctx: PredictContext) -> _Pairs:
    yield "laya.max_len", ctx.max_len
    yield "laya.head_max_len", ctx.head_max_len
    yield "laya.states", len(ctx.states)
    yield "laya.questions", [str(question_id) for question_id in islice(ctx.questions, MOST_LISTED)]


def _routing(ctx: PredictContext) -> _Pairs:
    decision = ctx.decision
    if decision is None:
        return
    for name in ("model", "reason", "workflow"):
        yield f"laya.routing.{name}", decision.get(name)
    detection = decision.get("detection") or {}
    for name in ("language", "script"):
        yield f"laya.routing.{name}", detection.get(name)


def _usage(ctx: PredictContext) -> _Pairs:
    if ctx.results is None:
        return
    total = ctx.usage or {}
    yield INPUT_TOKENS, total.get("input_tokens")
    yield OUTPUT_TOKENS, total.get("output_tokens")
    given: Any = ctx.results
    results = [result for result in given if isinstance(result, Mapping)]
    yield RESPONSE_MODEL, next((str(result["model"]) for result in results if result.get("model")), None)
    if results and (_RUN_IDS or any("run_id" in result for result in results)):
        # An inferred result carries its own call's id; a payload from a hook has an earlier one's, or none.
        yield "laya.answered_by_hook", any(result.get("run_id") != ctx.run_id for result in results)
    usages = [usage for result in results if isinstance(usage := result.get("usage"), Mapping)]
    yield "laya.truncated", any(usage.get("truncated") for usage in usages)
    yield "laya.state_tokens_dropped", sum(int(usage.get("state_tokens_dropped") or 0) for usage in usages)
    yield "laya.windows", sum(int(usage.get("windows") or 0) for usage in usages) or None


def _answers(ctx: PredictContext) -> _Pairs:
    values: dict[str, list[Any]] = {}
    confidences: dict[str, list[float]] = {}
    for question_id, answer in answers_of(ctx):
        kind = answer["type"]
        value = answer[kind]
        values.setdefault(question_id, []).append(str(value) if kind == "choice" else float(value))
        if (confidence := answer.get("answer_confidence")) is not None:
            confidences.setdefault(question_id, []).append(float(confidence))
    shown = list(values)[:MOST_QUESTIONS]
    for name, found in (("confidence", confidences), ("answer", values)):
        for question_id in shown:
            if listed := found.get(question_id):
                yield f"laya.{name}.{question_id}", listed[0] if len(ctx.states) == 1 else listed[:MOST_LISTED]
    yield "laya.answers_left_out", len(values) - len(shown) or None


def _summary(ctx: PredictContext) -> _Pairs:
    answers = [answer for _, answer in answers_of(ctx)]
    if not answers:
        return
    yield "laya.low_confidence", sum(bool(answer.get("low_confidence")) for answer in answers)
    confidences = [answer.get("answer_confidence") for answer in answers]
    yield "laya.lowest_confidence", min((float(found) for found in confidences if found is not None), default=None)


def _error(ctx: PredictContext) -> _Pairs:
    yield ERROR_TYPE, None if ctx.error is None else error_type(ctx.error)


def _content(ctx: PredictContext) -> _Pairs:
    yield "laya.questions.content", _json(ctx.questions)
    yield INPUT_MESSAGES, _json([_message("user", state) for state in ctx.states])
    if ctx.results is not None:
        answers = [result.get("answers") for result in ctx.results]
        yield OUTPUT_MESSAGES, _json([{**_message("assistant", found), "finish_reason": "stop"} for found in answers])


def _message(role: str, content: Any) -> dict[str, Any]:
    text = content if isinstance(content, str) else _json(content)
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
