"""The examples run as they are printed."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import EXAMPLE_ARGUMENTS, load_quietly

EXAMPLES = Path(__file__).parents[3] / "examples" / "llama_index"


def run_example(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that an example prints when it runs as a script."""
    monkeypatch.setattr(sys, "argv", [name, *EXAMPLE_ARGUMENTS])
    load_quietly(lambda: runpy.run_path(str(EXAMPLES / name), run_name="__main__"))
    return capsys.readouterr().out.splitlines()


def test_the_selector_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints a selection, what a retriever found, a refusal, a default, and three selections of many."""
    lines = run_example("selector.py", monkeypatch, capsys)
    assert len(lines) == 7 and len(lines[0].split()[-1]) == 32 and "fits best" in lines[0]
    # No choice fits, or one does but not surely enough: the checkpoint decides.
    assert lines[2].endswith(("give default_index=", "give default_index=, or lower threshold="))
    assert lines[3].endswith("the default is taken")
    assert all(line.split()[0] in "012" for line in lines[4:])


def test_the_multi_selector_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints at most two selections, and as many sources."""
    *selections, sources = run_example("multi_selector.py", monkeypatch, capsys)
    assert 1 <= len(selections) <= 2 and sources == f"{len(selections)} sources"


def test_the_tool_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool and the spec's tool print the same."""
    lines = run_example("tool.py", monkeypatch, capsys)
    assert lines[:3] == lines[3:] and lines[0].startswith('tool: {"department":')
    assert lines[2] == lines[0].replace("tool:", "The triage says:")


def test_the_postprocessor_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the two best nodes and how many pass the filter."""
    lines = run_example("postprocessor.py", monkeypatch, capsys)
    assert len(lines) == 3 and float(lines[0].split()[0]) >= float(lines[1].split()[0])
    assert lines[2].endswith("of 3 pass")
