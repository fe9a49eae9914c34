"""What a forked child renews."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap

import pytest

from laya import _forks

QUESTIONS = {"u": {"type": "noul", "instructions": "Is it urgent?"}}


class Renewed:
    """Counts how often; it can't be hashed, as a user's subclass may not be."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.times = 0
        _forks.in_forked_child(self.renew)

    def renew(self) -> None:
        """Count."""
        self.times += 1


def test_a_method_is_called_as_long_as_its_object_lives() -> None:
    """Registering keeps nothing alive and leaves nothing behind."""
    gc.collect()  # what other tests left must not go in between
    before = len(_forks._renewals)
    kept, dropped = Renewed(), Renewed()
    assert len(_forks._renewals) == before + 2
    del dropped
    gc.collect()
    assert len(_forks._renewals) <= before + 1
    _forks._renew()
    assert kept.times == 1


def child_status(body: str) -> None:
    """Run a script that forks while other threads hold what it says; the child must end well, and soon."""
    script = f"""
        import os, signal, sys, threading, time
        from laya import Router
        from laya.testing import FakeRunner
        questions = {QUESTIONS!r}
        at_fork, after = threading.Event(), threading.Event()
        def fork(child):
            assert at_fork.wait(20)
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                try:
                    child()
                    os._exit(0)
                finally:
                    os._exit(1)
            after.set()
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert status == 0, f"the child ended with {{status}}"
    """
    program = textwrap.dedent(script) + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@forks
def test_a_child_finds_every_lock_free() -> None:
    """Whoever held the hooks', the caches', the registries' and the Router's locks when it was forked."""
    child_status("""
        from laya.hooks import _registry
        class Hook:
            def on_predict_start(self, ctx): pass
        runner = FakeRunner({"u": True}, hooks=Hook(), hooks_concurrent=False)
        router = Router(hooks=Hook(), hooks_concurrent=False)
        router.attach("english", runner)
        engine = runner._engine
        locks = [runner._hook_lock, router._hook_lock, router._attaching, router._residency._changed,
                 engine._heads._lock, engine._sets._lock, _registry._changing]
        def hold():
            for lock in locks:
                lock.acquire()
            at_fork.set()
            after.wait(60)
            for lock in locks:
                lock.release()
        holding = threading.Thread(target=hold)
        holding.start()
        def child():
            router.predict("x", questions, model="english")
            runner.add_hook(Hook())
            router.attach("other", runner)
        fork(child)
        holding.join()
    """)


@forks
def test_a_child_builds_what_its_parent_was_building() -> None:
    """The thread that builds it is the parent's; the parent's own build goes on, as does a child's that forks."""
    child_status("""
        router = Router()
        builder = threading.get_ident()
        def build(name):
            if threading.current_thread() is thread:
                at_fork.set()
                assert after.wait(60)
            return FakeRunner({"u": True})
        router._residency.build = build
        thread = threading.Thread(target=router.predict, args=("x", questions, "english"))
        thread.start()
        fork(lambda: router.predict("x", questions, model="english"))
        thread.join()
        assert router.loaded == ["english"]
        def build_and_fork(name):
            at_fork.set()
            if os.fork() == 0:
                return FakeRunner({"u": True})
            assert os.wait()[1] == 0
            return FakeRunner({"u": True})
        router._residency.build = build_and_fork
        mine = os.getpid()
        router.load("multilingual")
        if os.getpid() != mine:
            os._exit(0 if "multilingual" in router.loaded else 1)
    """)


@forks
def test_a_hook_may_fork() -> None:
    """Its call ends in both processes, and both go on predicting, one hook at a time."""
    child_status("""
        pids = []
        class Hook:
            def on_predict_start(self, ctx):
                if ctx.states == ["fork"]:
                    pids.append(os.fork())
                    assert runner.predict("inner", questions)["answers"]
        runner = FakeRunner({"u": True}, hooks=Hook(), hooks_concurrent=False)
        runner.predict("fork", questions)
        other = threading.Thread(target=runner.predict, args=("x", questions), daemon=True)
        other.start()
        other.join(20)
        good = not other.is_alive()
        if pids == [0]:
            os._exit(0 if good else 1)
        assert os.waitpid(pids[0], 0)[1] == 0 and good
    """)
