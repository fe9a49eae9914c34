"""How a Router calls an agent: through its public methods, so that any object with laya's methods will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from laya._base_agent import BaseAgent
from laya._lifecycle import inner_call
from laya._pipeline.calibration import language_key
from laya.errors import LayaError

Budgets = tuple[int | None, int | None]
Predict = Callable[[Any, list[Any], Any, Budgets, str | None], list[Any]]
"""agent, states, questions, budgets, lang -> one result a state."""


def system_one(agent: Any, states: list[Any], questions: Any, budgets: Budgets, lang: str | None) -> list[Any]:
    """Ask about each state in a call of its own."""
    calls = (getattr(agent, name, None) for name in ("system_one", "predict"))
    call = next((call for call in calls if callable(call)), None)
    if call is None:
        return predict_batch(agent, states, questions, budgets, lang, batch_size=None)
    options = _given(max_len=budgets[0], head_max_len=budgets[1], lang=lang)
    return [_inner(call, state, questions, **options) for state in states]


def predict_batch(
    agent: Any,
    states: list[Any],
    questions: Any,
    budgets: Budgets,
    lang: str | None,
    *,
    batch_size: int | None,
) -> list[Any]:
    """Ask about all states in one call, where the agent has batches."""
    if not callable(getattr(agent, "predict_batch", None)):
        return system_one(agent, states, questions, budgets, lang)
    options = _given(batch_size=batch_size, max_len=budgets[0], head_max_len=budgets[1], lang=lang)
    with inner_call():
        results = list(agent.predict_batch(states, questions, **options))
    if len(results) == 1 and len(states) > 1:  # an agent's hook answered the whole call with one result
        return [dict(results[0]) for _ in states]
    if len(results) != len(states):
        raise LayaError(f"{type(agent).__name__}.predict_batch gave {len(results)} results for {len(states)} states")
    return results


def predict_long(
    agent: Any,
    states: list[Any],
    questions: Any,
    budgets: Budgets,
    lang: str | None,
    *,
    scan: Mapping[str, Any],
) -> list[Any]:
    """Scan each state in windows; `scan` are the keyword arguments of that."""
    options = _given(**scan, lang=lang, max_len=budgets[0], head_max_len=budgets[1])
    options["aggregate"] = scan["aggregate"]  # there None is a mistake, not a default
    return [_inner(agent.predict_long, state, questions, **options) for state in states]


def _inner(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call an agent without the process-wide hooks: the Router has run them."""
    with inner_call():
        return call(*args, **options)


def language_of(agent: Any, lang: str | None) -> str | None:
    """The language where the agent has temperatures for it; elsewhere it would only split what can share a pass."""
    has_own = lang is not None and isinstance(agent, BaseAgent) and agent.temperatures(lang) is not None
    return language_key(lang) if has_own else None


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
