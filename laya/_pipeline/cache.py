"""A small cache that forgets what was used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from laya._forks import in_forked_child

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """At most `size` values by key. Safe to use from many threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._renew_lock()
        in_forked_child(self._renew_lock)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, which is now the most recently used; None if there is none."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value, at the cost of the one used longest ago."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def _renew_lock(self) -> None:
        self._lock = Lock()
