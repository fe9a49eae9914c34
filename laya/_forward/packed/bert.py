"""BERT over rows laid end to end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from laya._forward.packed.linear import Linear, take
from laya._forward.packed.rows import Rows


class BertRows:
    """Hidden states of a `BertModel`; its linear layers give up their weights."""

    def __init__(self, encoder: Any) -> None:
        embeddings = encoder.embeddings
        self._words, self._norm = embeddings.word_embeddings, embeddings.LayerNorm
        # Every row is one segment, so the first segment's vector belongs to each position.
        self._places = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        self._layers = [_Layer(layer, encoder.config.num_attention_heads) for layer in encoder.encoder.layer]

    @classmethod
    def knows(cls, encoder: nn.Module) -> bool:
        """Whether an encoder is a BERT with absolute positions."""
        if type(encoder).__name__ != "BertModel":
            return False
        config: Any = encoder.config
        absolute = getattr(config, "position_embedding_type", None) in (None, "absolute")
        return absolute and not getattr(config, "is_decoder", False)

    def __call__(self, ids: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """`[T]` ids and their places in their rows -> `[T, d]`."""
        hidden: Tensor = self._norm(self._words(ids).add_(self._places[positions]))
        for layer in self._layers:
            hidden = layer(hidden, rows)
        return hidden


class _Layer:
    def __init__(self, layer: Any, heads: int) -> None:
        self._heads = heads
        attention = layer.attention
        self._qkv = _joined(attention.self.query, attention.self.key, attention.self.value)
        self._attn_out, self._attn_norm = take(attention.output.dense), attention.output.LayerNorm
        self._wide, self._activation = take(layer.intermediate.dense), layer.intermediate.intermediate_act_fn
        self._mlp_out, self._mlp_norm = take(layer.output.dense), layer.output.LayerNorm

    def __call__(self, hidden: Tensor, rows: Rows) -> Tensor:
        q, k, v = self._qkv(hidden).unflatten(-1, (3, self._heads, -1)).unbind(1)
        hidden = self._attn_norm(self._attn_out.plus(rows.attend(q, k, v), hidden))
        wide = self._activation(self._wide(hidden))
        normed: Tensor = self._mlp_norm(self._mlp_out.plus(wide, hidden))
        return normed


def _joined(*projections: nn.Linear) -> Linear:
    """Several projections of the same input as one product."""
    weight = torch.cat([projection.weight for projection in projections])
    bias = torch.cat([projection.bias for projection in projections])
    for projection in projections:
        projection.weight = None  # type: ignore[assignment]
    return Linear(weight.detach(), bias.detach())
