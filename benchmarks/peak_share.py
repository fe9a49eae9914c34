"""The share of this machine's F32 matrix peak that a large batch reaches.

    python benchmarks/peak_share.py --size mini

The peak is the fastest of several large products, measured before and after. The batch's work is that of its matrix
products over real tokens: the linear layers', and of attention's two the pairs of tokens that see each other. Padding,
masked pairs and everything else count nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import torch
from random_checkpoint import GLOBAL_EVERY, LOCAL_REACH, SIZES, Size, write_checkpoint
from workloads import ONE_CHOICE, mixed_states

warnings.simplefilter("ignore")


def products_per_token(size: Size) -> int:
    """Multiplications of one token's matrix products, read positions of the last head layer not counted."""
    encoder = size.layers * (4 * size.width**2 + 3 * size.width * size.intermediate)
    whole_head_layers = max(0, size.head_layers - 1) * 12 * size.width**2
    last_head_layer = 2 * size.width**2 if size.head_layers else 0
    return encoder + whole_head_layers + last_head_layer


def attention_products(size: Size, length: int) -> int:
    """Multiplications of attention over one row, again without the last head layer."""
    near = sum(min(length, i + LOCAL_REACH + 1) - max(0, i - LOCAL_REACH) for i in range(length))
    whole = -(-size.layers // GLOBAL_EVERY)
    pairs = whole * length**2 + (size.layers - whole) * near + max(0, size.head_layers - 1) * length**2
    return 2 * size.width * pairs


def peak_flops(size: Size) -> float:
    """Operations a second of the fastest of some products of the network's own shapes, and of square ones."""
    best = 0.0
    for rows, inner, outer in ((2048, 2048, 2048), (2048, size.width, 3 * size.width), (1024, size.width, size.width)):
        a, b = torch.randn(rows, inner), torch.randn(inner, outer)
        for _ in range(8):
            started = time.perf_counter()
            torch.mm(a, b)
            best = max(best, 2 * rows * inner * outer / (time.perf_counter() - started))
    return best


def main() -> None:
    """Print the peak, the rate reached and their ratio."""
    import laya

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="mini")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    size = SIZES[given.size]
    agent = laya.load(
        write_checkpoint(size, Path(tempfile.gettempdir()) / "laya-benchmarks" / given.size), device="cpu"
    )
    states = mixed_states(64)
    agent.predict_batch(states[:4], ONE_CHOICE)
    peaks, rates = [peak_flops(size)], []
    for _ in range(given.rounds):
        started = time.perf_counter()
        results = agent.predict_batch(states, ONE_CHOICE)
        seconds = time.perf_counter() - started
        # One question a state, so a result's tokens are one row.
        lengths = [result["usage"]["input_tokens"] for result in results]
        products = sum(products_per_token(size) * length + attention_products(size, length) for length in lengths)
        rates.append(2 * products / seconds)
        peaks.append(peak_flops(size))
    rate, peak = statistics.median(rates), statistics.median(peaks)
    print(f"{given.size}: {rate / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s, {rate / peak:.0%}")


if __name__ == "__main__":
    main()
