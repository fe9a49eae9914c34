"""Compare this runtime with another `laya`, on the same checkpoints in one run.

    python benchmarks/run.py --other /path/to/venv/bin/python
    python benchmarks/run.py --other ... --size base --json base.json; python benchmarks/plot.py base.json

The two are timed in turn, A B A B, so that a drifting machine slows both; ratios are the other's time over ours, so
more is better. Without --other only our own times are shown. `fast=True` and ONNX Runtime are compared with the
other's default as well. Writes a Markdown table to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from random_checkpoint import SIZES, write_checkpoint

HERE = Path(__file__).resolve().parent
TOLERANCE = 2e-4


@dataclass(frozen=True)
class Variant:
    """Another way of ours to run a checkpoint, and how far its probabilities may lie from F32's."""

    load: dict[str, Any]
    tolerance: float


VARIANTS = {
    "fast=True": Variant({"options": {"fast": True}}, 0.02),
    "ONNX": Variant({"onnx": "plain"}, 1e-3),
    "ONNX int8": Variant({"onnx": "int8"}, 0.03),
}
VARIANT_CASES = ("one predict, four questions", "one predict, one question", "batch of 64")


class Worker:
    """A process that imports one `laya` and times calls."""

    def __init__(self, python: str, own: bool, device: str) -> None:
        self._device = device
        path = [str(HERE.parent)] if own else []
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=HERE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1"},
        )

    def do(self, **command: Any) -> dict[str, Any]:
        """Run one command and return its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps({"device": self._device, **command}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended with code {self._process.wait()} during {command['do']!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one predict, four questions": ("predict", {"questions": "FOUR_QUESTIONS", "words": 40}),
    "one predict, one question": ("predict", {"questions": "ONE_CHOICE", "words": 40}),
    "one predict, ten questions": ("predict", {"questions": "TEN_QUESTIONS", "words": 40}),
    "batch of 8": ("batch", {"questions": "ONE_CHOICE", "count": 8}),
    "batch of 64": ("batch", {"questions": "ONE_CHOICE", "count": 64}),
    "batch of 128": ("batch", {"questions": "ONE_CHOICE", "count": 128}),
    "batch of 512": ("batch", {"questions": "ONE_CHOICE", "count": 512}),
    "64 states one by one": ("loop", {"questions": "ONE_CHOICE", "count": 64}),
    "document of 3,000 words": ("long", {"questions": "ONE_CHOICE"}),
    "32 callers at once": ("callers", {"questions": "ONE_CHOICE", "count": 32}),
    "router, 200 requests to two checkpoints in turn": ("router", {"questions": "ONE_CHOICE", "count": 200}),
}


def main() -> None:
    """Run the chosen cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", help="a Python interpreter whose `laya` is compared with ours")
    parser.add_argument("--size", choices=SIZES, default="mini", help="of the random checkpoint; base takes long")
    parser.add_argument("--only", default="", help="run the cases whose name holds this")
    parser.add_argument("--checkpoint", type=Path, help="time this one instead")
    parser.add_argument("--device", default="cpu", help="that PyTorch computes on, such as cuda; ONNX has its own")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds, after one that warms both up")
    parser.add_argument("--cold", action="store_true", help="count the first round as well")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="ways of ours to run it, with commas between")
    parser.add_argument("--json", type=Path, help="also write what was measured to this file, for plot.py")
    parser.add_argument("--checkpoints", type=Path, default=Path(tempfile.gettempdir()) / "laya-benchmarks")
    given = parser.parse_args()
    size = SIZES[given.size]
    folder = given.checkpoint or write_checkpoint(size, given.checkpoints / given.size)
    second = given.checkpoint or write_checkpoint(size, given.checkpoints / f"{given.size}-second", seed=1)
    variants = [name for name in given.variants.split(",") if name]
    if unknown := set(variants) - VARIANTS.keys():
        parser.error(f"--variants takes {', '.join(VARIANTS)}, not {', '.join(sorted(unknown))}")
    table = Table(given.rounds, given.cold)
    models = {"english": str(folder), "multilingual": str(second)}
    with ExitStack() as stack:
        ours = stack.enter_context(Worker(sys.executable, own=True, device=given.device))
        other = stack.enter_context(Worker(given.other, own=False, device=given.device)) if given.other else None
        print(f"{folder if given.checkpoint else f'{given.size}: {size}'}\n")
        print("| case | ours, median s | other, median s | ratio, median (min to max) | answers |")
        print("|---|---|---|---|---|")
        loads = [worker.do(do="load", path=str(folder)) for worker in filter(None, (ours, other))]
        print(_line("load, the first of a process", [load["seconds"] for load in loads], "s"))
        for case in filter(lambda case: given.only in case, CASES):
            table.compare(case, case, ours, other, models, TOLERANCE)
        peaks = [worker.do(do="memory")["megabytes"] for worker in filter(None, (ours, other))]
        print(_line("peak memory, MB", peaks, ""))
        for name in variants:
            with Worker(sys.executable, own=True, device=given.device) as variant:
                variant.do(do="load", path=str(folder), **VARIANTS[name].load)
                for case in filter(lambda case: given.only in case, VARIANT_CASES):
                    table.compare(f"{case}, {name}", case, variant, other, models, VARIANTS[name].tolerance)
    if given.json:
        given.json.write_text(json.dumps({"checkpoint": folder.name, "rows": table.rows}, indent=1), encoding="utf-8")


