"""How a Router calls an agent: through its public methods, so that any object with laya's methods will do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import Any, Protocol, runtime_checkable

from laya._base_agent import BaseAgent
from laya._lifecycle import inner_call
from laya._pipeline.calibration import language_key
from laya.errors import LayaError

Budgets = tuple[int | None, int | None]
Predict = Callable[[Any, list[Any], Any, Budgets, str | None], list[Any]]
"""agent, states, questions, budgets, lang -> one result a state."""
AsyncPredict = Callable[[Any, list[Any], Any, Budgets, str | None], Awaitable[list[Any]]]
"""`Predict` on the event loop."""


@runtime_checkable
class AsyncAgent(Protocol):
    """An agent that can be awaited; another one is called in a thread."""

    def apredict(self, state: Any, questions: Any, **options: Any) -> Awaitable[Any]: ...

    def apredict_batch(self, states: Any, questions: Any, **options: Any) -> Awaitable[Any]: ...


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
    return _one_each(_inner(agent.predict_batch, states, questions, **options), states, agent)


async def apredict(
    agent: AsyncAgent, states: list[Any], questions: Any, budgets: Budgets, lang: str | None, *, context: Context
) -> list[Any]:
    """`system_one`, awaited in the context of the Router's call."""
    options = _given(max_len=budgets[0], head_max_len=budgets[1], lang=lang)
    return [await _ainner(context, agent.apredict, state, questions, **options) for state in states]


async def apredict_batch(
    agent: AsyncAgent,
    states: list[Any],
    questions: Any,
    budgets: Budgets,
    lang: str | None,
    *,
    batch_size: int | None,
    context: Context,
) -> list[Any]:
    """`predict_batch`, awaited in the context of the Router's call."""
    options = _given(batch_size=batch_size, max_len=budgets[0], head_max_len=budgets[1], lang=lang)
    results = await _ainner(context, agent.apredict_batch, states, questions, **options)
    return _one_each(results, states, agent)


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


async def _ainner(context: Context, call: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
    async def inner() -> Any:
        with inner_call():
            return await call(*args, **options)

    return await asyncio.get_running_loop().create_task(inner(), context=context)


def _one_each(given: Any, states: list[Any], agent: Any) -> list[Any]:
    results = list(given)
    if len(results) == 1 and len(states) > 1:  # an agent's hook answered the whole call with one result
        return [dict(results[0]) for _ in states]
    if len(results) != len(states):
        raise LayaError(f"{type(agent).__name__}.predict_batch gave {len(results)} results for {len(states)} states")
    return results


def language_of(agent: Any, lang: str | None) -> str | None:
    """The language where the agent has temperatures for it; elsewhere it would only split what can share a pass."""
    has_own = lang is not None and isinstance(agent, BaseAgent) and agent.temperatures(lang) is not None
    return language_key(lang) if has_own else None


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
