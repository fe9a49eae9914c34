"""What an evaluation reports: accuracy, area under the ROC curve, calibration error."""

from __future__ import annotations

from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; NaN of nothing."""
    return sum(values) / len(values) if values else float("nan")


def roc_auc(scores: Sequence[float], truths: Sequence[bool]) -> float:
    """Probability that a true case scores above a false one, ties counted half (Mann and Whitney's U)."""
    true = [s for s, t in zip(scores, truths, strict=True) if t]
    false = [s for s, t in zip(scores, truths, strict=True) if not t]
    if not true or not false:
        return float("nan")
    wins = sum((a > b) + 0.5 * (a == b) for a in true for b in false)
    return wins / (len(true) * len(false))


def calibration_error(confidences: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error over equal-width bins: mean gap between confidence and accuracy."""
    total = 0.0
    for low in range(bins):
        members = [i for i, c in enumerate(confidences) if min(bins - 1, int(c * bins)) == low]
        if members:
            gap = mean([confidences[i] for i in members]) - mean([float(right[i]) for i in members])
            total += abs(gap) * len(members)
    return total / len(confidences) if confidences else float("nan")
