"""The runners that adapters make themselves: one per checkpoint name, and a default Router."""

from __future__ import annotations

import threading
from typing import Any

_lock = threading.Lock()
_loaded: dict[str, Any] = {}
_default: list[Any] = []


def load_runner(model: str) -> Any:
    """The Agent for a checkpoint path, Hub id or registered name: loaded on the first call, then the same object.

    Threads that ask at the same time wait for one load. A failed load is not remembered.
    """
    with _lock:
        if model not in _loaded:
            import laya

            _loaded[model] = laya.load(model)
        return _loaded[model]


def default_runner() -> Any:
    """The process-wide `laya.Router()`, made on the first call; it loads its checkpoints from the Hub when needed."""
    with _lock:
        if not _default:
            import laya

            _default.append(laya.Router())
        return _default[0]


def explain_offline(runner: Any, error: OSError) -> None:
    """Raise an error that says what to pass instead, where `error` is the default Router's failed download."""
    if isinstance(error, TimeoutError) or not (_default and runner is _default[0]):
        return
    raise OSError(
        'the default Router could not get its checkpoint from the Hub; pass model="laya-mini", which comes '
        f"with the package, a checkpoint's path as model=, or a runner=. The Hub said: {error}"
    ) from error
