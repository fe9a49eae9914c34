"""Write checkpoints of any size with random weights, in the published layout, a tensor at a time.

python benchmarks/random_checkpoint.py base /tmp/base
"""

from __future__ import annotations

import json
import math
import shutil
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TOKENIZER = Path(__file__).resolve().parents[1] / "tests" / "data" / "checkpoints" / "english" / "tokenizer"
GLOBAL_EVERY, LOCAL_REACH = 3, 64
"""One encoder layer in so many looks at the whole row, the others at the tokens at most so far away."""
ACTION_WIDTH, ACTION_FEATURES, ACTIONS = 256, 4, 2


@dataclass(frozen=True)
class Size:
    """Numbers of a ModernBERT encoder and its head."""

    width: int
    layers: int
    intermediate: int
    heads: int
    vocabulary: int
    head_layers: int = 2
    max_len: int = 512
    head_max_len: int = 192


SIZES = {
    "tiny": Size(128, 4, 160, 2, 900),
    "mini": Size(384, 12, 576, 6, 30522),
    "base": Size(768, 22, 1152, 12, 50368, max_len=1024, head_max_len=256),
    "large": Size(1024, 28, 2624, 16, 50368),
}


def write_checkpoint(size: Size, folder: Path, seed: int = 0) -> Path:
    """Write a checkpoint; one that is there already is kept."""
    if (folder / "rl_agent_config.json").exists():
        return folder
    (folder / "encoder").mkdir(parents=True, exist_ok=True)
    shutil.copytree(TOKENIZER, folder / "tokenizer", dirs_exist_ok=True)
    (folder / "encoder" / "config.json").write_text(json.dumps(_encoder_config(size), indent=1))
    _write_weights(size, folder / "model.safetensors", np.random.default_rng(seed))
    settings = {
        "encoder": "random",
        "head_layers": size.head_layers,
        "max_len": size.max_len,
        "head_max_len": size.head_max_len,
        "temperature": [1.0, 1.0, 1.0],
        "temperature_by_options": {},
        "act_costs": {"escalate": 0.5},
        "amp_dtype": "bf16",
    }
    (folder / "rl_agent_config.json").write_text(json.dumps(settings, indent=1))
    return folder


def parameter_count(size: Size) -> int:
    """Weights of a checkpoint of this size, the carried temperatures not counted."""
    return sum(math.prod(shape) for _, shape in _shapes(size))


def _encoder_config(size: Size) -> dict[str, object]:
    kinds = ["full_attention" if layer % 3 == 0 else "sliding_attention" for layer in range(size.layers)]
    return {
        "model_type": "modernbert",
        "hidden_size": size.width,
        "intermediate_size": size.intermediate,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "vocab_size": size.vocabulary,
        "pad_token_id": 3,
        "bos_token_id": None,
        "eos_token_id": None,
        "cls_token_id": None,
        "sep_token_id": None,
        "max_position_embeddings": 8192,
        "global_attn_every_n_layers": GLOBAL_EVERY,
        "local_attention": 2 * LOCAL_REACH,
        "layer_types": kinds,
        "rope_parameters": {
            "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
    }


def _shapes(size: Size) -> Iterator[tuple[str, tuple[int, ...]]]:
    d, wide = size.width, size.intermediate
    yield "encoder.embeddings.tok_embeddings.weight", (size.vocabulary, d)
    yield "encoder.embeddings.norm.weight", (d,)
    for i in range(size.layers):
        at = f"encoder.layers.{i}."
        if i:
            yield at + "attn_norm.weight", (d,)
        yield at + "attn.Wqkv.weight", (3 * d, d)
        yield at + "attn.Wo.weight", (d, d)
        yield at + "mlp_norm.weight", (d,)
        yield at + "mlp.Wi.weight", (2 * wide, d)
        yield at + "mlp.Wo.weight", (d, wide)
    yield "encoder.final_norm.weight", (d,)
    for i in range(size.head_layers):
        at = f"head.layers.{i}."
        yield at + "self_attn.in_proj_weight", (3 * d, d)
        yield at + "self_attn.in_proj_bias", (3 * d,)
        yield at + "self_attn.out_proj.weight", (d, d)
        yield at + "self_attn.out_proj.bias", (d,)
        yield at + "linear1.weight", (4 * d, d)
        yield at + "linear1.bias", (4 * d,)
        yield at + "linear2.weight", (d, 4 * d)
        yield at + "linear2.bias", (d,)
        for norm in ("norm1", "norm2"):
            yield at + norm + ".weight", (d,)
            yield at + norm + ".bias", (d,)
    yield "type_emb.weight", (3, d)
    yield "scorer.0.weight", (d,)
    yield "scorer.0.bias", (d,)
    yield "scorer.1.weight", (d, d)
    yield "scorer.1.bias", (d,)
    yield "scorer.3.weight", (1, d)
    yield "scorer.3.bias", (1,)
    yield "act_head.0.weight", (ACTION_WIDTH, d + ACTION_FEATURES)
    yield "act_head.0.bias", (ACTION_WIDTH,)
    yield "act_head.2.weight", (ACTIONS, ACTION_WIDTH)
    yield "act_head.2.bias", (ACTIONS,)


def _write_weights(size: Size, path: Path, rng: np.random.Generator) -> None:
    """Write a safetensors file without holding more than one tensor."""
    shapes = list(_shapes(size))
    header: dict[str, object] = {}
    offset = 0
    for name, shape in shapes:
        end = offset + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header["temperature"] = {"dtype": "F32", "shape": [3], "data_offsets": [offset, offset + 12]}
    encoded = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name, shape in shapes:
            file.write(_values(name, shape, rng).astype("<f2").tobytes())
        file.write(np.ones(3, dtype="<f4").tobytes())


def _values(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if "norm" in name or name.startswith("scorer.0"):
        return np.ones(shape, np.float32) if name.endswith("weight") else np.zeros(shape, np.float32)
    if name.endswith("bias"):
        return np.zeros(shape, np.float32)
    scale = 0.5 if name.startswith(("scorer.3", "type_emb")) else 0.04
    return rng.standard_normal(shape, dtype=np.float32) * scale


if __name__ == "__main__":
    write_checkpoint(SIZES[sys.argv[1]], Path(sys.argv[2]))
