"""The context that every hook of one call shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import uuid4

from laya.errors import HookError, OptionError

HOOK_EVENTS = ("on_predict_start", "on_predict_end", "on_route", "on_load", "on_evict", "on_error")
"""The events that a hook may implement; no other name on a hook is read."""


def _new_run_id() -> str:
    return uuid4().hex


@dataclass(eq=False)
class PredictContext:
    """Carry one public call through its hooks, which may rewrite it.

    Two contexts are never equal, and a context is hashable. The states, the results and the runtimes stay
    out of its repr: a log line that shows a context shows no user's text.
    """

    states: list[Any] = field(repr=False)
    """The states to decide about, in input order; a start hook may replace them."""
    questions: dict[str, Any] = field(repr=False)
    """The questions by id. Assign a new dict rather than change this one: calls may share it."""
    run_id: str = field(default_factory=_new_run_id)
    """The call's own id, 32 hex digits; never reused."""
    results: list[dict[str, Any]] | None = field(default=None, repr=False)
    """One result a state; None until there are some."""
    decision: dict[str, Any] | None = field(default=None, repr=False)
    """The Router's decision; an `on_route` hook may replace it."""
    model: str | None = None
    """The checkpoint that answers, by name (Router) or model id (Agent)."""
    agent: Any = field(default=None, repr=False)
    """The agent that answers."""
    router: Any = field(default=None, repr=False)
    """The Router that the call came through."""
    max_len: int | None = None
    """The token budget of a whole sequence; None for the checkpoint's own."""
    head_max_len: int | None = None
    """The token budget of the questions; None for the checkpoint's own."""
    usage: dict[str, int] | None = None
    """The summed tokens of `results`; None as long as there are none."""
    started_at: float = field(default_factory=perf_counter)
    """The `time.perf_counter()` reading that `elapsed_ms` counts from."""
    elapsed_ms: float | None = None
    """The call's duration; None before `on_predict_end`."""
    error: BaseException | None = field(default=None, repr=False)
    """What the call failed with; `results` may be set too."""

    def skip(self, results: Iterable[dict[str, Any]] | Mapping[str, Any]) -> None:
        """Answer the call with `results`, so that nothing is inferred.

        Args:
            results: One result a state, or a single one for the whole call (alone or in a list). They are
                passed on as they are.

        Raises:
            ValueError: There is another number of results.
            TypeError: `results` is no collection.
        """
        answers = _listed(results)
        expected = count_states(self.states)
        if len(answers) not in (1, expected):
            raise OptionError(
                f"ctx.skip() got {len(answers)} results for {expected} states; "
                "pass one result for each state, or a single one for the whole call",
                option="results",
            )
        self.results = answers


def _listed(results: Any) -> list[Any]:
    if isinstance(results, Mapping):
        return [results]
    if isinstance(results, (str, bytes)) or not isinstance(results, Iterable):
        raise HookError(f"ctx.skip() got {type(results).__name__}; pass a list with one result for each state")
    return list(results)


def count_states(states: object) -> int:
    """Count the states of a call, one where what stands there is no collection of states.

    Start hooks run before the states are validated, so that anything can stand there.
    """
    if isinstance(states, Sized) and not isinstance(states, (str, bytes, Mapping)):
        return len(states)
    return 1
