"""How a Router calls an agent: through its public methods, so that any object with laya's methods will do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from inspect import Parameter, signature
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
    options = _options(call, lang, max_len=budgets[0], head_max_len=budgets[1])
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
    options = _options(agent.predict_batch, lang, batch_size=batch_size, max_len=budgets[0], head_max_len=budgets[1])
    return _one_each(_inner(agent.predict_batch, states, questions, **options), states, agent)


async def apredict(
    agent: AsyncAgent, states: list[Any], questions: Any, budgets: Budgets, lang: str | None, *, context: Context
) -> list[Any]:
    """`system_one`, awaited in the context of the Router's call."""
    options = _options(agent.apredict, lang, max_len=budgets[0], head_max_len=budgets[1])
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
    options = _options(agent.apredict_batch, lang, batch_size=batch_size, max_len=budgets[0], head_max_len=budgets[1])
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
    options = _options(agent.predict_long, lang, **scan, max_len=budgets[0], head_max_len=budgets[1])
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
    """The language of a call to this agent: None where it makes no difference and would only split a shared pass.

    It does for an agent of laya's that has temperatures for it; what it does for another one, nobody here knows.
    """
    if lang is None or not isinstance(agent, BaseAgent):
        return lang
    return language_key(lang) if agent.temperatures(lang) is not None else None


def _options(call: Callable[..., Any], lang: str | None, **options: Any) -> dict[str, Any]:
    """The options that were given, with `lang` for a call that takes it: a caller may have meant it for routing."""
    given = {name: value for name, value in options.items() if value is not None}
    if lang is not None and _takes_lang(call):
        given["lang"] = lang
    return given


def _takes_lang(call: Callable[..., Any]) -> bool:
    try:
        parameters = signature(call).parameters
    except (TypeError, ValueError):  # a callable that doesn't tell
        return True
    return "lang" in parameters or any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
