"""Each program in examples/hooks runs alone, offline, and prints what it promises."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "hooks"

PRINTED = {
    "async_ship.py": ["all are answered", "sent ", "'input_tokens'", "dropped: 0"],
    "audit.py": ['"error": null', '"error": "QuestionError"', "and the caller still gets:"],
    "cache.py": ["hits after the same batch: 2 - same answers: True", "one state of it: 3", "another budget: 3"],
    "confidence_gate.py": ["abstained", "to a person: state 0 of run"],
    "nested.py": ["'kind': ", "was made by run", "which gave the results: True"],
    "otel.py": ["decide, child of", "laya.run_id = ", "POST /tickets", "metric laya.decisions"],
    "pin_route.py": ["unpinned  multilingual", "A17       english       Conversation A17 began on it."],
    "propagate.py": ["decider: run=", "ledger:  run=", "failed=False"],
    "redact.py": ["card [card], please", "'from': '[email]'", "[phone]", "untouched: True"],
    "tenant.py": ["acme: answered 2", "globex: answered 1", "acme: refused, tenant acme has used its 3 states"],
}


def run_example(name: str, *arguments: str) -> None:
    """Run a program as a script; the small checkpoint has a temperature that loading replaces with a warning."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        patch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_every_program_is_listed() -> None:
    """A new one is run, too."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_a_program_runs(name: str, checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what its first line says that it shows."""
    if name == "otel.py":
        pytest.importorskip("opentelemetry.sdk")
    run_example(name, str(checkpoints / "english"))
    printed = capsys.readouterr().out
    assert [text for text in PRINTED[name] if text not in printed] == []


def test_ids_match_on_both_sides(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The service that acts logs the run of the one that decides."""
    run_example("propagate.py", str(checkpoints / "english"))
    runs = [line.split("run=")[1][:8] for line in capsys.readouterr().out.splitlines()]
    assert runs[0] == runs[1] != runs[2] == runs[3]


def test_the_checkpoint_can_come_from_the_environment(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An argument goes before it."""
    monkeypatch.setenv("LAYA_MODEL", str(checkpoints / "multilingual"))
    run_example("audit.py")
    assert f'"model": "{checkpoints / "multilingual"}"' in capsys.readouterr().out
    run_example("audit.py", str(checkpoints / "english"))
    assert f'"model": "{checkpoints / "english"}"' in capsys.readouterr().out
