"""Networks before a forward lays them out for its device: a checkpoint's, and small ones; and batches for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel

from laya._checkpoints.config import load_config, load_encoder_config
from laya._checkpoints.source import resolve_checkpoint
from laya._forward.load import build_network, load_weights
from laya._forward.network import DecisionNetwork
from laya._pipeline.batches import Batch

LENGTHS = [5, 5, 9, 17, 40, 40, 63, 150]


def loaded_network(root: Path) -> DecisionNetwork:
    """The network of a checkpoint, in F32 on the CPU."""
    files = resolve_checkpoint(root)
    network = build_network(load_encoder_config(files.encoder_config), load_config(files.config), files.encoder_config)
    load_weights(network, files.weights, torch.Tensor.float)
    return network.eval().requires_grad_(False)


def modernbert(**changes: object) -> nn.Module:
    """A small ModernBERT whose window is far shorter than the rows."""
    torch.manual_seed(3)
    settings = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "vocab_size": 200,
        "local_attention": 16,
        "pad_token_id": 0,
        "global_attn_every_n_layers": 3,
    }
    return ModernBertModel(ModernBertConfig(**{**settings, **changes}))


def bert(**changes: object) -> nn.Module:
    """A small BERT."""
    torch.manual_seed(3)
    settings = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "vocab_size": 200,
    }
    return BertModel(BertConfig(**{**settings, **changes}), add_pooling_layer=False)


ENCODERS = {
    "modernbert": modernbert,
    "modernbert with biases": lambda: modernbert(attention_bias=True, mlp_bias=True, norm_bias=True),
    "modernbert, one base": lambda: modernbert(global_rope_theta=5000.0, local_rope_theta=5000.0),
    "modernbert, all layers global": lambda: modernbert(global_attn_every_n_layers=1),
    "modernbert, another activation": lambda: modernbert(hidden_activation="silu"),
    "bert": bert,
    "bert, another activation": lambda: bert(hidden_act="relu"),
}


def network(encoder: nn.Module, head_layers: int = 2) -> DecisionNetwork:
    """A decision network around an encoder, with all weights away from their initial zeros and ones."""
    torch.manual_seed(4)
    built = DecisionNetwork(encoder, 64, head_layers, 2).eval().requires_grad_(False)
    for parameter in built.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.05)
    return built


def batch(lengths: list[int], options: int = 3) -> Batch:
    """Padded rows of random ids; every second row has an option less."""
    generator = np.random.default_rng(5)
    ids = generator.integers(1, 200, (len(lengths), max(lengths)))
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    markers = np.tile(np.arange(1, options + 1), (len(lengths), 1))
    shown = np.arange(options) < np.array([options - row % 2 for row in range(len(lengths))])[:, None]
    return Batch(ids * mask, mask, markers * shown, shown, np.arange(len(lengths)) % 3)


def padded(built: DecisionNetwork, inputs: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of padded rows."""
    return built(*map(torch.from_numpy, inputs))


def agree(one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor], atol: float) -> None:
    """Option logits and action logits are the same."""
    for mine, wanted in zip(one, other, strict=True):
        torch.testing.assert_close(mine, wanted, atol=atol, rtol=1e-4)
