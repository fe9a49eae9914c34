"""Questions, their runnable and a trace, shared by the LangChain tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from laya_integrations.langchain import LayaRunnable
from tests.integration.langchain.langsmith_server import Traces, traced

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


@pytest.fixture
def runnable(agent: Any) -> LayaRunnable:
    """The agent with QUESTIONS."""
    return LayaRunnable(agent, questions=QUESTIONS)


@pytest.fixture
def traces() -> Iterator[Traces]:
    """The trace of this test."""
    with traced() as found:
        yield found
