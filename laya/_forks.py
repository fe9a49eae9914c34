"""What a forked child renews: locks and threads of the parent that nobody there would ever give back or run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any
from weakref import ref

_renewals: dict[int, tuple[ref[Any], Callable[[Any], None]]] = {}
"""By the identity of the object, which need not be hashable."""


def in_forked_child(renew: Callable[[], None]) -> None:
    """Have each forked child call `renew` in the thread that forked, before that thread goes on.

    A bound method goes with its object, which has one at most; a function stays for good.
    """
    if isinstance(renew, MethodType):
        owner = renew.__self__
        _renewals[id(owner)] = ref(owner, partial(_drop, id(owner), _renewals)), renew.__func__
    elif hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def _drop(key: int, renewals: dict[int, Any], gone: object) -> None:
    renewals.pop(key, None)


def _renew() -> None:
    for owner, renew in tuple(_renewals.values()):
        living = owner()
        if living is not None:
            renew(living)


in_forked_child(_renew)
