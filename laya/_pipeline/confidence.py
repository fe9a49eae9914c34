"""The confidence gate: mark answers that are less sure than the caller asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laya._checkpoints.config import KINDS, bucket
from laya._numbers import as_float
from laya._pipeline.calibration import BUCKETS
from laya.errors import OptionError

GATE_KEYS = ("low_confidence", "abstention", "abstention_threshold")


@dataclass(frozen=True, slots=True)
class ConfidenceGate:
    """Thresholds on `answer_confidence`, one for all answers or one for each bucket."""

    default: float = 0.0
    by_bucket: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, min_confidence: Any) -> ConfidenceGate | None:
        """Read a `min_confidence` argument: None, a number in [0, 1], or {bucket: number}.

        Raises `OptionError` (a `ValueError`) for an unknown bucket, a bool or a number outside [0, 1].
        """
        if min_confidence is None:
            return None
        if not isinstance(min_confidence, Mapping):
            return cls(default=_threshold("min_confidence", min_confidence))
        if not min_confidence:
            raise OptionError(
                "min_confidence is an empty dict; name a bucket or 'default', or pass None for no gate",
                option="min_confidence",
            )
        thresholds = {}
        for key, value in min_confidence.items():
            if key != "default" and key not in BUCKETS:
                raise OptionError(
                    f"min_confidence has the unknown key {key!r}; use 'default' or one of {', '.join(BUCKETS)}",
                    option="min_confidence",
                )
            thresholds[key] = _threshold(f"min_confidence[{key!r}]", value)
        return cls(default=thresholds.pop("default", 0.0), by_bucket=thresholds)

    def apply(self, results: Sequence[Any]) -> list[Any]:
        """Return results whose answers report the gate. Nothing is changed in place: a payload may be a
        cached one, and other calls may gate it differently."""
        return [self._result(result) for result in results]

    def _result(self, result: Any) -> Any:
        answers = result.get("answers") if isinstance(result, Mapping) else None
        if not isinstance(answers, Mapping):
            return result
        return {**result, "answers": {qid: self._answer(answer) for qid, answer in answers.items()}}

    def _answer(self, answer: Any) -> Any:
        if not isinstance(answer, Mapping):
            return answer
        threshold = self._threshold_of(answer)
        gated = {key: value for key, value in answer.items() if key not in GATE_KEYS}
        confidence = _confidence(answer)
        if confidence is None:
            gated["abstention"] = "unevaluated"
        elif confidence >= threshold:
            gated["abstention"] = "passed"
        else:
            gated["low_confidence"] = True
            gated["abstention"] = "abstained"
        gated["abstention_threshold"] = threshold
        return gated

    def _threshold_of(self, answer: Mapping[str, Any]) -> float:
        kind = answer.get("type")
        if not self.by_bucket or kind not in KINDS:
            return self.default
        options = 2 if kind == "noul" else len(answer.get("probabilities") or ())
        # A payload without probabilities doesn't tell how many options it chose among.
        return self.by_bucket.get(bucket(kind, options), self.default) if options else self.default


def _confidence(answer: Mapping[str, Any]) -> float | None:
    """The confidence that a payload reports; None if it has none, NaN (below every threshold's reach) if unreadable."""
    value = answer.get("answer_confidence")
    if value is None:  # a cached payload may be older than `answer_confidence`
        value = answer.get("confidence")
    if value is None:
        return None
    number = as_float(value)
    return math.nan if number is None or math.isinf(number) else number


def _threshold(name: str, value: Any) -> float:
    number = as_float(value)
    if number is None or not 0.0 <= number <= 1.0:
        got = f"{value!r:.80}" if number is None else repr(number)
        raise OptionError(f"{name} must be a number from 0 to 1, got {got}", option="min_confidence")
    return number
