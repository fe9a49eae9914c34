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

    Types are tried one after the other, so that memory never holds two networks.
    """

    def load(precision: Precision, compile: bool) -> TorchForward:
        return TorchForward.load(files, config, device, precision, compile)

    def engine(forward: TorchForward) -> Engine:
        return Engine(tokenizer, forward, config)

    narrow = narrow_precisions(device, config.amp_dtype) if fast else []
    if narrow:
        exact = sample_probabilities(engine(load(Precision(), compile=False)))
    for precision in narrow:
        forward = load(precision, compile=False)
        if _stays_close(engine(forward), exact):
            return load(precision, compile) if compile else forward
        del forward
    return load(choose_precision(device, config.amp_dtype), compile)


def _stays_close(engine: Engine, exact: list[float]) -> bool:
    try:
        return furthest(sample_probabilities(engine), exact) <= DRIFT
    except CheckpointError:  # NaN, where a value is too large for the type
        return False
