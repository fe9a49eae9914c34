"""Write the trained state as a checkpoint in the published layout, F16, temperatures fitted on held-out label sets.

python -m training.export --data DATA --out laya-mini
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer

from laya._forward.network import DecisionNetwork
from training.calibrate import fit_temperatures, scale_to
from training.evaluate import load_decisions
from training.mixture import Mixture
from training.model import ACT_COSTS, HEAD_LAYERS, encoder_settings, new_network
from training.rows import BUDGETS, RowEncoder
from training.sources import Sources, fetch_sources
from training.state import Average, Position, load_state
from training.train import DEFAULT_STATE, SEED

_TYPICAL = Path(__file__).parent / "calibration"
_TOKENS = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]",
           "unk_token": "[UNK]"}  # fmt: skip


def main() -> None:
    """Export the state of the run."""
    export(_options())


def export(options: argparse.Namespace) -> None:
    """Write the checkpoint that the options describe, and say how large it is and what temperatures fit it."""
    torch.set_num_threads(options.threads)
    sources = fetch_sources(options.state_dir / "sources")
    network = new_network(sources.encoder)
    average = Average(network)
    position = load_state(options.state_dir, network, average, None)
    if options.mean:
        average.copy_to(network)
    if options.earlier is not None:
        _blend(network, options.earlier, options.share)
    _round_to_half(network)
    mixture = Mixture(sources, options.data, SEED, held_out=True)
    encoder = RowEncoder(sources.encoder)
    rows = [encoder.encode(mixture.example(number)) for number in range(options.calibration)]
    types, buckets = fit_temperatures(network, rows, encoder.pad)
    typical = [encoder.encode(decision.example()) for decision in load_decisions(_TYPICAL)]
    types, buckets = scale_to(network, typical, encoder.pad, types, buckets)
    write_checkpoint(options.out, network, sources, types, buckets, position)
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{options.out}: {size / 1e6:.1f} MB, temperatures {types} {buckets}")


def _blend(network: DecisionNetwork, earlier: Path, share: float) -> None:
    """Mix the weights of an earlier state in, as model soups do (Wortsman et al. 2022)."""
    weights = torch.load(earlier, map_location="cpu", weights_only=False)["network"]
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.lerp_(weights[name], share)


def write_checkpoint(
    out: Path,
    network: DecisionNetwork,
    sources: Sources,
    temperature: list[float],
    temperature_by_options: dict[str, float],
    position: Position,
) -> None:
    """Write configuration, weights, encoder configuration and tokenizer into `out`."""
    for folder in (out, out / "encoder", out / "tokenizer"):
        folder.mkdir(parents=True, exist_ok=True)
    config = {
        "encoder": "sentence-transformers/all-MiniLM-L6-v2",
        "model_name": "laya-mini",
        "head_layers": HEAD_LAYERS,
        "max_len": BUDGETS.max_len,
        "head_max_len": BUDGETS.head_max_len,
        "temperature": temperature,
        "temperature_by_options": temperature_by_options,
        "act_costs": ACT_COSTS,
        "amp_dtype": "bf16",
        "max_prefixes": 6,
        "cost_wrong_act": 3.0,
        "training": {"sequences": position.sequences, "updates": position.steps, "seed": SEED},
    }
    _write_json(out / "rl_agent_config.json", config)
    _write_json(out / "encoder" / "config.json", encoder_settings(sources.encoder))
    _write_json(out / "tokenizer" / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": BUDGETS.max_len, **_TOKENS})  # fmt: skip
    tokenizer = Tokenizer.from_file(str(sources.encoder / "tokenizer.json"))
    # The file cuts and pads every text to 128 tokens; sequences have budgets of their own.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(out / "tokenizer" / "tokenizer.json"))
    weights = {name: p.detach().half().contiguous() for name, p in network.named_parameters()}
    weights |= _pooler(sources)
    weights["temperature"] = torch.tensor(temperature)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    # It is written for its owner alone, and ships to others.
    (out / "model.safetensors").chmod(0o644)


def _pooler(sources: Sources) -> dict[str, torch.Tensor]:
    """The encoder's pooler, which answers nothing, but the layout has every tensor of the encoder's class."""
    names = ("pooler.dense.weight", "pooler.dense.bias")
    with safe_open(str(sources.encoder / "model.safetensors"), framework="pt") as file:
        return {f"encoder.{name}": file.get_tensor(name).half() for name in names}


def _round_to_half(network: DecisionNetwork) -> None:
    # The temperatures must fit the weights that ship.
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.half().float())


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that only an export has."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--mean", action="store_true", help="the running mean: better while the rates are still high")
    parser.add_argument("--earlier", type=Path, help="an earlier state of this run, whose weights are mixed in")
    parser.add_argument("--share", type=float, default=0.3, help="share of the earlier weights")
    parser.add_argument("--calibration", type=int, default=6000, help="held-out decisions to fit temperatures on")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of clinc150, vader and davidson .jsonl")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE)
    parser.add_argument("--threads", type=int, default=2)
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
