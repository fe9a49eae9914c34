"""Which checkpoints are in memory: least recently used goes first, and each is built once. Knows no hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from laya._forks import in_forked_child


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint that was asked for, and what changed for it."""

    agent: Any
    built: bool = False
    """This call built it."""
    evicted: tuple[str, ...] = ()
    """What had to leave, in that order."""


@dataclass(slots=True)
class _Build:
    """A build under way; other threads wait for its outcome."""

    agent: Any = None
    error: Exception | None = None
    done: bool = False


@dataclass(slots=True, eq=False, weakref_slot=True)
class Residency:
    """At most `limit` agents by name. Safe to call from many threads; builds run outside the lock.

    Evicting drops the table's reference: an agent that still answers a call keeps its memory until it has
    answered.
    """

    build: Callable[[str], Any]
    limit: int
    _agents: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    _builds: dict[str, _Build] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)

    def __post_init__(self) -> None:
        in_forked_child(self._renew)

    @property
    def names(self) -> list[str]:
        """Resident names, least recently used first."""
        with self._changed:
            return list(self._agents)

    def get(self, name: str) -> Loaded:
        """The agent of a name, built if need be.

        Threads that ask for a checkpoint while it is built wait for that one build, and share its error; the
        next call tries again.
        """
        while True:
            with self._changed:
                if name in self._agents:
                    self._agents.move_to_end(name)
                    return Loaded(self._agents[name])
                build = self._builds.get(name)
                if build is None:
                    build = self._builds[name] = _Build()
                    break
                while not build.done:
                    self._changed.wait()
                if build.error is not None:
                    raise build.error
                if build.agent is not None:
                    # The one built meanwhile, even if others have evicted it since.
                    return Loaded(build.agent)
                # Interrupted in its own thread: that is no answer to this one.
        return self._run(name, build)

    def put(self, name: str, agent: Any) -> None:
        """Register an agent that was built elsewhere, in the place of one of that name; nothing is evicted."""
        with self._changed:
            self._agents[name] = agent
            self._agents.move_to_end(name)
            self.limit = max(self.limit, len(self._agents))

    def reserve(self, names: set[str]) -> None:
        """Raise the limit so that these fit beside what is resident."""
        with self._changed:
            self.limit = max(self.limit, len(names | set(self._agents)))

    def remove(self, name: str | None = None) -> list[str]:
        """Drop one name or all; returns those that were resident."""
        with self._changed:
            gone = list(self._agents) if name is None else [name] if name in self._agents else []
            for each in gone:
                del self._agents[each]
            return gone

    def _run(self, name: str, build: _Build) -> Loaded:
        loaded = None
        try:
            agent = self.build(name)
            with self._changed:
                loaded = self._register(name, agent)
        except Exception as error:
            build.error = error
            raise
        finally:
            with self._changed:
                if loaded is not None:
                    build.agent = loaded.agent
                if self._builds.get(name) is build:  # not so where the build itself has forked
                    del self._builds[name]
                build.done = True
                self._changed.notify_all()
        return loaded

    def _renew(self) -> None:
        """Forget, in a forked child, the builds under way: their threads aren't there."""
        self._changed = Condition()
        self._builds = {}

    def _register(self, name: str, agent: Any) -> Loaded:
        if name in self._agents:  # put there while this was built: the caller's own agent stays
            return Loaded(self._agents[name])
        self._agents[name] = agent
        evicted = []
        while len(self._agents) > self.limit:
            evicted.append(self._agents.popitem(last=False)[0])
        return Loaded(agent, built=True, evicted=tuple(evicted))
