"""Concurrent callers with and without a window for shared passes, in one run.

    python benchmarks/concurrency.py                        # random weights, of the size of the small checkpoint
    python benchmarks/concurrency.py --checkpoint tests/data/checkpoints/english

Each caller asks one question about a state of its own, again and again. The two agents are timed in turn, A B A B.
A caller's latency is to stay under 1.3 times one pass over all callers' states, plus the window, in 99 of 100 calls:
p99 is compared with a pass that is timed right after the round. A caller's first call, which starts threads, counts for
the throughput only.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from random_checkpoint import SIZES, write_checkpoint
from workloads import ONE_CHOICE, mixed_states

warnings.simplefilter("ignore")
LATENCY_FACTOR = 1.3

Run = Callable[[Any, list[str], int], list[list[float]]]
"""agent, a state for each caller, calls of each -> for each caller the latency of its calls in seconds"""


def threads(agent: Any, states: list[str], calls: int) -> list[list[float]]:
    """A thread for each caller."""
    together = Barrier(len(states))

    def caller(state: str) -> list[float]:
        together.wait()
        return [_timed(agent, state) for _ in range(calls)]

    with ThreadPoolExecutor(len(states)) as pool:
        return list(pool.map(caller, states))


def tasks(agent: Any, states: list[str], calls: int) -> list[list[float]]:
    """A task for each caller, all on one event loop."""

    async def caller(state: str) -> list[float]:
        latencies = []
        for _ in range(calls):
            started = time.perf_counter()
            await agent.apredict(state, ONE_CHOICE)
            latencies.append(time.perf_counter() - started)
        return latencies

    async def all_callers() -> list[list[float]]:
        return await asyncio.gather(*(caller(state) for state in states))

    return asyncio.run(all_callers())


def main() -> None:
    """Time both kinds of callers and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="mini", help="of the random checkpoint")
    parser.add_argument("--checkpoint", type=Path, help="take this one instead")
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--calls", type=int, default=8, help="of each caller in a round")
    parser.add_argument("--window-ms", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds, after one that warms both up")
    parser.add_argument("--words", type=int, nargs=2, default=(4, 60), metavar=("SHORTEST", "LONGEST"))
    parser.add_argument("--checkpoints", type=Path, default=Path(tempfile.gettempdir()) / "laya-benchmarks")
    given = parser.parse_args()
    import laya

    folder = given.checkpoint or write_checkpoint(SIZES[given.size], given.checkpoints / given.size)
    alone = laya.load(folder, device="cpu")
    shared = laya.load(folder, device="cpu", batch_window_ms=given.window_ms)
    states = mixed_states(given.callers, *given.words)
    print(
        f"{given.checkpoint or given.size}: {given.callers} callers, one question each, window {given.window_ms:g} ms"
    )
    print()
    print(
        "| callers | alone, calls/s | shared, calls/s | ratio, median (min to max) | p99 alone, ms | p99 shared, ms "
        "| p99 over its bound, median (min to max) |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, run in (("threads", threads), ("tasks", tasks)):
        print(_row(name, run, alone, shared, states, given), flush=True)


def _row(name: str, run: Run, alone: Any, shared: Any, states: list[str], given: argparse.Namespace) -> str:
    rates: dict[str, list[float]] = {"alone": [], "shared": []}
    p99: dict[str, list[float]] = {"alone": [], "shared": []}
    over_bound: list[float] = []
    for index in range(given.rounds + 1):
        for which, agent in (("alone", alone), ("shared", shared)):
            started = time.perf_counter()
            latencies = run(agent, states, given.calls)
            if index:
                rates[which].append(sum(map(len, latencies)) / (time.perf_counter() - started))
                warm = [latency for own in latencies for latency in own[1:]]
                p99[which].append(statistics.quantiles(warm, n=100, method="inclusive")[98])
        started = time.perf_counter()
        alone.predict_batch(states, ONE_CHOICE)
        bound = LATENCY_FACTOR * (time.perf_counter() - started) + given.window_ms / 1000
        if index:
            over_bound.append(p99["shared"][-1] / bound)
    ratios = [b / a for a, b in zip(rates["alone"], rates["shared"], strict=True)]
    medians = [f"{statistics.median(rates[which]):.0f}" for which in rates]
    slowest = [f"{statistics.median(p99[which]) * 1000:.0f}" for which in p99]
    return f"| {' | '.join([name, *medians, _spread(ratios), *slowest, _spread(over_bound)])} |"


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _timed(agent: Any, state: str) -> float:
    started = time.perf_counter()
    agent.predict(state, ONE_CHOICE)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
