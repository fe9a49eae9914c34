"""Refuse connections that leave this machine, and remember that they were tried."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

ATTEMPTS: list[str] = []
"""What was tried since the list was last cleared, oldest first, as `event host`."""

_HOST_OF_EVENT = {
    "socket.connect": lambda args: _host_of_address(args[1]),
    "socket.sendto": lambda args: _host_of_address(args[1]),
    "socket.getaddrinfo": lambda args: args[0],
    "socket.gethostbyname": lambda args: args[0],
}


class NetworkBlockedError(RuntimeError):
    """Raised in place of a connection that would leave this machine."""


def install() -> None:
    """Watch every socket of this process from now on. An audit hook can't be taken out again."""
    sys.addaudithook(_refuse_remote)


def is_local(host: object) -> bool:
    """Tell whether a host is this machine: a loopback address, `localhost`, or a socket without a host."""
    if host is None:
        return True
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if name in {"", "localhost", "localhost.localdomain", "ip6-localhost"}:
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _host_of_address(address: Any) -> object:
    # A Unix socket's address is a path; it has no host.
    return address[0] if isinstance(address, tuple) else None


def _refuse_remote(event: str, args: tuple[Any, ...]) -> None:
    host_of = _HOST_OF_EVENT.get(event)
    if host_of is None:
        return
    host = host_of(args)
    if not is_local(host):
        ATTEMPTS.append(f"{event} {host}")
        raise NetworkBlockedError(f"{event} to {host!r}: tests may reach this machine only")
