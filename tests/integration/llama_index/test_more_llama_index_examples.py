"""The examples of the hook, the evaluator, the extractor, the guard and a workflow run as they are printed."""

from __future__ import annotations

import pytest
from llama_index.core import Settings
from llama_index_instrumentation import get_dispatcher

from laya_integrations.llama_index import LlamaIndexHook
from tests.integration.llama_index.test_llama_index_examples import run_example


def test_the_hook_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints two answers, four spans with their parents, and the tokens of two calls."""
    root = get_dispatcher()
    before = (Settings.callback_manager, list(root.span_handlers))
    try:
        lines = run_example("hook.py", monkeypatch, capsys)
    finally:
        Settings.callback_manager, root.span_handlers = before
    assert len(lines) == 6 and not LlamaIndexHook.is_installed()
    assert lines[1].startswith("LayaAgent.predict under triage ") and len(lines[1].split()[-1]) == 32
    assert lines[2].strip() == "triage" and lines[5].endswith("tokens in 2 calls") and int(lines[5].split()[0]) > 0


def test_the_evaluator_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints two judgements with their reasons, and two of one call."""
    lines = run_example("evaluator.py", monkeypatch, capsys)
    assert [line.split(":")[0] for line in lines] == ["faithful", "relevant", "polite", "polite"]
    assert "of 2)" in lines[0] and lines[2].split()[-1] == lines[3].split()[-1]


def test_the_extractor_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints each node's labels and how many a filter finds."""
    lines = run_example("extractor.py", monkeypatch, capsys)
    assert len(lines) == 4 and all("'topic_confidence':" in line for line in lines[:3])
    assert 1 <= int(lines[3].split()[0]) <= 3


def test_the_guard_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what blocked a query, and what became of two others."""
    lines = run_example("guard.py", monkeypatch, capsys)
    assert len(lines) == 3 and lines[0].startswith("blocked by: ")
    outcomes = ("(an answer to ", "I can help with our product only.")
    assert all(line.split(" -> ")[1].startswith(outcomes) for line in lines[1:])


def test_the_workflow_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each message goes the way that laya decides."""
    lines = run_example("workflow.py", monkeypatch, capsys)
    assert [line.partition(" will answer: ")[2] for line in lines] == ["My invoice is wrong.", "The app crashes."]
    assert all(line.split()[0] in ("billing", "technical") for line in lines)
