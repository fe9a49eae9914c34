"""Numbers that callers and payloads give, of whatever type."""

from __future__ import annotations

import math
from numbers import Real


def as_float(value: object) -> float | None:
    """A real number as a float, infinite where it is too large for one; None for a bool and what is no real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf
