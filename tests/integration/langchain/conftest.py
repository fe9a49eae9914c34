"""A real agent, a real router and a trace, shared by the LangChain tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import laya
from laya_integrations.langchain import LayaRunnable
from tests.integration.langchain.langsmith_server import Traces, traced

CHECKPOINTS = Path(__file__).parents[2] / "data" / "checkpoints"

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
    "frustration": {
        "type": "score",
        "instructions": "How frustrated is the customer?",
        "criteria": ["calm", "annoyed", "furious"],
    },
}


class Ticket(BaseModel):
    """The answers to QUESTIONS as an object."""

    department: Literal["billing", "technical"]
    urgent: bool
    frustration: int


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


@pytest.fixture
def runnable(agent: Any) -> LayaRunnable:
    """The agent with QUESTIONS."""
    return LayaRunnable(agent, questions=QUESTIONS)


@pytest.fixture
def traces() -> Iterator[Traces]:
    """The trace of this test."""
    with traced() as found:
        yield found
