"""The tokens that a call used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from laya._numbers import as_float

COUNTERS = ("input_tokens", "output_tokens")
"""The numbers of a usage block that add up over results."""


def aggregate_usage(results: Iterable[Any] | Mapping[str, Any] | None) -> dict[str, int]:
    """Sum the token counts of `results`.

    A result without a usable count adds zero: a hook may have answered with a payload of any shape.
    """
    total = dict.fromkeys(COUNTERS, 0)
    for usage in _usage_blocks(results):
        for counter in COUNTERS:
            total[counter] += _count(usage.get(counter))
    return total


def _usage_blocks(results: Any) -> Iterable[Mapping[str, Any]]:
    if isinstance(results, Mapping):
        results = (results,)
    for result in results if isinstance(results, Iterable) else ():
        usage = result.get("usage") if isinstance(result, Mapping) else None
        if isinstance(usage, Mapping):
            yield usage


def _count(value: object) -> int:
    """Return a finite number as an int, and zero for anything else."""
    number = as_float(value)
    if number is None or not math.isfinite(number):
        return 0
    return int(value) if isinstance(value, Integral) else int(number)
