"""Store the weights of an exported network in 8 bits, as far as its answers stay where they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from laya._checkpoints.config import CheckpointConfig
from laya._forward import onnx_graph
from laya._forward.onnx_forward import CPU, OnnxForward
from laya._pipeline.engine import Engine
from laya._pipeline.samples import furthest, sample_probabilities
from laya._pipeline.tokenizer import TextTokenizer

DRIFT = 0.015
"""How far a probability may move on the built-in texts; half of what is promised, since others move further."""


def quantize(model: Path, target: Path, tokenizer: TextTokenizer, config: CheckpointConfig) -> tuple[int, int]:
    """Write `model` with int8 weights to `target`; returns how many products are int8, and of how many.

    Errors of early layers grow on the way, so products stay F32 from the front until no answer about a few
    built-in texts moves by more than `DRIFT`. A `RuntimeWarning` says so where that leaves less than half.
    """
    import onnx

    nodes = onnx.load(str(model), load_external_data=False).graph.node
    products = [node.name for node in nodes if node.op_type == "MatMul"]
    always = [name for name in products if name.startswith(onnx_graph.UNQUANTIZED)]
    large = [name for name in products if name not in always]
    exact = _probabilities(model, tokenizer, config)
    written: list[int] = []

    def write(kept: int) -> None:
        if written[-1:] != [kept]:
            _write(model, target, always + large[:kept])
            written.append(kept)

    def close(kept: int) -> bool:
        write(kept)
        return furthest(_probabilities(target, tokenizer, config), exact) <= DRIFT

    kept = _least(len(large), close)
    write(kept)
    if kept > len(large) / 2:
        warnings.warn(
            f"{target.name}: only {len(large) - kept} of {len(large)} matrix products could be stored in 8 bits; more "
            f"would move a probability by over {DRIFT:g}, so the file is hardly smaller or faster than F32",
            RuntimeWarning,
            stacklevel=4,
        )
    return len(large) - kept, len(large)


def _least(most: int, good: Callable[[int], bool]) -> int:
    """About the least count that is good, by bisection; `most` is taken to be. A trial of a large model is slow."""
    if good(0):
        return 0
    low, high, step = 0, most, max(1, most // 16)
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _write(model: Path, target: Path, excluded: list[str]) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for file in (target, target.with_name(f"{target.name}.data")):
        file.unlink(missing_ok=True)
    quantize_dynamic(
        str(model),
        str(target),
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=excluded,
        use_external_data_format=model.with_name(f"{model.name}.data").exists(),
        # onnx infers no types behind onnxruntime's own operators; every activation here is F32.
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def _probabilities(model: Path, tokenizer: TextTokenizer, config: CheckpointConfig) -> list[float]:
    return sample_probabilities(Engine(tokenizer, OnnxForward(model, [CPU]), config))
