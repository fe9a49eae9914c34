"""Build the decision network of a checkpoint and read its weights, one tensor at a time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.overrides import TorchFunctionMode

from laya._checkpoints.config import CheckpointConfig
from laya._forks import in_forked_child
from laya._forward import rope
from laya._forward.network import DecisionNetwork
from laya.errors import CheckpointError, CheckpointFormatError

_CARRIED = frozenset({"temperature"})
"""Tensors of the layout that no answer depends on."""
_UNUSED_PREFIXES = ("encoder.pooler.",)
_SHOWN = 5


def build_network(encoder_config: Mapping[str, Any], config: CheckpointConfig, path: Path) -> DecisionNetwork:
    """Build the network without its weights: parameters are on the meta device, buffers are real.

    `path` names the encoder's configuration in errors. Raises `CheckpointFormatError` where transformers
    doesn't know the architecture, or computes with other rotary bases than the file says.
    """
    with _transformers_lock:
        transformers = _transformers()
        try:
            known = {k: value for k, value in rope.portable_config(encoder_config).items() if k != "model_type"}
            settings = transformers.AutoConfig.for_model(encoder_config["model_type"], **known)
            with _ParametersOnMeta():
                encoder = transformers.AutoModel.from_config(
                    settings, attn_implementation="sdpa", **_without_pooler(settings)
                )
                network = DecisionNetwork(encoder, settings.hidden_size, config.head_layers, config.actions)
            problem = rope.mismatch(encoder_config, encoder)
        except Exception as error:  # each transformers release has its own for a value it can't use
            raise CheckpointFormatError(
                f"{path}: transformers can't build this encoder ({error}); a newer transformers may know it",
                path=path,
            ) from error
    if problem:
        raise CheckpointFormatError(
            f"{path}: {problem}; this transformers release would answer wrongly, install a newer one",
            path=path,
        )
    return network


def load_weights(network: nn.Module, path: Path, convert: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace every parameter by the file's tensor, converted.

    Names and shapes are compared before any tensor is read. The file is mapped, and one tensor is converted at
    a time: the private memory needed is that of the converted weights. Raises `CheckpointFormatError`, and
    `CheckpointError` for a file that can't be read.
    """
    try:
        path.open("rb").close()  # safetensors calls a file missing that may not be read
        with safe_open(str(path), framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            wanted: dict[str, torch.Tensor] = dict(network.named_parameters())
            wanted |= {name: buffer for name, buffer in network.named_buffers() if name in _CARRIED}
            _compare(path, shapes, {name: tuple(tensor.shape) for name, tensor in wanted.items()})
            _check_types(path, {name: slices[name].get_dtype() for name in wanted if name in slices})
            for name in wanted:
                if name in shapes:
                    _assign(network, name, convert(file.get_tensor(name)))
    except SafetensorError as error:
        raise CheckpointFormatError(
            f"{path} is no whole safetensors file ({error}); copy or download it again", path=path
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}", path=path) from error
    left = [name for name, tensor in [*network.named_parameters(), *network.named_buffers()] if tensor.is_meta]
    if left:
        raise CheckpointFormatError(f"{path} leaves {_listed(left)} without values", path=path)


_transformers_lock = Lock()


def _renew_lock() -> None:
    global _transformers_lock  # noqa: PLW0603 - a build that was going on at a fork ends in the parent only
    _transformers_lock = Lock()


in_forked_child(_renew_lock)


def _transformers() -> Any:
    """The package that is usable: while it is imported, transformers and its parts put others in their own place.

    A thread that meets them then holds one without names, so an encoder's parts are imported by one at a time.
    """
    importlib.import_module("transformers")
    return sys.modules["transformers"]


def _compare(path: Path, found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> None:
    missing = sorted(set(wanted) - set(found) - _CARRIED)
    unknown = sorted(name for name in set(found) - set(wanted) if not name.startswith(_UNUSED_PREFIXES))
    if missing or unknown:
        parts = [f"lacks {_listed(missing)}"] if missing else []
        parts += [f"has the unknown {_listed(unknown)}"] if unknown else []
        raise CheckpointFormatError(
            f"{path} {' and '.join(parts)}; its configuration files belong to another checkpoint", path=path
        )
    for name, shape in wanted.items():
        if name in found and found[name] != shape:
            raise CheckpointFormatError(
                f"{path}: {name} has shape {list(found[name])}, the configuration asks for {list(shape)}",
                path=path,
            )


def _check_types(path: Path, types: Mapping[str, str]) -> None:
    """Refuse integers, booleans and complex numbers: converted, they would pass for weights and answer anything."""
    for name, kind in types.items():
        if not kind.startswith(("F", "BF")):
            raise CheckpointFormatError(
                f"{path}: {name} holds {kind} values, weights are floating-point; copy or download the file again",
                path=path,
            )


def _assign(network: nn.Module, name: str, tensor: torch.Tensor) -> None:
    owner_name, _, leaf = name.rpartition(".")
    owner = network.get_submodule(owner_name)
    if leaf in owner._parameters:
        owner._parameters[leaf] = nn.Parameter(tensor, requires_grad=False)
    else:
        owner._buffers[leaf] = tensor


def _without_pooler(settings: Any) -> dict[str, bool]:
    # The layout holds no pooler: CLS is read from the head's output.
    return {"add_pooling_layer": False} if settings.model_type in ("bert", "roberta", "xlm-roberta") else {}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "tensors " + ", ".join(names[:_SHOWN]) + more


class _ParametersOnMeta(TorchFunctionMode):
    """Modules allocate their parameters with `torch.empty`; here that takes no memory and no time.

    Buffers are computed by other functions and stay real. Affects the calling thread alone.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.empty:
            kwargs = {**(kwargs or {}), "device": "meta"}
        return func(*args, **(kwargs or {}))
