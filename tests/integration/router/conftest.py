"""A Router over the small checkpoints: with agents that are there already, or with ones it builds itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laya import Router, hooks
from tests.integration.router.recording import NotingAgent

NAMES = ("english", "multilingual", "typed-decisions")


@pytest.fixture(autouse=True)
def _quiet_builds() -> Iterator[None]:
    """The small checkpoints have temperatures that are out of range, and say so each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*temperatures must lie", RuntimeWarning)
        yield


@pytest.fixture(autouse=True)
def _no_default_hooks() -> Iterator[None]:
    """Leave no process-wide hooks behind."""
    yield
    hooks.clear_default_hooks()


@pytest.fixture(scope="session")
def models(checkpoints: Path) -> dict[str, Path]:
    """Where each published checkpoint is in these tests."""
    return {name: checkpoints / name for name in NAMES}


@pytest.fixture(scope="session")
def _loaded(models: dict[str, Path]) -> dict[str, NotingAgent]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return {name: NotingAgent(path, device="cpu") for name, path in models.items()}


@pytest.fixture
def agents(_loaded: dict[str, NotingAgent]) -> dict[str, NotingAgent]:
    """An agent for each checkpoint, that has been called by nobody and has no hooks."""
    for agent in _loaded.values():
        agent.reset()
    return dict(_loaded)


@pytest.fixture
def router(models: dict[str, Path], agents: dict[str, NotingAgent]) -> Router:
    """A Router in which every checkpoint is in memory: no event is about loading."""
    router = Router(models, device="cpu", max_loaded=len(agents))
    for name, agent in agents.items():
        router.attach(name, agent)
    return router


@pytest.fixture
def cold(models: dict[str, Path]) -> Callable[..., Router]:
    """Makes Routers that have nothing in memory yet."""

    def cold(**options: Any) -> Router:
        return Router(models, device="cpu", **options)

    return cold
