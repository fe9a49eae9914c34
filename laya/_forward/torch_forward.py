"""Forward passes with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from laya._checkpoints.config import CheckpointConfig, load_encoder_config
from laya._checkpoints.source import CheckpointFiles
from laya._exit import native_code
from laya._forks import in_forked_child
from laya._forward import rope
from laya._forward.device import Precision, pass_cost
from laya._forward.load import build_network, load_weights
from laya._forward.network import DecisionNetwork, parameter_count
from laya._forward.packed import PackedNetwork
from laya._pipeline.batches import Batch, PassCost


class TorchForward:
    """Runs a decision network on one device. Passes are serialised: one already uses the whole device.

    A forked child computes with one thread: the pool of OpenMP threads stays behind in the parent, and waiting for
    it would never end.
    """

    min_options = 1

    def __init__(
        self, network: DecisionNetwork, device: torch.device, precision: Precision, compile: bool = False
    ) -> None:
        self.network = network.to(device).eval().requires_grad_(False)
        # With its index: which device plain "cuda" is may differ from thread to thread.
        self.device = network.type_emb.weight.device
        self.precision = precision
        self.parameters = parameter_count(network)
        self.max_positions = _max_positions(network.encoder)
        packed = not compile and precision.autocast is None and PackedNetwork.knows(network)
        self.cost: PassCost = pass_cost(device, packed)
        self._padded: Any = torch.compile(network, dynamic=True) if compile else network
        self._compute: Callable[[Batch], tuple[Tensor, Tensor]] = self._packed() if packed else self._over_padding
        self._lock = Lock()
        in_forked_child(self._renew)

    @classmethod
    def load(
        cls,
        files: CheckpointFiles,
        config: CheckpointConfig,
        device: torch.device,
        precision: Precision,
        compile: bool,
    ) -> TorchForward:
        """Build the network of a checkpoint on a device."""
        network = build_network(load_encoder_config(files.encoder_config), config, files.encoder_config)

        def convert(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(device=device, dtype=precision.weights, copy=True)

        load_weights(network, files.weights, convert)
        return cls(network, device, precision, compile)

    def __call__(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Option logits `[n, K]` and action logits `[n, A]`, as F32 arrays."""
        with native_code.turn(self._lock), torch.inference_mode(), self._autocast():
            logits, act_logits = self._compute(batch)
            return logits.float().cpu().numpy(), act_logits.float().cpu().numpy()

    def _over_padding(self, batch: Batch) -> tuple[Tensor, Tensor]:
        logits: tuple[Tensor, Tensor] = self._padded(*(torch.from_numpy(array).to(self.device) for array in batch))
        return logits

    def _renew(self) -> None:
        """Make ready in a forked child; a pass of the parent may have held the lock."""
        self._lock = Lock()
        # Only in the thread that forked does this let go of the pool that stayed behind.
        torch.set_num_threads(1)

    def _packed(self) -> PackedNetwork:
        with torch.inference_mode():
            return PackedNetwork(self.network)

    def _autocast(self) -> torch.autocast:
        dtype = self.precision.autocast
        return torch.autocast(self.device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None)


def _max_positions(encoder: torch.nn.Module) -> int | None:
    if rope.thetas_in_use(encoder):
        return None
    positions: int | None = getattr(encoder.config, "max_position_embeddings", None)
    return positions
