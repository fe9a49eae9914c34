"""The guard that keeps the tests on this machine."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tests.network_guard import NetworkBlockedError, is_local

ROOT = Path(__file__).parents[2]

REMOTE = ("192.0.2.1", 443)
"""An address reserved for documentation: nobody answers there."""


def test_a_remote_connection_is_refused_and_remembered(network_attempts: list[str]) -> None:
    """The guard raises before a packet leaves, and keeps the attempt for the test's end."""
    with pytest.raises(NetworkBlockedError, match=r"192\.0\.2\.1"):
        socket.create_connection(REMOTE, timeout=1)
    assert any("192.0.2.1" in attempt for attempt in network_attempts)
    network_attempts.clear()


async def test_an_asyncio_connection_is_refused_too(network_attempts: list[str]) -> None:
    """Event loops connect by another path, which the guard also sees."""
    with pytest.raises(NetworkBlockedError):
        await asyncio.open_connection(*REMOTE)
    network_attempts.clear()


def test_a_remote_name_is_not_looked_up(network_attempts: list[str]) -> None:
    """A look-up already leaves this machine."""
    with pytest.raises(NetworkBlockedError):
        socket.getaddrinfo("laya.invalid", 443)
    assert network_attempts == ["socket.getaddrinfo laya.invalid"]
    network_attempts.clear()


def test_a_swallowed_attempt_still_fails_its_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that hides the error does not hide the attempt."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest("from tests.conftest import network_attempts\n")
    pytester.makepyfile(
        """
        import contextlib, socket

        def test_quiet():
            with contextlib.suppress(Exception):
                socket.create_connection(("192.0.2.1", 443), timeout=1)
        """
    )
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=1, errors=1)
    outcome.stdout.fnmatch_lines(["*tried to reach the network*192.0.2.1*"])


def test_loopback_connections_work() -> None:
    """Tests may serve and ask on this machine."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        assert client.getpeername() == server.getsockname()


@pytest.mark.parametrize("host", [None, "", "localhost", b"localhost", "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0"])
def test_this_machine_is_local(host: object) -> None:
    """Every way to write this machine is allowed."""
    assert is_local(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "10.0.0.1", "2001:db8::1", "huggingface.co", "localhost.example.org"])
def test_other_machines_are_not_local(host: str) -> None:
    """Private networks are other machines too."""
    assert not is_local(host)


def test_tracing_and_the_hub_are_off() -> None:
    """No variable of the developer's shell makes a library call home."""
    assert not [name for name in os.environ if name.startswith(("LANGSMITH_", "LANGCHAIN_"))]
    assert os.environ["HF_HUB_OFFLINE"] == "1"
