"""The state of a training run on disk: everything a later sitting needs to go on as if it had never stopped."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from laya._forward.network import DecisionNetwork

_FILE = "state.pt"


@dataclass
class Position:
    """Where a run stands: examples are numbered, chunks of them are cut into batches."""

    chunk: int = 0
    batch: int = 0
    steps: int = 0
    sequences: int = 0
    seconds: float = 0.0


class Average:
    """A running mean of the weights: steadier and better calibrated than the last step's."""

    def __init__(self, network: DecisionNetwork, decay: float = 0.999) -> None:
        self._decay = decay
        self.weights = {name: p.detach().clone() for name, p in network.named_parameters() if p.requires_grad}

    def update(self, network: DecisionNetwork, steps: int) -> None:
        """Move the mean a little towards the weights after a step."""
        # Early on a long memory would keep the untrained weights.
        decay = min(self._decay, (1 + steps) / (10 + steps))
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if parameter.requires_grad:
                    self.weights[name].lerp_(parameter, 1 - decay)

    def copy_to(self, network: DecisionNetwork) -> None:
        """Put the mean into a network."""
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if name in self.weights:
                    parameter.copy_(self.weights[name])


def read_position(folder: Path) -> Position:
    """Where the run of that folder stands, without its weights; a fresh position where there is nothing yet."""
    path = folder / _FILE
    return Position(**torch.load(path, weights_only=False, mmap=True)["position"]) if path.exists() else Position()


def keep_state(folder: Path, copy: Path) -> None:
    """Keep the run's state as it stands under another name, in one move."""
    partial = copy.with_name(copy.name + ".part")
    shutil.copyfile(folder / _FILE, partial)
    os.replace(partial, copy)


def save_state(
    folder: Path, network: DecisionNetwork, average: Average, optimizer: torch.optim.Optimizer, position: Position
) -> None:
    """Write the run's state in one move: a stop while writing leaves the earlier file whole."""
    content = {
        "network": network.state_dict(),
        "average": average.weights,
        "optimizer": optimizer.state_dict(),
        "position": asdict(position),
        "torch_rng": torch.get_rng_state(),
        "python_rng": random.getstate(),
    }
    partial = folder / (_FILE + ".part")
    torch.save(content, partial)
    os.replace(partial, folder / _FILE)


def load_state(
    folder: Path, network: DecisionNetwork, average: Average, optimizer: torch.optim.Optimizer | None
) -> Position:
    """Restore a run, generators included; a fresh position where there is nothing yet."""
    path = folder / _FILE
    if not path.exists():
        return Position()
    content: dict[str, Any] = torch.load(path, weights_only=False)
    network.load_state_dict(content["network"])
    average.weights = content["average"]
    if optimizer is not None:
        optimizer.load_state_dict(content["optimizer"])
    torch.set_rng_state(content["torch_rng"])
    random.setstate(content["python_rng"])
    return Position(**content["position"])
