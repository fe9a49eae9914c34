"""Peak private memory of loading a checkpoint of ModernBERT-large's size: `python benchmarks/load_memory.py`.

Writes random F16 weights into a temporary folder (0.85 GB), loads them in a process of their own and compares its
peak anonymous memory with the bound: 1.2 times the F32 weights plus 400 MB. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from random_checkpoint import SIZES, parameter_count, write_checkpoint

FACTOR, EXTRA_MB = 1.2, 400
Result = TypeVar("Result")


def measure(root: Path) -> Iterator[tuple[str, float]]:
    """Load the checkpoint here; yield MB of anonymous memory: after the imports, at the peak, and when loaded."""
    import laya

    laya.Agent  # noqa: B018 - imports torch
    import transformers.models.modernbert.modeling_modernbert  # noqa: F401

    yield "imports", anonymous_mb()
    peak, agent = watched(lambda: laya.load(root, device="cpu"), 0.002)
    loaded = anonymous_mb()
    yield "peak", max(peak, loaded)
    yield "loaded", loaded
    agent.predict("hello", {"q": {"type": "noul", "instructions": "Is it a greeting?"}})


def watched(work: Callable[[], Result], pause: float) -> tuple[float, Result]:
    """The most anonymous memory in MB while the work ran, looked at every `pause` seconds, and its result."""
    peak, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(pause):
            peak = max(peak, anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = work()
    finally:
        done.set()
        watcher.join()
    return max(peak, anonymous_mb()), result


def anonymous_mb() -> float:
    """This process's anonymous memory; mapped files are not counted, the kernel drops them at need."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    raise OSError("/proc/self/status has no RssAnon; this benchmark needs Linux")


def run(folder: Path) -> dict[str, float]:
    """Write the checkpoint and load it in another process; return the numbers in MB."""
    size = SIZES["large"]
    write_checkpoint(size, folder / "large")
    parameters = parameter_count(size)
    command = [sys.executable, __file__, "--measure", str(folder / "large")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    weights = parameters * 4 / 1e6
    return {"parameters": parameters, "weights": weights, "bound": FACTOR * weights + EXTRA_MB, **numbers}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, metavar="CHECKPOINT", help="load this one here and print the numbers")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(dict(measure(arguments.measure))))
        return 0
    with tempfile.TemporaryDirectory(prefix="laya-load-memory-") as folder:
        numbers = run(Path(folder))
    for name, value in numbers.items():
        print(f"{name:>10} {value:14,.0f}" + ("" if name == "parameters" else " MB"))
    return int(numbers["peak"] > numbers["bound"])


if __name__ == "__main__":
    sys.exit(main())
