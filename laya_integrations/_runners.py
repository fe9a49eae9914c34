"""Load a runner by its checkpoint's name, once for the whole process."""

from __future__ import annotations

import threading
from typing import Any

_lock = threading.Lock()
_loaded: dict[str, Any] = {}


def load_runner(model: str) -> Any:
    """The Agent for a checkpoint path or Hub id: loaded on the first call, the same object afterwards.

    Threads that ask at the same time wait for one load. A failed load is not remembered.
    """
    with _lock:
        if model not in _loaded:
            import laya

            _loaded[model] = laya.load(model)
        return _loaded[model]
