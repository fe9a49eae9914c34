"""The decision network over rows laid end to end."""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from laya._forward.network import DecisionNetwork
from laya._forward.packed.bert import BertRows
from laya._forward.packed.linear import Linear, filler, take
from laya._forward.packed.modernbert import ModernBertRows
from laya._forward.packed.rows import Rows

_ENCODERS = (ModernBertRows, BertRows)


class Encoder(Protocol):
    """Hidden states of tokens that lie end to end."""

    def __call__(self, ids: Tensor, rows: Rows) -> Tensor:
        """`[T]` ids -> `[T, d]`."""


class PackedNetwork:
    """Scores options as `DecisionNetwork` does, from the same weights, without computing padding.

    It takes the weights of the linear layers over from the network, which computes nothing afterwards.
    """

    def __init__(self, network: DecisionNetwork) -> None:
        kind = next(kind for kind in _ENCODERS if kind.knows(network.encoder))
        self._network = network
        self._encoder: Encoder = kind(network.encoder)
        layers = cast("list[nn.TransformerEncoderLayer]", list(network.head.layers))
        self._early = [_EarlyLayer(layer) for layer in layers[:-1]]
        self._last = _LastLayer(layers[-1]) if layers else None

    @classmethod
    def knows(cls, network: DecisionNetwork) -> bool:
        """Whether the encoder of a network can be computed this way."""
        return any(kind.knows(network.encoder) for kind in _ENCODERS)

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor, marker_pos: Tensor, marker_mask: Tensor, qtype: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What `DecisionNetwork.forward` takes and gives; each row's tokens must come before its padding."""
        lengths = attention_mask.sum(1)
        ids = input_ids[attention_mask.bool()]
        rows = Rows(lengths.tolist(), filler(ids.shape[0]))
        hidden = self._encoder(pad(ids, (0, rows.filler)), rows)
        kinds = self._network.type_emb.weight[qtype].repeat_interleave(lengths, dim=0)
        hidden = hidden + pad(kinds, (0, 0, 0, rows.filler))
        positions = torch.cat((torch.zeros_like(marker_pos[:, :1]), marker_pos), dim=1)
        read = self._read(hidden, rows, positions + rows.starts.unsqueeze(1))
        return self._network.score(read, marker_mask)

    def _read(self, hidden: Tensor, rows: Rows, where: Tensor) -> Tensor:
        """The head's output `[n, P, d]` at `[n, P]` tokens."""
        if self._last is None:
            return hidden[where]
        for layer in self._early:
            hidden = layer(hidden, rows)
        return self._last(hidden, rows, where)


class _FeedForward:
    def __init__(self, layer: Any) -> None:
        self._norm, self._wide, self._out = layer.norm2, take(layer.linear1), take(layer.linear2)

    def __call__(self, hidden: Tensor) -> Tensor:
        return self._out.plus(self._wide(self._norm(hidden)).relu_(), hidden)


class _EarlyLayer:
    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self._heads, self._norm = attention.num_heads, layer.norm1
        self._qkv = _projection(attention, slice(None))
        self._out, self._feed_forward = take(attention.out_proj), _FeedForward(layer)
        attention.in_proj_weight = None

    def __call__(self, hidden: Tensor, rows: Rows) -> Tensor:
        q, k, v = self._qkv(self._norm(hidden)).unflatten(-1, (3, self._heads, -1)).unbind(1)
        return self._feed_forward(self._out.plus(rows.attend(q, k, v), hidden))


class _LastLayer:
    """The head's last layer, of which only a few positions are read."""

    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        width = attention.embed_dim
        self._heads, self._norm = attention.num_heads, layer.norm1
        self._q, self._kv = _projection(attention, slice(width)), _projection(attention, slice(width, None))
        self._out, self._feed_forward = take(attention.out_proj), _FeedForward(layer)
        attention.in_proj_weight = None

    def __call__(self, hidden: Tensor, rows: Rows, where: Tensor) -> Tensor:
        """`[T, d]` hidden states, `[n, P]` tokens -> `[n, P, d]`."""
        normed = self._norm(hidden)
        k, v = self._kv(normed).unflatten(-1, (2, self._heads, -1)).unbind(1)
        q = self._q(normed[where.flatten()]).unflatten(0, where.shape).unflatten(-1, (self._heads, -1))
        mixed = rows.read(q, k, v).flatten(0, 1)
        return self._feed_forward(self._out.plus(mixed, hidden[where.flatten()])).view(*where.shape, -1)


def _projection(attention: nn.MultiheadAttention, rows: slice) -> Linear:
    return Linear(cast(Tensor, attention.in_proj_weight).detach()[rows], attention.in_proj_bias.detach()[rows])
