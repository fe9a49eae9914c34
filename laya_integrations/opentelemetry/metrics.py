"""The instruments, and what a finished call adds to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.metrics import Meter

from laya.hooks import PredictContext
from laya_integrations._decisions import answer_value
from laya_integrations.opentelemetry.attributes import (
    ERROR_TYPE,
    TOKEN_TYPE,
    UNKNOWN_ERROR,
    Attributes,
    answers_of,
    error_type,
    model_attributes,
)

DURATION_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TOKEN_BOUNDS = tuple(float(4**power) for power in range(1, 14))

ABSTAINED = "abstained"
"""The label that is counted for an answer below its `min_confidence`."""


class Instruments:
    """Counts and measures calls. Every attribute has few values: none holds an id or a text of a request."""

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of a prediction, loading not counted.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens that a prediction read.",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        self._decisions = meter.create_counter(
            "laya.decisions", unit="{answer}", description="Answers, by question and label."
        )
        self._low = meter.create_counter(
            "laya.low_confidence", unit="{answer}", description="Answers below their min_confidence."
        )
        self._errors = meter.create_counter("laya.errors", unit="{call}", description="Predictions that failed.")
        self._loads = meter.create_counter(
            "laya.loads", unit="{checkpoint}", description="Checkpoints that were built."
        )
        self._evictions = meter.create_counter(
            "laya.evictions", unit="{checkpoint}", description="Checkpoints that were freed."
        )

    def record_call(self, ctx: PredictContext) -> None:
        """Add a call that has ended."""
        model = model_attributes(ctx)
        failed = {} if ctx.error is None else {ERROR_TYPE: error_type(ctx.error)}
        if ctx.elapsed_ms is not None:
            self._duration.record(ctx.elapsed_ms / 1000.0, {**model, **failed})
        if failed:
            self._errors.add(1, {**model, **failed})
        if ctx.usage is not None:
            # A decision writes no tokens, so there is one kind.
            self._tokens.record(ctx.usage["input_tokens"], {**model, TOKEN_TYPE: "input"})
        for question_id, answer in answers_of(ctx):
            question = {**model, "laya.question": question_id}
            self._decisions.add(1, {**question, "laya.label": _label(answer)})
            if answer.get("low_confidence"):
                self._low.add(1, question)

    def record_unheard(self, model: Attributes) -> None:
        """Count a call whose end was never heard as failed; nothing else is known of it."""
        self._errors.add(1, {**model, ERROR_TYPE: UNKNOWN_ERROR})

    def record_load(self, ctx: PredictContext) -> None:
        """Count a checkpoint that was built."""
        self._loads.add(1, model_attributes(ctx))

    def record_eviction(self, ctx: PredictContext) -> None:
        """Count a checkpoint that was freed."""
        self._evictions.add(1, model_attributes(ctx))


def _label(answer: Mapping[str, Any]) -> str:
    try:
        value = answer_value(answer)
    except (ValueError, TypeError):
        return "unreadable"
    if value is None:
        return ABSTAINED
    return str(value).lower() if isinstance(value, bool) else str(value)
