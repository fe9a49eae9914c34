"""The example of a local Phoenix: what its API says of the agent, the query and the plain call."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "tracing" / "phoenix.py"

Spans = list[dict[str, Any]]


def phoenix_is_here() -> bool:
    """Whether Phoenix is installed beside the tests, or LAYA_PHOENIX names its program."""
    if os.environ.get("LAYA_PHOENIX"):
        return True
    try:
        importlib.metadata.version("arize-phoenix")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def spans(checkpoints: Path) -> Iterator[Spans]:
    """Everything that Phoenix stored, read while the program keeps it running."""
    pytest.importorskip("openinference.instrumentation.langchain")
    port = free_port()
    # The program runs in the checkpoints' folder, so that the model's name is short.
    named = {"LAYA_PHOENIX": os.path.abspath(os.environ["LAYA_PHOENIX"])} if os.environ.get("LAYA_PHOENIX") else {}
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), "english", "--port", str(port), "--keep"],
        cwd=checkpoints,
        env={**os.environ, **named, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert program.stdout is not None
    try:
        printed = ""
        for line in program.stdout:
            printed += line
            if "Ctrl-C" in line:
                break
        else:
            pytest.fail(printed)
        with urlopen(f"http://127.0.0.1:{port}/v1/projects/laya/spans?limit=1000", timeout=30) as response:
            yield json.load(response)["data"]
    finally:
        program.terminate()
        program.communicate(timeout=30)
    assert program.returncode == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "Phoenix outlived the program"


def path_of(span: dict[str, Any], spans: Spans) -> list[str]:
    """The names from the trace's root down to a span."""
    by_id = {found["context"]["span_id"]: found for found in spans}
    above = by_id.get(span["parent_id"])
    return [*(path_of(above, spans) if above else []), span["name"]]


needs_phoenix = pytest.mark.skipif(not phoenix_is_here(), reason="arize-phoenix isn't installed, nor LAYA_PHOENIX set")


@needs_phoenix
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_phoenix_has_every_decision_where_it_was_made(spans: Spans) -> None:
    """Five calls of laya, each once, under the tool, the selector, the engine and the request that made it."""
    decided = [span for span in spans if "laya.run_id" in span["attributes"]]
    # The frameworks put steps of their own between; what counts is the caller and the call.
    ends = {(path[0], path[-2], path[-1]) for path in (path_of(span, spans) for span in decided)}
    assert ends == {
        ("support-agent", "triage", "LayaRunnable"),
        ("support-agent", "is_complaint", "laya.predict"),
        ("RouterQueryEngine.query", "LayaSingleSelector._select", "LayaAgent.predict"),
        ("RouterQueryEngine.query", "Desk.custom_query", "LayaAgent.predict"),
        ("POST /tickets", "POST /tickets", "decide english"),
    }
    assert len({span["attributes"]["laya.run_id"] for span in decided}) == len(decided) == 5


@needs_phoenix
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_phoenix_counts_the_tokens_of_every_decision_once(spans: Spans) -> None:
    """Tokens are on the decisions and nowhere else, so that no sum has them twice."""
    counted = [span for span in spans if span["attributes"].get("llm.token_count.prompt")]
    assert [span for span in counted if "laya.run_id" not in span["attributes"]] == []
    assert len(counted) == 5
    assert {span["attributes"]["llm.token_count.completion"] for span in counted} == {0}


def test_the_program_says_what_is_missing(tmp_path: Path) -> None:
    """Without Phoenix it ends at once with the next step, before a checkpoint is loaded."""
    pytest.importorskip("openinference.instrumentation.langchain")
    if (Path(sys.executable).with_name("phoenix")).exists():
        pytest.skip("Phoenix is installed beside this interpreter")
    kept = {name: value for name, value in os.environ.items() if name != "LAYA_PHOENIX"}
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "no checkpoint")],
        env={**kept, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 1
    assert "Arize Phoenix isn't installed here" in ended.stderr and "LAYA_PHOENIX" in ended.stderr
