"""Peak memory of one batch of very many short states: `python benchmarks/batch_memory.py --checkpoint CHECKPOINT`.

The bound is what the process holds once the checkpoint is loaded and has answered, plus 600 MB, plus the results
themselves, whose size is estimated from a few. Linux only; minutes on a small checkpoint.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from load_memory import anonymous_mb, watched
from random_checkpoint import SIZES, write_checkpoint
from workloads import ONE_CHOICE, mixed_states

warnings.simplefilter("ignore")
EXTRA_MB = 600
_SAMPLE = 200


def main() -> int:
    """Print what was held before, at the peak and after; 1 where the peak is over the bound."""
    import laya

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny", help="of the random checkpoint")
    parser.add_argument("--checkpoint", help="take this one instead: a path or a name")
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--words", type=int, nargs=2, default=(4, 12), metavar=("SHORTEST", "LONGEST"))
    parser.add_argument("--checkpoints", type=Path, default=Path(tempfile.gettempdir()) / "laya-benchmarks")
    given = parser.parse_args()
    agent = laya.load(
        given.checkpoint or write_checkpoint(SIZES[given.size], given.checkpoints / given.size), device="cpu"
    )
    states = mixed_states(given.states, *given.words)
    agent.predict_batch(states[:64], ONE_CHOICE)
    loaded = anonymous_mb()
    started = time.perf_counter()
    peak, results = watched(lambda: agent.predict_batch(states, ONE_CHOICE), 0.02)
    seconds = time.perf_counter() - started
    seen: set[int] = set()
    kept = sum(_size(result, seen) for result in results[:_SAMPLE]) / min(_SAMPLE, len(results)) * len(results) / 1e6
    bound = loaded + EXTRA_MB + kept
    print(f"{given.states:,} states in {seconds:.0f} s, {given.states / seconds:.0f} a second")
    for name, value in (("loaded", loaded), ("results", kept), ("peak", peak), ("bound", bound)):
        print(f"{name:>10} {value:10,.0f} MB")
    return int(peak > bound)


def _size(value: Any, seen: set[int]) -> int:
    """Bytes of a result with all that it holds, without what was seen before."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    total = sys.getsizeof(value)
    if isinstance(value, dict):
        return total + sum(_size(key, seen) + _size(item, seen) for key, item in value.items())
    if isinstance(value, list | tuple):
        return total + sum(_size(item, seen) for item in value)
    return total


if __name__ == "__main__":
    sys.exit(main())
