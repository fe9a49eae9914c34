"""The examples and the demo run, offline, and print what they promise."""

from __future__ import annotations

import runpy
import sys
from functools import partial
from pathlib import Path

import pytest

from laya_integrations import demo
from tests.integration.conftest import CHECKPOINTS, EXAMPLE_ARGUMENTS, load_quietly

EXAMPLES = Path(__file__).parents[3] / "examples" / "langchain"
ENGLISH = str(CHECKPOINTS / "english")


def run_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an example as a script."""
    monkeypatch.setattr(sys, "argv", [name, *EXAMPLE_ARGUMENTS])
    load_quietly(partial(runpy.run_path, str(EXAMPLES / name), run_name="__main__"))


def test_the_runnable_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints an object, a dict, a bare answer, two gated messages and the tokens."""
    pytest.importorskip("laya.questions")
    run_example("runnable.py", monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("department=") and lines[2] in ("billing", "technical")
    assert "'total_tokens'" in lines[5]


def test_the_tool_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent's last message repeats what the tool found."""
    run_example("tool_agent.py", monkeypatch)
    printed = capsys.readouterr().out
    assert 'The triage says: {"department":' in printed and "'input_tokens'" in printed


def test_the_decision_model_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints one response, three of a batch, the tokens, and what the agent did."""
    run_example("decision_model.py", monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and len(lines[0].split()[-1]) == 32
    assert all(line.split()[0] in ("billing", "technical") for line in lines[1:4])
    label, _, said = lines[5].partition(" -> ")
    assert label in ("fast", "strong") and said.startswith(f"{label}: ")


def test_the_router_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what each branch read, an outcome, and where the graph went."""
    run_example("router.py", monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(" reads: " in line for line in lines[:4])
    assert lines[3].split()[0] in ("billing", "technical", "person")
    assert lines[4].endswith(" will answer")


def test_the_guardrail_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints two verdicts, what stopped the chain, the refusal, and what became of the messages."""
    run_example("guardrail.py", monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and all(line.split(":")[0] in ("flagged", "passes") for line in lines[:2])
    assert lines[2].startswith("stopped for ") and len(lines[2].split()[-1]) == 32
    assert lines[3] == "I can't help with that." and lines[4].startswith("['You help customers.', ")
    assert lines[5].startswith("{'category': ")


def test_the_tool_sets_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Both tools have one argument, and answer in one turn."""
    run_example("tools.py", monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["triage(state)", "moderation(state)"]
    assert lines[4].startswith('tool: {"topic":') and lines[5].startswith('tool: {"category":')


def test_the_guardrail_middleware_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person is asked about the payment, and it is made."""
    run_example("guardrail_middleware.py", monkeypatch)
    asked, answered = capsys.readouterr().out.splitlines()
    assert asked.startswith("pay {'amount': 40}: Flagged by a guardrail: risky (")
    assert answered == "Result: paid 40"


def test_the_tool_selector_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The model sees two tools and the one that always stays."""
    run_example("tool_selector.py", monkeypatch)
    shown = capsys.readouterr().out.strip().removeprefix("I see ").removesuffix(".").split(", ")
    assert len(shown) == 3 and shown[-1] == "handover"


def test_the_hook_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The bare call lies under its step, and the runnable's call has one run."""
    run_example("hook.py", monkeypatch)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split(" (")[0] for line in lines[:5]] == [
        *("RunnableSequence", "  triage", "    laya.predict", "  RunnableLambda", "  LayaRunnable")
    ]
    tokens = [int(line.split()[-2]) for line in lines[:5] if line.endswith("tokens")]
    assert len(tokens) == 2 and f"'input_tokens': {sum(tokens)}" in lines[5]


def test_the_config_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The hook knows the tenant in each of the four calls."""
    run_example("config_in_hook.py", monkeypatch)
    line = "acme asks about {}, tags ['prod'], budget 128"
    assert capsys.readouterr().out.splitlines() == [line.format(count) for count in (1, 1, 1, 2)]


def test_the_evaluator_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints one row's feedback, each row's scores, and their means."""
    run_example("evaluator.py", monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    keys = ["faithful", "verdict", "politeness"]
    assert [line.split()[0] for line in (*lines[:3], *lines[5:])] == keys * 2
    assert all(line.startswith("{'faithful': 0.") for line in lines[3:5]) and len(lines) == 8


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_waits_for_its_traces(path: Path) -> None:
    """A script that ends at once would lose its last traces."""
    assert path.read_text().rstrip().endswith("wait_for_all_tracers()")


def test_the_demo_prints_answers_and_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """Every message has a row, each laya call its run id and tokens, and all fits a terminal."""
    assert demo.main([ENGLISH]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100 + len(ENGLISH)
    rows = [line.split() for line in lines if "LayaRunnable" in line and " llm " in line]
    assert len(rows) == len(demo.MESSAGES) + len(demo.MANY_LANGUAGES) + 1
    assert all(len(row[-1]) == 32 and int(row[row.index("llm") + 1]) > 0 for row in rows)
    assert [row[-2] for row in rows if not row[-2].isdigit()] == ["english", "multilingual", "multilingual"]
    assert sum(line.lstrip().startswith("RunnableSequence") for line in lines) == len(demo.MESSAGES)
    assert any(line.startswith("  tool:  {") for line in lines)


@pytest.mark.parametrize("model", ["/no/such/checkpoint", str(EXAMPLES)])
def test_the_demo_names_a_bad_model_in_one_line(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on standard output."""
    assert demo.main([model]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith(f"error: can't load {model}: ")
