"""Write a checkpoint as an ONNX file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from laya._checkpoints.config import CheckpointConfig, load_config, load_encoder_config, load_tokenizer_names
from laya._checkpoints.identity import GRAPH_FILES, file_digest
from laya._checkpoints.source import CheckpointFiles, resolve_checkpoint
from laya._forward import onnx_graph, rope
from laya._forward.load import build_network, load_weights
from laya._forward.network import DecisionNetwork
from laya._pipeline.batches import Batch
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import LayaError, OptionError

if TYPE_CHECKING:
    import onnx

    from laya.agent import Agent

_SINGLE_FILE_BYTES = 1_900_000_000
"""A protobuf message ends at 2 GiB; from here on the weights go into a file beside it."""
_IR_VERSION = 8
_TOLERANCE = 1e-3


def export_onnx(
    model: Agent | str | os.PathLike[str], path: str | os.PathLike[str], quantize: str | None = None
) -> Path:
    """Write a checkpoint as an ONNX file for `ONNXAgent`, and return its path.

    `model` is a checkpoint's directory or Hub id, or an `Agent`, of which the checkpoint is taken: the export is
    F32 whatever the agent computes in. `quantize="int8"` stores the weights of large matrix products in 8 bits,
    of as many as leave every probability within 0.015 on a few built-in texts; an answer then also depends, a
    little, on what shares its pass, since onnxruntime rounds by the range of a whole pass. The file records the
    digests of the checkpoint that it belongs to. Weights beyond 2 GB go into `<path>.data` beside it, which has
    to stay there.

    The graph is compared with the network before the file is put in place. Encoders: ModernBERT and BERT.
    Raises `OptionError` (a `ValueError`) for others and for a path that can't be written, and `ImportError` without
    the `onnx` extra.
    """
    if quantize not in (None, "int8"):
        raise OptionError(f"quantize must be None or 'int8', got {quantize!r:.40}", option="quantize")
    target = _target(path)
    _require_onnx()
    files = _checkpoint_of(model)
    config, encoder_config = load_config(files.config), load_encoder_config(files.encoder_config)
    with _draft_folder(target.parent) as folder:
        network = build_network(encoder_config, config, files.encoder_config)
        load_weights(network, files.weights, lambda tensor: tensor.to(dtype=torch.float32, copy=True))
        network.eval()
        draft = folder / target.name
        description = _describe(network, files, encoder_config, quantize)
        _write(network, draft, config, encoder_config, description)
        _compare(network, draft, config)
        if quantize:
            del network
            draft = _quantized(draft, files, config, description)
        # The weights first: the model file is what a reader looks for.
        for file in (draft.with_name(f"{draft.name}.data"), draft):
            if file.exists():
                file.replace(target.parent / file.name)
    return target


def _target(path: Any) -> Path:
    """The file to write; its folder has to be there."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise OptionError(f"path must be the name of the file to write, got {type(path).__name__}", option="path")
    target = Path(os.path.expanduser(path))
    try:
        taken, there = target.is_dir(), target.parent.is_dir()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise OptionError(f"path: {str(target)!r:.200} can't be written: {error.strerror}", option="path") from error
    if taken:
        raise OptionError(
            f"path: {os.fspath(path)!r} is a directory; name a file, such as {str(target / 'laya.onnx')!r}",
            option="path",
        )
    if not there:
        raise OptionError(f"path: there is no directory {str(target.parent)!r}; create it first", option="path")
    return target


