"""What LangChain costs on top of laya, tracing off: one invoke over one predict, one batch of 64 over predict_batch.

python benchmarks/langchain_overhead.py [FOLDER_FOR_THE_CHECKPOINTS [ROUNDS]]

Both sides of a pair run one after the other, and the medians are of CPU time, so that a busy machine counts less.
The checkpoint has MiniLM's size and random weights; a second one, tiny, shows an invoke's overhead more sharply.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

# Threads of torch would make CPU time a count of cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import laya
from benchmarks.random_checkpoint import SIZES, write_checkpoint
from laya_integrations.langchain import LayaRunnable

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
}
STATES = [f"Message number {number}: my invoice is wrong and I would like my money back." for number in range(64)]

MOST_INVOKE_MS = 0.4
MOST_BATCH_RATIO = 1.15


def cpu_s(call: Callable[[], object]) -> float:
    before = time.thread_time()
    call()
    return time.thread_time() - before


def paired(first: Callable[[], object], second: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """The medians of both, and of their differences, in seconds; who goes first alternates."""
    first(), second()
    times = []
    for number in range(rounds):
        if number % 2:
            after, before = cpu_s(second), cpu_s(first)
        else:
            before, after = cpu_s(first), cpu_s(second)
        times.append((before, after, after - before))
    return tuple(statistics.median(column) for column in zip(*times, strict=True))


def load(size: str, folder: Path) -> laya.Agent:
    checkpoint = write_checkpoint(SIZES[size], folder / size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return laya.load(str(checkpoint), device="cpu")


def main(folder: Path, rounds: int) -> None:
    tiny, mini = load("tiny", folder), load("mini", folder)
    one = LayaRunnable(tiny, questions=QUESTIONS)
    bare, _, more = paired(lambda: tiny.predict(STATES[0], QUESTIONS), lambda: one.invoke(STATES[0]), 50 * rounds)
    print(f"invoke over predict: {more * 1e3:.3f} ms more than {bare * 1e3:.2f} ms (at most {MOST_INVOKE_MS} ms)")
    many = LayaRunnable(mini, questions=QUESTIONS)
    bare, chained, _ = paired(lambda: mini.predict_batch(STATES, QUESTIONS), lambda: many.batch(STATES), rounds)
    print(f"batch of 64: {chained / bare:.3f} times predict_batch's {bare * 1e3:.0f} ms (at most {MOST_BATCH_RATIO})")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary), int(sys.argv[2]) if len(sys.argv) > 2 else 7)
