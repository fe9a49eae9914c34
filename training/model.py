"""The network to train: the runtime's own, its encoder started from all-MiniLM-L6-v2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from laya._forward.network import DecisionNetwork

HEAD_LAYERS = 1
ACT_COSTS = {"escalate": 0.5}
_ACT_WEIGHT = 0.05
"""Of the act head's loss: it only reads, so the weight merely scales its own steps."""


def encoder_settings(folder: Path) -> dict[str, Any]:
    """Return the encoder's configuration as the checkpoint will hold it."""
    source = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    dropped = {"_name_or_path", "architectures", "transformers_version", "gradient_checkpointing"}
    return {key: value for key, value in source.items() if key not in dropped}


def new_network(folder: Path) -> DecisionNetwork:
    """Build the network; encoder weights come from `folder`, head and scorers are new."""
    from transformers import AutoConfig, AutoModel

    settings = encoder_settings(folder)
    known = {key: value for key, value in settings.items() if key != "model_type"}
    # Few examples come twice, so dropout has nothing to prevent; without it a step takes two thirds of the time.
    known |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = AutoConfig.for_model(settings["model_type"], **known)
    encoder = AutoModel.from_config(config, attn_implementation="sdpa", add_pooling_layer=False)
    weights = load_file(folder / "model.safetensors")
    missing, _ = encoder.load_state_dict(weights, strict=False)
    if missing:
        raise ValueError(f"{folder} lacks the encoder tensors {missing[:3]}")
    network = DecisionNetwork(encoder, config.hidden_size, HEAD_LAYERS, len(ACT_COSTS) + 1)
    nn.init.normal_(network.type_emb.weight, std=0.02)
    # The embeddings hold half of the weights and what the encoder knows of rare words.
    encoder.embeddings.requires_grad_(False)
    # The act head reports on the answer; it must not shape it.
    network.act_head.register_forward_pre_hook(lambda _, inputs: (inputs[0].detach(),))
    return network


def optimizer_for(network: DecisionNetwork, encoder_rate: float, head_rate: float) -> torch.optim.AdamW:
    """AdamW with one rate for the encoder and one for all that is new."""
    encoder = [p for p in network.encoder.parameters() if p.requires_grad]
    known = {id(p) for p in network.encoder.parameters()}
    head = [p for p in network.parameters() if id(p) not in known]
    groups = [{"params": encoder, "lr": encoder_rate}, {"params": head, "lr": head_rate}]
    return torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.98), fused=True)


def losses(logits: Tensor, act_logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The loss to minimise, and the log loss of each row. `[n, K]`, `[n, A]`, `[n, K]` -> scalar, `[n]`.

    The log score is proper: its minimum is at the true probabilities. The act head learns whether the top
    option is the right one.
    """
    rows = -(target * logits.log_softmax(-1)).sum(-1)
    right = logits.detach().argmax(-1) == target.argmax(-1)
    act = nn.functional.cross_entropy(act_logits, (~right).long())
    return rows.mean() + _ACT_WEIGHT * act, rows.detach()
