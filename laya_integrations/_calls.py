"""Tell an agent's call that is part of a Router's call from one of its own.

A hook on both hears of both; whoever shows calls shows the Router's, which has the tokens, and leaves out its part.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from laya.hooks import PredictContext


class CallStart:
    """Where a call started that is shown, and whether its part was seen."""

    def __init__(self, place: Any) -> None:
        self._place = place
        self._thread = threading.current_thread()
        self.has_part = False
        """Whether the agent's part of this Router call was seen; a Router asks once."""

    def may_hold(self, ctx: PredictContext, inner: PredictContext, place: Any) -> bool:
        """Whether `inner`, made now at a place in the trace, can be part of `ctx`, the call that started here.

        Not where that one has ended: another hook's failure may have kept its end from being heard. It must be the
        same place and, unless they have a state in common, the same thread. With `hooks_timeout` each hook has a
        thread of its own, which is over by then.
        """
        if self.has_part or self._place != place or ctx.results is not None or ctx.error is not None:
            return False
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        states = {id(state) for state in states_of(ctx)}
        return any(id(state) in states for state in states_of(inner))


def takes_part(calls: Iterable[tuple[PredictContext, CallStart]], ctx: PredictContext, place: Any) -> bool:
    """Whether a call that starts is part of some of the open calls; notes there that their part was seen."""
    holding = {outer: start for outer, start in calls if start.may_hold(outer, ctx, place)}
    found = parts_of(holding, ctx)
    for outer in found:
        holding[outer].has_part = True
    return bool(found)


def parts_of(outer: Iterable[PredictContext], inner: PredictContext) -> list[PredictContext]:
    """Which Router calls an agent's call is made for: one for each of its states, or the first whose windows it has.

    A Router hands an agent the very states and questions that its hooks saw; only a long state comes as its
    windows. Calls about one text with several budgets are told apart by these.
    """
    if inner.router is not None:
        return []
    fitting = [o for o in outer if o.router is not None and o.agent is inner.agent and o.questions == inner.questions]
    fitting.sort(key=lambda o: (o.max_len, o.head_max_len) != (inner.max_len, inner.head_max_len))
    left = Counter(id(state) for state in states_of(inner))
    found = []
    for ctx in fitting:
        if states := [id(state) for state in states_of(ctx) if left[id(state)]]:
            left[states[0]] -= 1
            found.append(ctx)
    return found or [ctx for ctx in fitting if _may_be_windows(ctx, inner)][:1]


def states_of(ctx: PredictContext) -> list[Any]:
    """The call's states; before laya has checked them, anything can stand there."""
    states: Any = ctx.states
    return list(states) if isinstance(states, list | tuple) else [states]


def _may_be_windows(outer: PredictContext, inner: PredictContext) -> bool:
    texts = states_of(inner)
    return len(states_of(outer)) == 1 and len(texts) > 1 and all(isinstance(text, str) for text in texts)
