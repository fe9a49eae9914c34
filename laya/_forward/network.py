"""The decision network: an encoder, a type embedding, a small head and two scorers."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

ACTION_FEATURES = 4
ACTION_WIDTH = 256
MASKED = -1e4
"""Logit of a slot without an option; finite, so that half precision and entropy stay defined."""


class DecisionHead(nn.Module):
    """Pre-norm transformer layers on top of the encoder; may be empty.

    The layers hold the weights of `torch.nn.TransformerEncoderLayer`, under its names; what they compute is
    written out here, since only a few positions of the last layer are ever read.
    """

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                d_model=width,
                nhead=max(1, width // 64),
                dim_feedforward=4 * width,
                dropout=0.0,
                activation="relu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )

    def forward(self, hidden: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        """Hidden states at some positions: `[n, L, d]`, `[n, 1, 1, L]` (True is attended), `[n, P]` -> `[n, P, d]`."""
        index = positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1])
        if not self.layers:
            return hidden.gather(1, index)
        *early, last = cast("list[nn.TransformerEncoderLayer]", list(self.layers))
        for layer in early:
            normed = layer.norm1(hidden)
            hidden = _feed_forward(layer, hidden + _attend(layer.self_attn, normed, normed, mask))
        normed = last.norm1(hidden)
        read = hidden.gather(1, index) + _attend(last.self_attn, normed.gather(1, index), normed, mask)
        return _feed_forward(last, read)


def _attend(attention: nn.MultiheadAttention, queries: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
    """Multi-head attention of `[n, P, d]` over `[n, L, d]`, projected."""
    width, heads = context.shape[-1], attention.num_heads
    weight, bias = cast(Tensor, attention.in_proj_weight), attention.in_proj_bias
    q = nn.functional.linear(queries, weight[:width], bias[:width])
    kv = nn.functional.linear(context, weight[width:], bias[width:])
    k, v = kv.chunk(2, dim=-1)
    q, k, v = (tensor.unflatten(-1, (heads, width // heads)).transpose(1, 2) for tensor in (q, k, v))
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    joined: Tensor = attention.out_proj(mixed.transpose(1, 2).flatten(2))
    return joined


def _feed_forward(layer: nn.TransformerEncoderLayer, hidden: Tensor) -> Tensor:
    wide = layer.linear1(layer.norm2(hidden)).relu_()
    widened: Tensor = hidden + layer.linear2(wide)
    return widened


class DecisionNetwork(nn.Module):
    """Scores every option of a question at its MASK token, and the action at CLS."""

    def __init__(self, encoder: nn.Module, width: int, head_layers: int, actions: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = DecisionHead(width, head_layers)
        self.type_emb = nn.Embedding(3, width)
        self.scorer = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        self.act_head = nn.Sequential(
            nn.Linear(width + ACTION_FEATURES, ACTION_WIDTH), nn.GELU(), nn.Linear(ACTION_WIDTH, actions)
        )
        # Part of the layout; answers are divided by the configuration's temperatures.
        self.register_buffer("temperature", torch.ones(3))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        marker_pos: Tensor,
        marker_mask: Tensor,
        qtype: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """`[n, L]` ids and mask, `[n, K]` marker positions and mask, `[n]` types -> `[n, K]`, `[n, A]` logits, F32."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        hidden = hidden + self.type_emb(qtype).unsqueeze(1)
        positions = torch.cat((torch.zeros_like(marker_pos[:, :1]), marker_pos), dim=1)
        read = self.head(hidden, attention_mask[:, None, None, :].bool(), positions)
        logits = self.score(read[:, 1:]).masked_fill(~marker_mask, MASKED)
        return logits, self.act(read[:, 0], logits, marker_mask)

    def score(self, read: Tensor) -> Tensor:
        """The head's output at options' markers `[..., d]` -> logits `[...]`, F32."""
        logits: Tensor = self.scorer(read).squeeze(-1).float()
        return logits

    def act(self, read: Tensor, logits: Tensor, marker_mask: Tensor) -> Tensor:
        """The head's output at CLS `[n, d]`, `[n, K]` logits and mask -> action logits `[n, A]`, F32."""
        features = action_features(logits, marker_mask)
        act_logits: Tensor = self.act_head(torch.cat((read, features.to(read.dtype)), dim=-1)).float()
        return act_logits


def action_features(logits: Tensor, marker_mask: Tensor) -> Tensor:
    """What the act head sees of the options: `[n, K]` raw logits -> `[n, 4]`.

    Highest probability, its lead over the second, entropy over ln max(k, 2), and max(k, 2) / 255, where k is
    the number of options. A single option has no second: its lead is its probability.
    """
    p = logits.softmax(-1)
    p = p.masked_fill(~marker_mask, 0.0)
    if p.shape[-1] < 2:
        p = nn.functional.pad(p, (0, 1))
    top = p.topk(2, dim=-1).values
    count = marker_mask.sum(-1).clamp(min=2).to(p.dtype)
    entropy = -torch.xlogy(p, p).sum(-1) / count.log()
    return torch.stack((top[:, 0], top[:, 0] - top[:, 1], entropy, count / 255.0), dim=-1)


def parameter_count(network: nn.Module) -> int:
    """Number of weights, the carried temperatures not counted."""
    return sum(math.prod(parameter.shape) for parameter in network.parameters())
