"""Questions, what LlamaIndex's handlers are told, and a token counter, shared by the LlamaIndex tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler

from tests.integration.llama_index.recorder import Recording, recording

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
}


@pytest.fixture
def recorded() -> Iterator[Recording]:
    """What LlamaIndex's handlers are told in this test."""
    with recording() as found:
        yield found


@pytest.fixture
def counter() -> Iterator[TokenCountingHandler]:
    """A token counter on LlamaIndex's shared callback manager."""
    before = Settings.callback_manager
    handler = TokenCountingHandler(tokenizer=str.split)
    Settings.callback_manager = CallbackManager([handler])
    yield handler
    Settings.callback_manager = before
