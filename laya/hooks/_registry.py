"""The hooks installed on a runtime, and the defaults of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

from laya._forks import in_forked_child
from laya.hooks._hook import HookArg, PredictHookArg, normalise_hooks

_changing = threading.Lock()
"""Held for each change of any registry; changes are rare and short."""


def _renew_lock() -> None:
    global _changing  # noqa: PLW0603 - one lock for the process
    _changing = threading.Lock()


in_forked_child(_renew_lock)


class _Installed:
    """One place in a registry's list: a hook may have several, and a block gives back only its own."""

    __slots__ = ("hook",)

    def __init__(self, hook: Any) -> None:
        self.hook = hook


class HookRegistry:
    """Hold the installed hooks of a runtime; safe to change from any thread.

    A change never reaches a call in flight: each call reads the list once.
    """

    _installed: tuple[_Installed, ...] = ()

    def __init__(
        self,
        hooks: HookArg = None,
        on_predict_start: PredictHookArg = None,
        on_predict_end: PredictHookArg = None,
    ) -> None:
        self._replace(normalise_hooks(hooks, on_predict_start, on_predict_end))

    @property
    def hooks(self) -> list[Any]:
        """A copy of the installed hooks, in the order in which they run."""
        installed = self._installed
        return [place.hook for place in installed] if installed else []

    def add_hook(self, hook: HookArg) -> Self:
        """Install one hook or a list or tuple of them, at the end; all are checked before any is added."""
        self._add(_places(normalise_hooks(hook)))
        return self

    def remove_hook(self, hook: Any) -> bool:
        """Remove `hook`, found by identity, from every place it has; tell whether it was installed."""
        return self._keep(lambda place: place.hook is not hook)

    def hooks_installed(self, *hooks: HookArg) -> AbstractContextManager[Self]:
        """Install hooks, or lists or tuples of them, for a block, and take them out again however it ends.

        What others add or remove meanwhile stays added or removed.
        """
        return self._hold_installed([hook for given in hooks for hook in normalise_hooks(given)])

    @contextmanager
    def _hold_installed(self, hooks: list[Any]) -> Iterator[Self]:
        places = _places(hooks)
        self._add(places)
        try:
            yield self
        finally:
            self._keep(lambda place: place not in places)

    def _replace(self, hooks: list[Any]) -> None:
        places = _places(hooks)
        with _changing:
            self._installed = places

    def _add(self, places: tuple[_Installed, ...]) -> None:
        with _changing:
            self._installed += places

    def _keep(self, wanted: Callable[[_Installed], bool]) -> bool:
        with _changing:
            before = self._installed
            self._installed = tuple(place for place in before if wanted(place))
            return len(self._installed) < len(before)


def _places(hooks: Iterable[Any]) -> tuple[_Installed, ...]:
    return tuple(_Installed(hook) for hook in hooks)


_defaults = HookRegistry()


def set_default_hooks(
    hooks: HookArg = None, on_predict_start: PredictHookArg = None, on_predict_end: PredictHookArg = None
) -> None:
    """Replace the hooks that run first on every call in this process."""
    _defaults._replace(normalise_hooks(hooks, on_predict_start, on_predict_end))


def add_default_hook(hook: HookArg) -> None:
    """Append one hook or a list or tuple of them to the process-wide defaults."""
    _defaults.add_hook(hook)


def clear_default_hooks() -> None:
    """Remove all process-wide defaults."""
    _defaults._replace([])


def default_hooks() -> list[Any]:
    """Return a copy of the process-wide defaults."""
    return _defaults.hooks


def compose_hooks(
    installed: Iterable[Any] | None,
    hooks: HookArg = None,
    on_predict_start: PredictHookArg = None,
    on_predict_end: PredictHookArg = None,
    *,
    process_defaults: bool = True,
) -> list[Any]:
    """Return the hooks of one call: the process-wide defaults, then `installed`, then the call's own.

    Args:
        installed: The runtime's hooks, checked when they were installed.
        hooks: The call's own, as for `normalise_hooks`.
        on_predict_start: The call's own, as for `normalise_hooks`.
        on_predict_end: The call's own, as for `normalise_hooks`.
        process_defaults: Leave the defaults out where a caller has run them already.
    """
    active = _defaults.hooks if process_defaults else []
    if installed:
        active += installed
    if hooks is not None or on_predict_start is not None or on_predict_end is not None:
        active += normalise_hooks(hooks, on_predict_start, on_predict_end)
    return active
