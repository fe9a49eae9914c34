"""Peak private memory of loading a checkpoint of ModernBERT-large's size: `python benchmarks/load_memory.py`.

Writes random F16 weights into a temporary folder (0.85 GB), loads them in a process of their own and compares its
peak anonymous memory with the bound: 1.2 times the F32 weights plus 400 MB. Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ENCODER = {
    "model_type": "modernbert",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "intermediate_size": 2624,
    "num_attention_heads": 16,
    "vocab_size": 50368,
    "max_position_embeddings": 8192,
    "global_attn_every_n_layers": 3,
    "local_attention": 128,
    "pad_token_id": 3,
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "rope_parameters": {
        "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}
AGENT = {"head_layers": 2, "max_len": 512, "head_max_len": 192, "act_costs": {"escalate": 0.5}, "amp_dtype": "bf16"}
TOKENIZER = Path(__file__).parents[1] / "tests" / "data" / "checkpoints" / "english" / "tokenizer"
FACTOR, EXTRA_MB = 1.2, 400
_CHUNK = 1 << 22


def write_checkpoint(root: Path) -> int:
    """Write a checkpoint of random weights, chunk by chunk; return its number of parameters."""
    (root / "encoder").mkdir(parents=True)
    (root / "encoder" / "config.json").write_text(json.dumps(ENCODER))
    (root / "rl_agent_config.json").write_text(json.dumps(AGENT))
    shutil.copytree(TOKENIZER, root / "tokenizer")
    shapes = tensor_shapes(root)
    header: dict[str, object] = {"temperature": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}
    end = 12
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [start, end]}
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    random = np.random.default_rng(0)
    block = (random.standard_normal(_CHUNK, dtype=np.float32) * 0.02).astype(np.float16).tobytes()
    with (root / "model.safetensors").open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        file.write(np.ones(3, np.float32).tobytes())
        left = end - 12
        while left:
            left -= file.write(block[: min(left, len(block))])
    return sum(map(math.prod, shapes.values()))


def tensor_shapes(root: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the network's parameters; takes no memory for them."""
    from laya._checkpoints.config import load_config
    from laya._forward.load import build_network

    network = build_network(ENCODER, load_config(root / "rl_agent_config.json"), root / "encoder" / "config.json")
    return {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}


def measure(root: Path) -> Iterator[tuple[str, float]]:
    """Load the checkpoint here; yield MB of anonymous memory: after the imports, at the peak, and when loaded."""
    import laya

    laya.Agent  # noqa: B018 - imports torch
    import transformers.models.modernbert.modeling_modernbert  # noqa: F401

    yield "imports", anonymous_mb()
    peak, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        agent = laya.load(root, device="cpu")
    finally:
        done.set()
        watcher.join()
    loaded = anonymous_mb()
    yield "peak", max(peak, loaded)
    yield "loaded", loaded
    agent.predict("hello", {"q": {"type": "noul", "instructions": "Is it a greeting?"}})


def anonymous_mb() -> float:
    """This process's anonymous memory; mapped files are not counted, the kernel drops them at need."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    raise OSError("/proc/self/status has no RssAnon; this benchmark needs Linux")


def run(folder: Path) -> dict[str, float]:
    """Write the checkpoint and load it in another process; return the numbers in MB."""
    parameters = write_checkpoint(folder / "large")
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
