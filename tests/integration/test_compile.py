"""`compile=True` traces the network a few times, whatever it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import laya

YES_NO = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}
ONLY_ONE = {"team": {"type": "choice", "instructions": "Which team?", "criteria": ["sales"]}}
MANY = {
    **YES_NO,
    "topic": {"type": "choice", "instructions": "What is it about?", "criteria": [f"topic {i}" for i in range(9)]},
    "level": {"type": "score", "instructions": "How good is it?", "criteria": ["bad", "fair", "good"]},
}
MOST_GRAPHS = 4
"""One row or several, with one option or several."""


@pytest.fixture
def traced_only() -> Iterator[None]:
    """Trace for real, and run what was traced without compiling it, which would take minutes."""
    torch.compiler.reset()
    counters.clear()
    with torch.compiler.set_stance("default", force_backend="eager"):
        yield
    torch.compiler.reset()


@pytest.mark.usefixtures("traced_only")
def test_graphs_do_not_grow_with_the_shapes(checkpoints: Path) -> None:
    """Rows, lengths and options of every size share them, and the answers are those of the plain network."""
    compiled = laya.load(checkpoints / "multilingual", device="cpu", compile=True)
    plain = laya.load(checkpoints / "multilingual", device="cpu")
    for questions in (YES_NO, MANY, ONLY_ONE):
        for states in (["short"], ["short"] * 3, ["a longer state " * 9], ["long " * 300, "b"], ["c " * 40] * 7):
            found, expected = (agent.predict_batch(states, questions) for agent in (compiled, plain))
            assert [r["answers"] for r in found] == [_close_to(r["answers"]) for r in expected]
    assert 1 <= counters["stats"]["unique_graphs"] <= MOST_GRAPHS


def _close_to(value: object) -> object:
    if isinstance(value, dict):
        return {key: _close_to(item) for key, item in value.items()}
    return pytest.approx(value, abs=2e-4) if isinstance(value, float) else value
