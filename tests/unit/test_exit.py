"""Threads that are in native code, or want to be, when the process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from threading import RLock
from typing import Any

import pytest

from laya import _exit
from laya._exit import NativeCode
from laya.errors import LayaError


class Inside:
    """A thread that is in native code until it is let go, or was refused."""

    def __init__(self, code: NativeCode, lock: Any = None) -> None:
        self.code = code
        self.lock = RLock() if lock is None else lock
        self.entered, self.go = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            with self.code.turn(self.lock), self.code.turn(RLock()):
                self.entered.set()
                assert self.go.wait(30)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Let it go and wait for its end."""
        self.go.set()
        self.thread.join(30)


def test_the_end_waits_for_who_is_inside_and_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes late is held for a while, silently, and then told."""
    monkeypatch.setattr(_exit, "_HELD_S", 0.3)
    code = NativeCode()
    inside = Inside(code)
    assert inside.entered.wait(30)
    closing = threading.Thread(target=code.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    late = Inside(code)
    late.thread.join(0.05)
    assert late.thread.is_alive()
    inside.end()
    closing.join(30)
    assert not closing.is_alive()
    late.end()
    assert [type(one.error) for one in (inside, late)] == [type(None), LayaError]
    assert not late.entered.is_set()
    assert "about to end" in str(late.error)


def test_who_is_held_holds_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that wait for it are to be told, too."""
    monkeypatch.setattr(_exit, "_HELD_S", 0.3)
    code, lock = NativeCode(), threading.Lock()
    code.close()
    late = Inside(code, lock)
    late.thread.join(0.05)
    assert late.thread.is_alive()
    assert lock.acquire(timeout=0.1)
    lock.release()
    late.end()
    assert isinstance(late.error, LayaError)


def test_the_main_thread_may_still_compute() -> None:
    """Something that runs at exit may ask an agent, and its thread is not stopped."""
    code = NativeCode()
    code.close()
    with code.turn(RLock()), code.turn(RLock()):
        code.close()


def test_an_interrupt_ends_the_wait() -> None:
    """A pass that takes very long is given up by Ctrl-C, quietly."""
    script = """
        import signal, threading, time
        import numpy as np
        from laya._exit import native_code
        x = np.ones((1500, 1500))

        # A shell starts its background jobs deaf to it.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def compute():
            with native_code.turn(threading.Lock()):
                print("in", flush=True)
                while True:
                    x @ x

        threading.Thread(target=compute, daemon=True).start()
        time.sleep(0.2)
        print("end", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["in\n", "end\n"]
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 130


def test_no_thread_takes_the_process_down(checkpoints: Path) -> None:
    """Not one with a call, nor one of shared passes, nor a hook that overran: all compute when the main thread ends."""
    script = """
        import sys, threading, time, warnings
        warnings.simplefilter("ignore")
        import laya

        def load(**options):
            return laya.load(sys.argv[1], device="cpu", **options)

        questions = {"u": {"type": "noul", "instructions": "Urgent?"}}
        states = ["word " * 300] * 3000
        plain, shared = load(), load(batch_window_ms=1)

        def in_turn():
            for state in states:
                shared.predict(state, questions)

        def overrun(ctx):
            plain.predict_batch(states, questions)

        for call in (in_turn, lambda: plain.predict_batch(states, questions)):
            threading.Thread(target=call, daemon=True).start()
        try:
            plain.predict("x", questions, on_predict_start=overrun, hooks_timeout=0.3)
        except TimeoutError:
            print("end", time.time(), flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(checkpoints / "english")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout[:3], done.stderr, done.returncode) == ("end", "", 0)
    assert time.time() - float(done.stdout[4:]) < 10
