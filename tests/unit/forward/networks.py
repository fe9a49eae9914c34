"""Networks with a checkpoint's weights, before a forward lays them out for its device."""

from __future__ import annotations

from pathlib import Path

import torch

from laya._checkpoints.config import load_config, load_encoder_config
from laya._checkpoints.source import resolve_checkpoint
from laya._forward.load import build_network, load_weights
from laya._forward.network import DecisionNetwork


def loaded_network(root: Path) -> DecisionNetwork:
    """The network of a checkpoint, in F32 on the CPU."""
    files = resolve_checkpoint(root)
    network = build_network(load_encoder_config(files.encoder_config), load_config(files.config), files.encoder_config)
    load_weights(network, files.weights, torch.Tensor.float)
    return network.eval().requires_grad_(False)