@contextmanager
def _draft_folder(parent: Path) -> Iterator[Path]:
    """A folder beside the target, where a file that is moved into place arrives whole."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=".laya-export-", dir=parent)
    except OSError as error:
        raise OptionError(
            f"path: nothing can be written into {str(parent)!r} ({error.strerror}); name a file in another directory",
            option="path",
        ) from error
    with folder as name:
        yield Path(name)


def _require_onnx() -> None:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            "export_onnx needs onnx and onnxruntime; install them with: pip install 'laya-integrations[onnx]'"
        ) from error
    del onnx, onnxruntime


def _checkpoint_of(model: Any) -> CheckpointFiles:
    if isinstance(model, (str, os.PathLike)):
        return resolve_checkpoint(model)
    from laya.agent import Agent

    if not isinstance(model, Agent):
        raise OptionError(
            f"model must be an Agent, a checkpoint's directory or a Hub id, got {type(model).__name__}", option="model"
        )
    return model._files


def _describe(
    network: DecisionNetwork, files: CheckpointFiles, encoder_config: Mapping[str, Any], quantize: str | None
) -> dict[str, Any]:
    rotary = bool(rope.thetas_in_use(network.encoder))
    return {
        "sha256": {name: file_digest(files.root / name) for name in GRAPH_FILES},
        "max_positions": None if rotary else encoder_config.get("max_position_embeddings"),
        "encoder": encoder_config["model_type"],
        "opset": onnx_graph.OPSET,
        "quantize": quantize,
    }


def _write(
    network: DecisionNetwork,
    path: Path,
    config: CheckpointConfig,
    encoder_config: Mapping[str, Any],
    description: Mapping[str, Any],
    single_file_bytes: int = _SINGLE_FILE_BYTES,
) -> None:
    import onnx

    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    graph = onnx_graph.decision_graph(weights, encoder_config, config.head_layers, config.actions)
    opsets = [onnx.helper.make_opsetid("", onnx_graph.OPSET), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, producer_name="laya", ir_version=_IR_VERSION)
    _set_metadata(model, description)
    large = sum(array.nbytes for array in weights.values()) > single_file_bytes
    onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.name}.data" if large else None)


def _compare(network: DecisionNetwork, path: Path, config: CheckpointConfig) -> None:
    """Refuse a graph that answers otherwise than the network; raises `LayaError`."""
    from laya._forward.onnx_forward import CPU, OnnxForward

    forward = OnnxForward(path, [CPU])
    for length in (8, config.max_len):
        batch = _sample(network, length)
        with torch.inference_mode():
            expected = network(*(torch.from_numpy(array) for array in batch))
        for ours, theirs in zip(forward(batch), expected, strict=True):
            if not np.allclose(ours, theirs.numpy(), atol=_TOLERANCE, rtol=_TOLERANCE):
                raise LayaError(
                    "the ONNX graph and the network differ, so nothing was written; this encoder's configuration is "
                    "one that export_onnx doesn't know: use the checkpoint with Agent"
                )


def _sample(network: DecisionNetwork, length: int) -> Batch:
    """Two rows, the second half padding."""
    random = np.random.default_rng(0)
    vocabulary = network.encoder.get_input_embeddings().num_embeddings  # type: ignore[operator]
    mask = np.ones((2, length), dtype=np.int64)
    mask[1, length // 2 :] = 0
    options = np.array([[True, True, True], [True, False, False]])
    places = np.where(options, np.array([[1, 2, length - 1], [length // 2 - 1, 0, 0]]), 0)
    return Batch(random.integers(0, vocabulary, (2, length)), mask, places, options, np.array([0, 2]))


def _quantized(path: Path, files: CheckpointFiles, config: CheckpointConfig, description: dict[str, Any]) -> Path:
    """Quantize a model file; returns a file of the same name in a folder inside."""
    import onnx

    from laya._forward.onnx_int8 import quantize

    target = path.parent / "int8" / path.name
    target.parent.mkdir()
    tokenizer = TextTokenizer.from_file(files.tokenizer, load_tokenizer_names(files.tokenizer_config))
    count, of = quantize(path, target, tokenizer, config)
    model = onnx.load(str(target), load_external_data=False)
    _set_metadata(model, {**description, "int8_products": f"{count} of {of}"})
    onnx.save_model(model, str(target))
    return target


def _set_metadata(model: onnx.ModelProto, description: Mapping[str, Any]) -> None:
    from onnx import helper

    from laya._forward.onnx_forward import METADATA

    # The second key tells the quantizer that the graph needs no preparation.
    helper.set_model_props(model, {METADATA: json.dumps(description), "onnx.quant.pre_process": "onnxruntime.quant"})
