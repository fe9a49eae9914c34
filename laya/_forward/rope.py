"""Rotary position bases: hand them to any transformers release, and see that they are the ones in use.

Newer configurations keep the bases in `rope_parameters`; a transformers release that doesn't know the key
ignores it without a word and computes with its own defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

FULL, SLIDING = "full_attention", "sliding_attention"
_LEGACY_KEYS = {FULL: "global_rope_theta", SLIDING: "local_rope_theta"}
_TOLERANCE = 1e-3


def thetas_on_disk(encoder_config: Mapping[str, Any]) -> dict[str, float]:
    """Bases that an encoder configuration asks for, by attention kind; empty without rotary positions."""
    parameters = encoder_config.get("rope_parameters")
    if isinstance(parameters, Mapping):
        if "rope_theta" in parameters:
            return dict.fromkeys((FULL, SLIDING), float(parameters["rope_theta"]))
        return {kind: float(entry["rope_theta"]) for kind, entry in parameters.items() if entry}
    found = {kind: encoder_config[key] for kind, key in _LEGACY_KEYS.items() if encoder_config.get(key) is not None}
    if FULL in found:
        found.setdefault(SLIDING, found[FULL])
    return {kind: float(theta) for kind, theta in found.items()}


def positions_on_disk(encoder_config: Mapping[str, Any]) -> int | None:
    """Tokens that an encoder configuration has learned positions for; None where they are rotary."""
    return None if thetas_on_disk(encoder_config) else encoder_config.get("max_position_embeddings")


def portable_config(encoder_config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the bases under both namings, so that every release reads them."""
    config = dict(encoder_config)
    for kind, theta in thetas_on_disk(encoder_config).items():
        config.setdefault(_LEGACY_KEYS.get(kind, f"{kind}_rope_theta"), theta)
    return config


def thetas_in_use(encoder: nn.Module) -> dict[str, set[float]]:
    """Bases that the built encoder computes with, read back from its inverse frequencies."""
    found: dict[str, set[float]] = {}
    for kind, frequencies in inverse_frequencies(encoder):
        found.setdefault(kind, set()).add(_theta(frequencies))
    return found


def mismatch(encoder_config: Mapping[str, Any], encoder: nn.Module) -> str | None:
    """What differs between the bases on disk and those in use; None if nothing does."""
    in_use = thetas_in_use(encoder)
    for kind, theta in thetas_on_disk(encoder_config).items():
        for used in in_use.get(kind, set()):
            if abs(used - theta) > _TOLERANCE * theta:
                return f"{kind} computes with rope_theta {used:g}, encoder/config.json says {theta:g}"
    if thetas_on_disk(encoder_config) and not in_use:
        return "encoder/config.json sets rotary position bases, the encoder built from it has none"
    return None


def inverse_frequencies(encoder: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Attention kinds with the `[h / 2]` inverse frequencies that the encoder turns its heads by."""
    every = getattr(encoder.config, "global_attn_every_n_layers", 1)
    for name, buffer in encoder.named_buffers():
        leaf = name.rsplit(".", 1)[-1]
        if not leaf.endswith("inv_freq") or leaf.endswith("original_inv_freq"):
            continue
        if leaf.startswith((FULL, SLIDING)):
            yield leaf.removesuffix("_inv_freq"), buffer
        else:  # one rotary module a layer: layers 0, n, 2n, ... attend globally
            layer = next((int(part) for part in name.split(".") if part.isdigit()), 0)
            yield (FULL if layer % every == 0 else SLIDING), buffer


def _theta(frequencies: Tensor) -> float:
    # inv_freq[i] = theta ** (-2i / dim) with dim = 2 * len
    values = frequencies.double()
    return float(values[-1] ** (-len(values) / (len(values) - 1)))
