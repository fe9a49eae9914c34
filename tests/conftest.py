"""What every test runs under: no network, no tracing service, no settings from the developer's home."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import network_guard

TESTS = Path(__file__).parent

_TRACING_PREFIXES = ("LANGSMITH_", "LANGCHAIN_", "OTEL_")


def _isolate_environment() -> None:
    """Set what libraries read when they are imported; subprocesses of the tests inherit it."""
    for name in [name for name in os.environ if name.startswith(_TRACING_PREFIXES)]:
        del os.environ[name]
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT"):
        os.environ.pop(name, None)
    os.environ.update(
        HF_HOME=tempfile.mkdtemp(prefix="laya-tests-hub-"),
        HF_HUB_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        TRANSFORMERS_OFFLINE="1",
        # A tokenizer that was used before a fork warns about its threads.
        TOKENIZERS_PARALLELISM="false",
    )


_isolate_environment()
network_guard.install()


@pytest.fixture(autouse=True)
def network_attempts() -> Iterator[list[str]]:
    """Fail a test that tried to leave this machine, also where the code under test swallowed the error."""
    network_guard.ATTEMPTS.clear()
    yield network_guard.ATTEMPTS
    attempts = list(network_guard.ATTEMPTS)
    network_guard.ATTEMPTS.clear()
    if attempts:
        pytest.fail("the test tried to reach the network: " + ", ".join(attempts), pytrace=False)


@pytest.fixture(scope="session")
def checkpoints() -> Path:
    """The folder of the small checkpoints: english, multilingual, typed-decisions and bert."""
    return TESTS / "data" / "checkpoints"
