"""What is counted and measured, and by what it can be split."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import laya
from tests.integration.opentelemetry.conftest import QUESTIONS, Backend


@pytest.fixture
def fake() -> Any:
    """The fake runner's class."""
    return pytest.importorskip("laya.testing").FakeRunner


def test_decisions_are_counted_by_question_and_label(backend: Backend, fake: Any) -> None:
    """A score by its most probable level, a noul as true or false."""
    runner = fake({"urgent": True, "mood": 1, "team": lambda state: state}, hooks=backend.hook())
    runner.predict_batch(["billing", "shipping", "billing"], QUESTIONS)
    assert backend.counts("laya.decisions", "laya.question", "laya.label") == {
        ("urgent", "true"): 3,
        ("mood", "1"): 3,
        ("team", "billing"): 2,
        ("team", "shipping"): 1,
    }


def test_doubtful_answers_are_counted(backend: Backend, fake: Any) -> None:
    """Under a label of their own, and by question."""
    fake({"urgent": 0.6, "mood": 1, "team": "billing"}, hooks=backend.hook()).predict(
        "a", QUESTIONS, min_confidence=0.9
    )
    assert backend.counts("laya.low_confidence", "laya.question") == {("urgent",): 1}
    assert backend.counts("laya.decisions", "laya.question", "laya.label")["urgent", "abstained"] == 1


def test_durations_and_tokens_are_measured(backend: Backend, fake: Any) -> None:
    """In seconds, and in tokens of all states."""
    results = fake(hooks=backend.hook()).predict_batch(["a", "b c"], QUESTIONS)
    (duration,) = backend.points("gen_ai.client.operation.duration")
    (tokens,) = backend.points("gen_ai.client.token.usage")
    assert duration.count == 1 and 0 < duration.sum < 10
    assert duration.attributes == {
        "gen_ai.operation.name": "decide",
        "gen_ai.provider.name": "laya",
        "gen_ai.request.model": "fake",
    }
    assert tokens.sum == sum(result["usage"]["input_tokens"] for result in results)
    assert tokens.attributes["gen_ai.token.type"] == "input"


def test_errors_are_counted_by_class(backend: Backend, fake: Any) -> None:
    """And their durations are told from those of answers."""
    with pytest.raises(OSError, match="disk"):
        fake({"urgent": OSError("disk")}, hooks=backend.hook()).predict("a", QUESTIONS)
    assert backend.counts("laya.errors", "error.type") == {("OSError",): 1}
    (duration,) = backend.points("gen_ai.client.operation.duration")
    assert duration.attributes["error.type"] == "OSError"
    assert backend.points("gen_ai.client.token.usage") == []


def test_no_metric_holds_an_id_or_a_text(backend: Backend, fake: Any) -> None:
    """Another call adds no time series."""
    runner = fake({"urgent": True, "mood": 1, "team": "billing"}, hooks=backend.hook())
    runner.predict("first", QUESTIONS)
    names = ("laya.decisions", "gen_ai.client.operation.duration", "gen_ai.client.token.usage")
    before = [len(backend.points(name)) for name in names]
    runner.predict("second", QUESTIONS)
    assert [len(backend.points(name)) for name in names] == before == [3, 1, 1]


def test_a_real_router_counts_loads_and_evictions(backend: Backend, checkpoints: Path) -> None:
    """With one place in memory the second checkpoint drives out the first."""
    models = {name: str(checkpoints / name) for name in ("english", "multilingual")}
    router = laya.Router(models=models, device="cpu", max_loaded=1, hooks=backend.hook())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # these checkpoints ship a temperature that is replaced
        for model in models:
            router.predict("some words", QUESTIONS, model=model)
    assert backend.counts("laya.loads", "gen_ai.request.model") == {("english",): 1, ("multilingual",): 1}
    assert backend.counts("laya.evictions", "gen_ai.request.model") == {("english",): 1}
    assert [span.name for span in backend.spans] == ["decide english", "decide multilingual"]
    assert all((span.attributes or {})["gen_ai.usage.input_tokens"] for span in backend.spans)
