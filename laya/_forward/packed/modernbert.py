"""ModernBERT over rows laid end to end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from laya._forward import rope
from laya._forward.packed.linear import Linear, take
from laya._forward.packed.rows import Rows


class ModernBertRows:
    """Hidden states of a `ModernBertModel`; its linear layers give up their weights."""

    def __init__(self, encoder: Any) -> None:
        config = encoder.config
        self._embeddings, self._final_norm = encoder.embeddings, encoder.final_norm
        self._rotations = {kind: _Rotations(frequencies) for kind, frequencies in rope.inverse_frequencies(encoder)}
        every = config.global_attn_every_n_layers
        window = int(config.local_attention) // 2
        self._layers = [
            _Layer(layer, config.num_attention_heads, None if index % every == 0 else window)
            for index, layer in enumerate(encoder.layers)
        ]

    @classmethod
    def knows(cls, encoder: nn.Module) -> bool:
        """Whether an encoder is a ModernBERT with plain rotary positions."""
        if type(encoder).__name__ != "ModernBertModel":
            return False
        return _plain_rotation(encoder.config) and _regular_layers(encoder.config)

    def __call__(self, ids: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """`[T]` ids and their places in their rows -> `[T, d]`."""
        hidden: Tensor = self._embeddings(ids)
        turns = {kind: rotations.at(positions, rows.longest) for kind, rotations in self._rotations.items()}
        for layer in self._layers:
            hidden = layer(hidden, turns[rope.FULL if layer.window is None else rope.SLIDING], rows)
        normed: Tensor = self._final_norm(hidden)
        return normed


class _Layer:
    def __init__(self, layer: Any, heads: int, window: int | None) -> None:
        self.window = window
        self._heads = heads
        self._attn_norm, self._mlp_norm = layer.attn_norm, layer.mlp_norm
        self._qkv, self._attn_out = _paired(layer.attn.Wqkv, heads), take(layer.attn.Wo)
        self._wide, self._activation, self._mlp_out = take(layer.mlp.Wi), layer.mlp.act, take(layer.mlp.Wo)

    def __call__(self, hidden: Tensor, turn: Tensor, rows: Rows) -> Tensor:
        qkv = self._qkv(self._attn_norm(hidden)).unflatten(-1, (3, self._heads, -1))
        _rotate(qkv[:, :2], turn)
        q, k, v = qkv.unbind(1)
        hidden = self._attn_out.plus(rows.attend(q, k, v, self.window), hidden)
        wide, gate = self._wide(self._mlp_norm(hidden)).chunk(2, dim=-1)
        return self._mlp_out.plus(self._activation(wide).mul_(gate), hidden)


class _Rotations:
    """Rotations of one base: `exp(1j * position * frequency)`, kept for the positions seen so far."""

    def __init__(self, frequencies: Tensor) -> None:
        self._frequencies = frequencies.float()
        self._table = torch.empty(0, len(frequencies), dtype=torch.complex64, device=frequencies.device)

    def at(self, positions: Tensor, longest: int) -> Tensor:
        """`[T]` positions, all below `longest` -> `[T, 1, 1, h / 2]`, complex."""
        table = self._table
        if len(table) < longest:
            angles = torch.arange(2 * longest, device=table.device).float().unsqueeze(1) * self._frequencies
            table = self._table = torch.polar(torch.ones_like(angles), angles)
        return table[positions][:, None, None]


def _rotate(pairs: Tensor, turn: Tensor) -> None:
    """Turn queries and keys `[T, 2, H, h]`, whose halves lie side by side, in place."""
    if pairs.dtype == torch.float32:
        torch.view_as_complex(pairs.unflatten(-1, (-1, 2))).mul_(turn)
    else:
        turned = torch.view_as_complex(pairs.float().unflatten(-1, (-1, 2)).contiguous()) * turn
        pairs.copy_(torch.view_as_real(turned).flatten(-2))


def _paired(projection: nn.Linear, heads: int) -> Linear:
    """The projection with its queries' and keys' entries i and i + h / 2 side by side, as complex numbers lie.

    A dot product doesn't notice, since both are rearranged alike.
    """
    for name in ("weight", "bias"):
        values = getattr(projection, name)
        if values is not None:
            with torch.no_grad():
                qk, v = values.unflatten(0, (3, heads, 2, -1)).split((2, 1))
                setattr(projection, name, nn.Parameter(torch.cat((qk.transpose(2, 3).flatten(0, 3), v.flatten(0, 3)))))
    return take(projection)


def _plain_rotation(config: Any) -> bool:
    parameters = getattr(config, "rope_parameters", None) or {}
    entries = [entry for entry in parameters.values() if isinstance(entry, dict)] or [parameters]
    return all(entry.get("rope_type", "default") == "default" for entry in entries)


def _regular_layers(config: Any) -> bool:
    every = getattr(config, "global_attn_every_n_layers", None)
    if not isinstance(every, int) or every < 1:
        return False
    kinds = getattr(config, "layer_types", None)
    regular = [rope.FULL if i % every == 0 else rope.SLIDING for i in range(config.num_hidden_layers)]
    return kinds is None or list(kinds) == regular
