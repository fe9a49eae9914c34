"""Load a network in the type that is fastest on its device, as long as its answers stay where F32's are."""

from __future__ import annotations

import torch

from laya._checkpoints.config import CheckpointConfig
from laya._checkpoints.source import CheckpointFiles
from laya._forward.device import Precision, choose_precision, narrow_precisions
from laya._forward.torch_forward import TorchForward
from laya._pipeline.engine import Engine
from laya._pipeline.samples import furthest, sample_probabilities
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import CheckpointError

DRIFT = 0.01
"""How far a probability may move on the built-in texts; half of what is promised, since others move further."""


def load_forward(
    files: CheckpointFiles,
    config: CheckpointConfig,
    tokenizer: TextTokenizer,
    device: torch.device,
    fast: bool,
    compile: bool,
) -> TorchForward:
    """The network of a checkpoint on a device; `fast` takes the first narrow type that moves no answer too far.

    Each type is loaded to be tried, one after the other, so that memory never holds two.
    """

    def probabilities(precision: Precision) -> list[float]:
        forward = TorchForward.load(files, config, device, precision, compile=False)
        return sample_probabilities(Engine(tokenizer, forward, config))

    def stays_close(precision: Precision) -> bool:
        try:
            return furthest(probabilities(precision), exact) <= DRIFT
        except CheckpointError:  # NaN, where a value is too large for the type
            return False

    chosen = choose_precision(device, config.amp_dtype)
    narrow = narrow_precisions(device, config.amp_dtype) if fast else []
    if narrow:
        exact = probabilities(Precision())
        chosen = next(filter(stays_close, narrow), chosen)
    return TorchForward.load(files, config, device, chosen, compile)
