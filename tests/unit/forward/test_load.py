"""Loading a checkpoint: what is read, and what is refused by name."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from laya._checkpoints.config import load_config
from laya._checkpoints.source import resolve_checkpoint
from laya._forward.device import Precision
from laya._forward.load import load_weights
from laya._forward.torch_forward import TorchForward
from laya.errors import CheckpointError, CheckpointFormatError, CheckpointNotFoundError
from tests.unit.forward.networks import loaded_network

pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")


def load(root: Path) -> TorchForward:
    """Load a forward as an agent does."""
    files = resolve_checkpoint(root)
    return TorchForward.load(files, load_config(files.config), torch.device("cpu"), Precision(), False)


@pytest.fixture
def copy(checkpoints: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may spoil."""
    return Path(shutil.copytree(checkpoints / "bert", tmp_path / "bert"))


def rewrite(root: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """Change the tensors of a checkpoint."""
    path = root / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    return path


@pytest.mark.parametrize("name", ["english", "multilingual", "typed-decisions", "bert"])
def test_every_tensor_of_the_file_is_in_use(checkpoints: Path, name: str) -> None:
    """Converted to F32, bit for bit; only BERT's pooler has no part in an answer."""
    network = loaded_network(checkpoints / name)
    weights = network.state_dict()
    for key, tensor in load_file(checkpoints / name / "model.safetensors").items():
        if key.startswith("encoder.pooler."):
            continue
        assert weights[key].dtype is torch.float32
        assert torch.equal(weights[key], tensor.float()), key
    assert not any(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_a_missing_tensor_is_named(copy: Path) -> None:
    """With the file that lacks it."""
    path = rewrite(copy, lambda tensors: tensors.pop("scorer.1.weight"))
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors lacks .*scorer\.1\.weight") as caught:
        load(copy)
    assert caught.value.path == path


def test_an_unknown_tensor_is_named(copy: Path) -> None:
    """A tensor that nothing reads belongs to another architecture."""
    rewrite(copy, lambda tensors: tensors.update({"lora.weight": torch.zeros(2)}))
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors .*unknown .*lora\.weight"):
        load(copy)


def test_a_tensor_of_another_shape_is_named(copy: Path) -> None:
    """With both shapes."""
    rewrite(copy, lambda tensors: tensors.update({"scorer.3.weight": torch.zeros(2, 64)}))
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors.*scorer\.3\.weight.*\[2, 64\].*\[1, 64\]"):
        load(copy)


def test_the_carried_temperatures_may_be_missing(copy: Path) -> None:
    """No answer depends on them."""
    rewrite(copy, lambda tensors: tensors.pop("temperature"))
    assert load(copy).network.temperature.tolist() == [1.0, 1.0, 1.0]


def test_a_pooler_of_the_encoder_is_left_out(copy: Path) -> None:
    """Exports of whole encoders hold one; CLS is read without it."""
    rewrite(copy, lambda tensors: tensors.update({"encoder.pooler.dense.bias": torch.zeros(64)}))
    assert "encoder.pooler.dense.bias" not in loaded_network(copy).state_dict()
    rewrite(copy, lambda tensors: [tensors.pop(name) for name in list(tensors) if "pooler" in name])
    load(copy)


@pytest.mark.parametrize("layers", [0, 2])
def test_another_number_of_head_layers_is_refused(copy: Path, layers: int) -> None:
    """The configuration belongs to other weights."""
    path = copy / "rl_agent_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "head_layers": layers}))
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors .*head\.layers\.[01]"):
        load(copy)


def test_another_number_of_actions_is_refused(copy: Path) -> None:
    """`act_costs` decides the width of the act head."""
    path = copy / "rl_agent_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "act_costs": {"escalate": 0.5}}))
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors.*act_head\.2"):
        load(copy)


@pytest.mark.parametrize("keep", [0, 5, 100, 20_000, -1])
def test_truncated_weights_are_named(copy: Path, keep: int) -> None:
    """An interrupted copy is no checkpoint."""
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors") as caught:
        load(copy)
    assert caught.value.path == path


def test_weights_of_another_format_are_named(copy: Path) -> None:
    """A pickled file, or a page that says 404."""
    (copy / "model.safetensors").write_bytes(b"<html>404</html>" * 99)
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors"):
        load(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "encoder/config.json", "rl_agent_config.json"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    """As a FileNotFoundError too."""
    (copy / name).unlink()
    with pytest.raises(CheckpointNotFoundError, match=name.rsplit("/", maxsplit=1)[-1]):
        load(copy)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "no-such-model"},
        {"hidden_size": "64"},
        {"hidden_size": 0},
        {"num_attention_heads": 7},
        {"num_attention_heads": 0},
        {"hidden_act": "no-such-activation"},
    ],
    ids=repr,
)
def test_an_encoder_that_cannot_be_built_is_named(copy: Path, change: dict[str, Any]) -> None:
    """The file at fault is the encoder's configuration."""
    path = copy / "encoder" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CheckpointError, match=r"config\.json") as caught:
        load(copy)
    assert caught.value.path == path


def test_an_interval_of_global_layers_that_is_no_number_is_not_used(checkpoints: Path, tmp_path: Path) -> None:
    """Where the layers are listed they decide; where they are not, transformers refuses the interval."""
    root = Path(shutil.copytree(checkpoints / "english", tmp_path / "english"))
    path = root / "encoder" / "config.json"
    config = {**json.loads(path.read_text()), "global_attn_every_n_layers": "x"}
    path.write_text(json.dumps(config))
    try:
        load(root)
    except CheckpointError as error:
        assert error.path == path
    path.write_text(json.dumps({key: value for key, value in config.items() if key != "layer_types"}))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load(root)


def test_weights_that_cannot_be_read_are_named(checkpoints: Path, tmp_path: Path) -> None:
    """By the system's own reason: safetensors would say that there is no such file."""
    network = loaded_network(checkpoints / "bert")
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory") as caught:
        load_weights(network, tmp_path, lambda tensor: tensor)
    assert caught.value.path == tmp_path


def test_an_encoder_of_another_size_is_refused(copy: Path) -> None:
    """Its tensors have other shapes."""
    path = copy / "encoder" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 901}))
    with pytest.raises(CheckpointFormatError, match=r"word_embeddings\.weight"):
        load(copy)


def test_nothing_is_written_into_the_checkpoint(copy: Path) -> None:
    """Images are mounted read-only; file times and names stay as they are."""

    def listing() -> list[tuple[str, int, int]]:
        return sorted((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in [copy, *copy.rglob("*")])

    for path in [*copy.rglob("*"), copy]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing()
    try:
        load(copy)
        assert listing() == before
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755)


def test_building_in_one_thread_leaves_others_alone(checkpoints: Path) -> None:
    """`torch.empty` is redirected for the loading thread only."""
    stop = threading.Event()
    meta: list[bool] = []

    def allocate() -> None:
        while not stop.is_set():
            meta.append(torch.empty(1).is_meta)

    thread = threading.Thread(target=allocate)
    thread.start()
    try:
        load(checkpoints / "bert")
    finally:
        stop.set()
        thread.join()
    assert meta
    assert not any(meta)
    assert not torch.empty(1).is_meta


def test_weights_outlive_their_file(copy: Path) -> None:
    """The file is mapped for loading alone: replacing it later changes no answer."""
    forward = load(copy)
    before = forward.network.scorer[1].weight.clone()
    path = copy / "model.safetensors"
    with path.open("r+b") as file:
        file.seek(-2000, os.SEEK_END)
        file.write(b"\0" * 2000)
        file.truncate(100)
    assert torch.equal(forward.network.scorer[1].weight, before)
