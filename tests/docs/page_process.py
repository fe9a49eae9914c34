"""Run a page's code in a process of its own, forked from one that has loaded the heavy packages once."""

from __future__ import annotations

import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import network_guard
from tests.docs.markdown_blocks import run_file

PRELOADED = [
    "laya._forward.network",
    "laya.agent",
    "langchain.agents",
    "langgraph.graph",
    "llama_index.core",
    "onnx",
    "onnxruntime",
    "opentelemetry.sdk.trace",
    "py3langid",
    "transformers.models.modernbert.modeling_modernbert",
]
"""What most pages import; a package that isn't there is skipped, and the page that needs it says so."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(PRELOADED)


@dataclass(frozen=True)
class Outcome:
    """How a page's process ended."""

    exit_code: int | None
    """None where it had to be killed."""
    output: str
    """What it printed, its traceback included."""


def run_page(page: Path, folder: Path, seconds: float) -> Outcome:
    """Run a Markdown file's blocks with `folder` as the current directory."""
    log = folder / "output.txt"
    process = _processes.Process(target=_run, args=(page, folder, log))
    process.start()
    process.join(seconds)
    exit_code = process.exitcode
    if exit_code is None:
        process.kill()
        process.join()
    return Outcome(exit_code, log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")


def _run(page: Path, folder: Path, log: Path) -> None:
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    network_guard.install()
    run_file(page)
    if network_guard.ATTEMPTS:
        sys.exit("the page tried to reach the network: " + ", ".join(network_guard.ATTEMPTS))
