"""The decision network over rows laid end to end."""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from laya._forward.network import MASKED, DecisionNetwork
from laya._forward.packed.bert import BertRows
from laya._forward.packed.layout import PackedBatch, lay_out
from laya._forward.packed.linear import Linear, filler, take
from laya._forward.packed.modernbert import ModernBertRows
from laya._forward.packed.rows import ProcessorRows, Rows
from laya._forward.packed.varlen import VarlenRows, varlen_works
from laya._pipeline.batches import Batch

_ENCODERS = (ModernBertRows, BertRows)


class Encoder(Protocol):
    """Hidden states of tokens that lie end to end."""

    def __call__(self, ids: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """`[T]` ids and their places in their rows -> `[T, d]`."""


class PackedNetwork:
    """Scores options as `DecisionNetwork` does, from the same weights, without computing padding.

    It takes the weights of the linear layers over from the network, which computes nothing afterwards.
    """

    def __init__(self, network: DecisionNetwork) -> None:
        kind = next(kind for kind in _ENCODERS if kind.knows(network.encoder))
        self._network = network
        self._device = network.type_emb.weight.device
        self._encoder: Encoder = kind(network.encoder)
        layers = cast("list[nn.TransformerEncoderLayer]", list(network.head.layers))
        self._early = [_EarlyLayer(layer) for layer in layers[:-1]]
        self._last = _LastLayer(layers[-1]) if layers else None

    @classmethod
    def knows(cls, network: DecisionNetwork) -> bool:
        """Whether a network can be computed this way on the device that it is on."""
        if not any(kind.knows(network.encoder) for kind in _ENCODERS):
            return False
        weight = network.type_emb.weight
        return weight.device.type == "cpu" or all(
            varlen_works(weight.device, weight.dtype, width) for width in _head_widths(network)
        )

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`[n, K]` option logits and `[n, A]` action logits, F32; each row's tokens must come before its padding."""
        if self._device.type == "cpu":
            missing = filler(int(batch.attention_mask.sum()))
            packed = lay_out(batch, missing)
            lengths, reads = packed.lengths.tolist(), packed.reads.tolist()
            return self.compute(packed, ProcessorRows(lengths, reads, missing))
        packed = lay_out(batch)
        return self.compute(packed, VarlenRows.of(packed, self._device))

    def compute(self, packed: PackedBatch, rows: Rows) -> tuple[Tensor, Tensor]:
        """The same from rows that lie end to end, and what looks at one row at a time."""
        *on_device, _lengths, _reads = packed  # these two are the host's
        ids, positions, kinds, where, cls, options, slots, shown = (
            torch.from_numpy(array).to(self._device) for array in on_device
        )
        hidden = self._encoder(ids, positions, rows) + self._network.type_emb.weight[kinds]
        read = self._read(hidden, rows, where)
        logits = torch.full(shown.shape, MASKED, device=self._device)
        logits.view(-1)[slots] = self._network.score(read[options])
        return logits, self._network.act(read[cls], logits, shown)

    def _read(self, hidden: Tensor, rows: Rows, where: Tensor) -> Tensor:
        """The head's output `[R, d]` at `[R]` tokens."""
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
        """`[T, d]` hidden states, `[R]` tokens -> `[R, d]`."""
        normed = self._norm(hidden)
        k, v = self._kv(normed).unflatten(-1, (2, self._heads, -1)).unbind(1)
        q = self._q(normed[where]).unflatten(-1, (self._heads, -1))
        return self._feed_forward(self._out.plus(rows.read(q, k, v), hidden[where]))


def _projection(attention: nn.MultiheadAttention, rows: slice) -> Linear:
    return Linear(cast(Tensor, attention.in_proj_weight).detach()[rows], attention.in_proj_bias.detach()[rows])


def _head_widths(network: DecisionNetwork) -> set[int]:
    """Entries of an attention head, in the encoder's layers and in the decision head's."""
    config: Any = network.encoder.config
    width: int = config.hidden_size
    layers = cast("list[nn.TransformerEncoderLayer]", list(network.head.layers))
    heads = {config.num_attention_heads, *(layer.self_attn.num_heads for layer in layers)}
    return {width // count for count in heads}
