"""What hooks may leave in a context: checked here for every call, after each event that may rewrite one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from laya._numbers import as_float
from laya.errors import HookError
from laya.hooks import PredictContext
from laya.hooks._context import count_states

_RESULTS = "use ctx.skip(...), or set a list with one result dict for each state"


class Rewrites:
    """A context as it is before the hooks of one event, and what they may make of it.

    A start hook may leave other states, and results, of which there are as many as states, or a single one for the
    whole call. An end hook may leave as many results as there were or more, or one for each state that it leaves. A
    call of one state (`single`) keeps one state and has one result.
    """

    def __init__(self, ctx: PredictContext, event: str, single: bool) -> None:
        self._ctx = ctx
        self._event = event
        self._single = single
        self._states = ctx.states
        self._kept_states = _copied(ctx.states)
        self._kept_results = _copied(ctx.results)
        self._kept_start = ctx.started_at

    def error(self) -> HookError | None:
        """The error for what the hooks left, which is put back as it was; None where all is well."""
        problem = self._problem_at_start() if self._event == "on_predict_start" else self._problem_of_results()
        if problem is None:
            return None
        ctx = self._ctx
        ctx.states, ctx.results, ctx.started_at = self._kept_states, self._kept_results, self._kept_start
        return HookError(f"{self._event}: a hook {problem}", event=self._event)

    def _problem_at_start(self) -> str | None:
        ctx = self._ctx
        started = as_float(ctx.started_at)
        if started is None or not math.isfinite(started):
            return f"set ctx.started_at to {_named(ctx.started_at)}; set it to a time.perf_counter() reading"
        if ctx.results is not None:
            return self._problem_of_results()
        states: Any = ctx.states
        if not isinstance(states, list | tuple):
            # What the caller gave is refused in other words, when it is read.
            unchanged = states is self._states
            return None if unchanged else f"set ctx.states to {_named(states)}; set it to a list of states"
        if self._single and len(states) != 1:
            return f"left {len(states)} states to a call about one; leave one in ctx.states, or use predict_batch"
        return None

    def _problem_of_results(self) -> str | None:
        results: Any = self._ctx.results
        if not isinstance(results, list | tuple):
            return f"set ctx.results to {_named(results)}; {_RESULTS}"
        for index, result in enumerate(results):
            if type(result) is not dict and not self._may_be(result):
                return f"set ctx.results[{index}] to {_named(result)}; {_RESULTS}"
        if self._single and len(results) != 1:
            return f"left {len(results)} results for one state; {_RESULTS}"
        if not self._single and not self._may_be_as_many(len(results)):
            states = count_states(self._kept_states)
            return f"left {len(results)} results for {states} states; {_RESULTS}, or a single one for the whole call"
        return None

    def _may_be_as_many(self, count: int) -> bool:
        """Whether a batch may have so many results: at the end more, if a hook put back what it had set aside."""
        if self._event == "on_predict_end" and self._kept_results is not None and count >= len(self._kept_results):
            return True
        # States as `skip` counted them, or as they are by now: a hook may have redacted or merged them since.
        return count in (1, count_states(self._kept_states), count_states(self._ctx.states))

    def _may_be(self, result: object) -> bool:
        """Whether it may be a result: usage is read of those of a start hook; an end hook's may be of any form."""
        if self._event == "on_predict_start":
            return isinstance(result, Mapping)
        return not isinstance(result, str | int | float | None)


def _copied(value: Any) -> Any:
    """A list that what hooks do to the original doesn't reach; anything else as it is."""
    return list(value) if isinstance(value, list) else value


def _named(value: object) -> str:
    """The type of what a hook left: the value itself may hold a user's text."""
    return "None" if value is None else type(value).__name__
