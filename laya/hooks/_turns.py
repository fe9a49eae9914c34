"""Turns: hook calls of one runtime, one at a time, however threads and loops nest them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

logger = logging.getLogger("laya.hooks")

_LONG_WAIT_S = 10.0


class Lock(Protocol):
    """Describe what serialises hook calls: a `threading.RLock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


class TurnTimeout(Exception):
    """The lock did not come free in time."""


class _Turn:
    """A hook call that holds `lock` while `active`; the calls that it makes hold `inner`, one after the other."""

    __slots__ = ("active", "inner", "lock")

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.inner: Lock = threading.RLock()
        self.active = True


_turns: ContextVar[tuple[_Turn, ...]] = ContextVar("laya_hook_turns", default=())


@contextmanager
def take_turn(lock: Lock | None, wait_s: float = -1) -> Iterator[None]:
    """Hold `lock`, or, in a hook call that is part of another one that holds it, that one's `inner`.

    The locks are re-entrant for a thread only. A hook's own call may come from another one, its timeout's or a
    loop's, and the contextvars follow it there; a thread without them can't be told from a stranger's. Raises
    `TurnTimeout` after `wait_s` seconds.
    """
    if lock is None:
        yield
        return
    held = _acquire(lock, wait_s)
    turn = _Turn(lock)
    token = _turns.set((*_turns.get(), turn))
    try:
        yield
    finally:
        # What the hook left running keeps its copy of the context, and must wait for its turn from now on.
        turn.active = False
        _turns.reset(token)
        held.release()


def in_turn() -> bool:
    """Tell whether this is part of a hook call that holds a lock, of whichever runtime."""
    return any(turn.active for turn in _turns.get())


def _acquire(lock: Lock, wait_s: float) -> Lock:
    while True:
        outer = next((turn for turn in reversed(_turns.get()) if turn.lock is lock and turn.active), None)
        wanted = lock if outer is None else outer.inner
        if not _get(wanted, wait_s):
            raise TurnTimeout
        if outer is None or outer.active:
            return wanted
        wanted.release()  # the outer call ended meanwhile, and its part of the lock with it


def _get(lock: Lock, wait_s: float) -> bool:
    if wait_s >= 0:
        return lock.acquire(timeout=wait_s)
    if not lock.acquire(timeout=_LONG_WAIT_S):
        # It may be for ever, and nothing else would say why.
        logger.warning(
            "a hook has waited %g s for another hook call of its runtime (hooks_concurrent=False); if that one waits "
            "for a call that it made from a thread of its own, run it there by contextvars.copy_context().run",
            _LONG_WAIT_S,
        )
        lock.acquire()
    return True
