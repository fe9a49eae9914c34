"""The end of the process: no thread may be in native code when the interpreter goes down."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from laya._forks import in_forked_child
from laya.errors import LayaError

_INTERRUPTED = 130
"""The exit status that shells give a process which Ctrl-C ended."""
_POLL_S = 0.005
_HELD_S = 2.0
"""How long a thread that comes too late is held. Nearly always the process is gone by then, and nobody is told."""


class NativeCode:
    """Knows which threads are in long calls into libraries that let go of the interpreter lock.

    A thread that wants that lock back of an interpreter that has ended is stopped by it. In the midst of C++ this
    takes the whole process down (SIGABRT). Daemon threads run until then, and so do hooks that overran.
    """

    def __init__(self) -> None:
        self._renew()
        in_forked_child(self._renew)

    @contextmanager
    def turn(self, lock: AbstractContextManager[Any]) -> Iterator[None]:
        """Hold `lock` and be inside. Who comes too late is held without it, and gets a `LayaError` in the end."""
        thread = threading.get_ident()
        with lock:
            nested = thread in self._inside
            # First the name, then the look: either `close` sees this thread, or this thread sees that it is closed.
            self._inside.append(thread)
            try:
                if not self._closed or nested or threading.current_thread() is threading.main_thread():
                    yield
                    return
            finally:
                self._inside.remove(thread)
        _hold_back()

    @property
    def is_closed(self) -> bool:
        """Whether only the main thread may go in any more."""
        return self._closed

    def close(self) -> None:
        """Let no other thread in any more, and wait until those that are inside have come out.

        An interrupt (Ctrl-C) ends the wait.
        """
        self._closed = True
        own = threading.get_ident()
        while any(thread != own for thread in tuple(self._inside)):
            time.sleep(_POLL_S)

    def _renew(self) -> None:
        """Start anew: a forked child has none of the other threads."""
        self._inside: list[int] = []
        """A thread stands here once for each time that it is inside; to change a list takes one step."""
        self._closed = False


native_code = NativeCode()


def _hold_back() -> None:
    """Keep a thread that is none of the process's concern until that is gone; after a while, tell it."""
    # Not for ever: something that runs at exit may join the thread.
    time.sleep(_HELD_S)
    raise LayaError("the process is about to end, and nothing is computed any more; end your threads before that")


def _at_exit() -> None:
    try:
        native_code.close()
    except KeyboardInterrupt:
        # The interpreter can't go down around whoever is still inside.
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(_INTERRUPTED)


atexit.register(_at_exit)
