"""Temperatures per bucket, fitted on label sets never trained: they make confidence mean what it says.

What the builders draw is harder than what people ask, so temperatures fitted on it alone say too little confidence.
Their proportions are kept, and each type is scaled to decisions written by hand, `calibration/typical.jsonl`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from laya._checkpoints.config import KINDS, bucket
from laya._forward.network import DecisionNetwork
from laya._pipeline.calibration import Temperatures
from training.rows import Row, collate, plan

_LOWEST, _HIGHEST, _STEPS = 0.5, 5.0, 91
_ENOUGH = 150
"""Decisions below which a bucket takes the temperature of its type."""


def fit_temperatures(network: DecisionNetwork, rows: Sequence[Row], pad: int) -> tuple[list[float], dict[str, float]]:
    """Return the temperature of each type, and of each bucket with enough rows, that minimise the log loss."""
    by_kind: dict[str, list[tuple[Tensor, int]]] = defaultdict(list)
    for row, logits in zip(rows, _logits(network, rows, pad), strict=True):
        gold = row.target.index(max(row.target))
        kind = KINDS[row.type_id]
        by_kind[kind].append((logits, gold))
        by_kind[bucket(kind, len(row.target))].append((logits, gold))
    types = [_best(by_kind[kind]) for kind in KINDS]
    buckets = {key: _best(cases) for key, cases in sorted(by_kind.items()) if ":" in key and len(cases) >= _ENOUGH}
    return types, buckets


def scale_to(
    network: DecisionNetwork,
    rows: Sequence[Row],
    pad: int,
    types: list[float],
    buckets: dict[str, float],
) -> tuple[list[float], dict[str, float]]:
    """Return temperatures multiplied by the factor of each type that minimises the log loss of `rows`."""
    by_choice, by_score, by_noul = types
    fitted = Temperatures((by_choice, by_score, by_noul), buckets)
    by_kind: dict[str, list[tuple[Tensor, int]]] = defaultdict(list)
    for row, logits in zip(rows, _logits(network, rows, pad), strict=True):
        kind = KINDS[row.type_id]
        by_kind[kind].append((logits / fitted.of(kind, len(row.target)), row.target.index(max(row.target))))
    factors = {kind: _best(by_kind[kind]) for kind in KINDS}
    scaled = {key: _confined(value * factors[key.split(":")[0]]) for key, value in buckets.items()}
    return [_confined(value * factors[kind]) for kind, value in zip(KINDS, types, strict=True)], scaled


def _confined(temperature: float) -> float:
    return round(min(_HIGHEST, max(_LOWEST, temperature)), 4)


def _logits(network: DecisionNetwork, rows: Sequence[Row], pad: int) -> list[Tensor]:
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    network.eval()
    with torch.inference_mode():
        for batch in plan(rows, 8192, 64, random.Random(0)):
            logits, _ = network(*collate([rows[i] for i in batch], pad).inputs)
            for at, index in enumerate(batch):
                found[index] = logits[at, : len(rows[index].target)].clone()
    return found


def _best(cases: Sequence[tuple[Tensor, int]]) -> float:
    if not cases:
        return 1.0
    grid = torch.logspace(0, 1, _STEPS, base=_HIGHEST / _LOWEST) * _LOWEST
    total = torch.zeros(_STEPS)
    for logits, gold in cases:
        total -= (logits[None] / grid[:, None]).log_softmax(-1)[:, gold]
    return round(float(grid[int(total.argmin())]), 4)