class Table:
    """Runs cases and prints a row for each; keeps what was measured."""

    def __init__(self, rounds: int, cold: bool) -> None:
        self._rounds, self._cold = rounds, cold
        self.rows: list[dict[str, Any]] = []

    def compare(
        self,
        title: str,
        case: str,
        ours: Worker,
        other: Worker | None,
        models: dict[str, str],
        tolerance: float,
    ) -> None:
        """Time one case with both in turn."""
        name, arguments = CASES[case]
        command = {"do": name, "models": models, **arguments}
        pairs = list(_rounds(ours, other, command, self._rounds + (not self._cold)))[not self._cold :]
        print(_row(title, pairs, tolerance), flush=True)
        row = {"case": title, "ours": [own["seconds"] for own, _ in pairs]}
        self.rows.append(row | {"other": [both["seconds"] for _, both in pairs if both is not None]})


def _line(case: str, values: list[float], unit: str) -> str:
    """A row of what is measured once."""
    shown = [f"{value:.4g}{unit and ' ' + unit}" for value in values] + [""] * (2 - len(values))
    ratio = f"{values[1] / values[0]:.2f}" if len(values) > 1 else ""
    return f"| {case} | {shown[0]} | {shown[1]} | {ratio} | |"


def _rounds(
    ours: Worker, other: Worker | None, command: dict[str, Any], rounds: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    for _ in range(rounds):
        yield ours.do(**command), other.do(**command) if other else None


def _row(case: str, pairs: list[tuple[dict[str, Any], dict[str, Any] | None]], tolerance: float) -> str:
    own = statistics.median(ours["seconds"] for ours, _ in pairs)
    compared = [(ours, other) for ours, other in pairs if other is not None]
    if not compared:
        return f"| {case} | {own:.4f} | | | |"
    theirs = statistics.median(other["seconds"] for _, other in compared)
    ratios = [other["seconds"] / ours["seconds"] for ours, other in compared]
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    worst = max(_difference(ours["answers"], other["answers"]) for ours, other in compared)
    agree = f"within {worst:.4f}" + ("" if worst <= tolerance else ", DIFFERENT")
    return f"| {case} | {own:.4f} | {theirs:.4f} | {spread} | {agree} |"


def _difference(a: Any, b: Any) -> float:
    """The largest difference between two answers' numbers; infinite where anything else differs."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return max((_difference(a[key], b[key]) for key in a), default=0.0)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return max((_difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b)
    return 0.0 if a == b else float("inf")


if __name__ == "__main__":
    main()
