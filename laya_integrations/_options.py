"""laya's options of one call, as one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """laya's options of one call; what stays None is not passed on, so the runner's own default holds."""

    max_len: int | None = None
    """Token budget of one sequence."""
    head_max_len: int | None = None
    """Part of `max_len` that the question may take."""
    min_confidence: float | Mapping[str, float] | None = None
    """Gate below which an answer counts as unanswered: a number, or a number per bucket."""
    lang: str | None = None
    """Language code: routes on a Router, chooses calibration on an Agent."""
    model: str | None = None
    """Checkpoint that a Router must use."""
    task: str | None = None
    """Workflow that a Router must use."""
    lang_guess: Any = None
    """A Router's fallback language: a code, or a callable on the state."""
    batch_size: int | None = None
    """States in one pass of a batch."""
    hooks: Any = None
    """Hook objects of this call, after those that are installed."""
    on_predict_start: Any = None
    """One callable or a sequence, run before inference."""
    on_predict_end: Any = None
    """One callable or a sequence, run after inference."""
    hooks_raise: bool | None = None
    """Whether a failing hook fails the call."""
    hooks_timeout: float | None = None
    """Seconds that one hook may take."""

    def replaced(self, **changes: Any) -> CallOptions:
        """These options with some changed; an unknown name is a TypeError."""
        if unknown := sorted(changes.keys() - OPTION_NAMES):
            raise TypeError(f"unknown call option {unknown[0]!r}; laya takes {', '.join(sorted(OPTION_NAMES))}")
        return replace(self, **changes)

    def given(self) -> dict[str, Any]:
        """The options that are set, by name."""
        return dict(self._given)

    @cached_property
    def _given(self) -> dict[str, Any]:
        return {name: value for name in _OPTION_ORDER if (value := getattr(self, name)) is not None}


_OPTION_ORDER = tuple(option.name for option in fields(CallOptions))
OPTION_NAMES = frozenset(_OPTION_ORDER)
"""Names that a call may give."""

REQUEST_OPTIONS = ("model", "task", "lang", "lang_guess", "max_len", "head_max_len")
"""Options that belong to each request of a Router's batch; the others belong to the call."""
ROUTER_OPTIONS = frozenset(("model", "task", "lang_guess"))
"""Options that only a Router takes."""
