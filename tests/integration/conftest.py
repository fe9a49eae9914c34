"""A real agent and a real router, shared by the adapters' tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import laya

CHECKPOINTS = Path(__file__).parents[1] / "data" / "checkpoints"

EXAMPLE_ARGUMENTS = [] if find_spec("laya.questions") else [str(CHECKPOINTS / "english")]
"""The examples run as they stand; a laya release that brings no checkpoint is given one."""


def load_quietly(make: Callable[[], Any]) -> Any:
    """Make a runner; these checkpoints ship a temperature that loading replaces with a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return make()


@pytest.fixture(scope="session")
def agent() -> Any:
    """An agent with the English checkpoint."""
    return load_quietly(partial(laya.load, str(CHECKPOINTS / "english"), device="cpu"))


@pytest.fixture(scope="session")
def router() -> Any:
    """A router with two checkpoints loaded."""
    names = ("english", "multilingual")
    router = laya.Router(models={name: str(CHECKPOINTS / name) for name in names}, device="cpu", default="english")
    for name in names:
        load_quietly(partial(router.load, name))
    return router
