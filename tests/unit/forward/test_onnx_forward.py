"""An exported graph computes what the network computes, at every shape; other files are refused by name."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import laya
from laya._checkpoints.config import load_config, load_encoder_config
from laya._checkpoints.source import resolve_checkpoint
from laya._forward import onnx_export
from laya._forward.device import Precision, choose_device
from laya._forward.onnx_forward import CPU, METADATA, OnnxForward, choose_providers
from laya._forward.torch_forward import TorchForward
from laya._pipeline.batches import Batch
from laya.errors import CheckpointFormatError, OptionError
from tests.unit.forward.networks import loaded_network

ROOT = Path(__file__).parents[3]
CHECKPOINTS = ("english", "multilingual", "typed-decisions", "bert")

# Two of the small checkpoints hold temperatures that are replaced at load, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie in:RuntimeWarning")


@pytest.fixture(scope="module")
def exported(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An F32 export of each small checkpoint."""
    folder = tmp_path_factory.mktemp("onnx")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*temperatures must lie in")
        return {name: laya.export_onnx(checkpoints / name, folder / f"{name}.onnx") for name in CHECKPOINTS}


def torch_forward(checkpoint: Path) -> TorchForward:
    """The network of a checkpoint, in F32."""
    files = resolve_checkpoint(checkpoint)
    return TorchForward.load(files, load_config(files.config), choose_device("cpu"), Precision(), False)


def random_batch(random: np.random.Generator, rows: int, length: int, options: int) -> Batch:
    """Rows of different lengths and option counts; the first fills its row."""
    ids = random.integers(0, 900, (rows, length))
    attention = np.ones((rows, length), dtype=np.int64)
    places, shown = np.zeros((rows, options), dtype=np.int64), np.zeros((rows, options), dtype=np.bool_)
    for row in range(rows):
        tokens = length if row == 0 else int(random.integers(3, length + 1))
        count = options if row == 0 else int(random.integers(1, options + 1))
        attention[row, tokens:] = 0
        places[row, :count] = random.integers(0, tokens, count)
        shown[row, :count] = True
    return Batch(ids, attention, places, shown, random.integers(0, 3, rows))


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_shape_computes_what_the_network_computes(name, checkpoints, exported):
    """Three tokens to max_len, one to seven rows, two to twelve options, padding beyond the sliding window."""
    network, forward = torch_forward(checkpoints / name), OnnxForward(exported[name], [CPU])
    longest = load_config(checkpoints / name / "rl_agent_config.json").max_len
    random = np.random.default_rng(7)
    for length in (3, 4, 7, 8, 9, 16, 17, 25, 33, 64, 127, longest):
        for rows in (1, 2, 7):
            batch = random_batch(random, rows, length, int(random.integers(2, 13)))
            for ours, theirs in zip(forward(batch), network(batch), strict=True):
                assert ours.dtype == np.float32
                assert ours.shape == theirs.shape
                np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)


def test_the_file_declares_its_axes_and_its_checkpoint(exported, checkpoints):
    """Dynamic rows, length and options; digests as the Hub shows them."""
    model = onnx.load(str(exported["bert"]))
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in [*model.graph.input, *model.graph.output]
    }
    assert shapes == {
        "input_ids": ["n", "L"],
        "attention_mask": ["n", "L"],
        "marker_pos": ["n", "K"],
        "marker_mask": ["n", "K"],
        "qtype": ["n"],
        "logits": ["n", "K"],
        "act_logits": ["n", 1],
    }
    described = json.loads({entry.key: entry.value for entry in model.metadata_props}[METADATA])
    assert described["max_positions"] == 256
    assert described["encoder"] == "bert"
    assert described["opset"] == model.opset_import[0].version
    weights = (checkpoints / "bert" / "model.safetensors").read_bytes()
    assert described["sha256"]["model.safetensors"] == hashlib.sha256(weights).hexdigest()


def test_rotary_encoders_have_no_last_position(exported):
    """Only learned position tables end."""
    assert OnnxForward(exported["english"], [CPU]).max_positions is None
    assert OnnxForward(exported["bert"], [CPU]).max_positions == 256


def test_large_weights_lie_beside_the_model(checkpoints, tmp_path):
    """A protobuf file ends at 2 GiB; without the file beside it the model is refused by name."""
    files = resolve_checkpoint(checkpoints / "bert")
    config, encoder_config = load_config(files.config), load_encoder_config(files.encoder_config)
    network = loaded_network(checkpoints / "bert")
    path = tmp_path / "large.onnx"
    onnx_export._write(network, path, config, encoder_config, {}, single_file_bytes=1000)
    assert (tmp_path / "large.onnx.data").stat().st_size > path.stat().st_size
    batch = random_batch(np.random.default_rng(1), 2, 20, 3)
    with torch.inference_mode():
        expected = network(*map(torch.from_numpy, batch))[0].numpy()
    np.testing.assert_allclose(OnnxForward(path, [CPU])(batch)[0], expected, atol=1e-4)
    (tmp_path / "large.onnx.data").unlink()
    with pytest.raises(CheckpointFormatError, match=r"large\.onnx.*\.data file"):
        OnnxForward(path, [CPU])


@pytest.mark.parametrize("damage", ["empty", "text", "cut"])
def test_a_damaged_file_is_refused_by_name(damage, exported, tmp_path):
    """Whatever onnxruntime says about it."""
    path = tmp_path / "damaged.onnx"
    content = exported["bert"].read_bytes()
    path.write_bytes({"empty": b"", "text": b"not a model", "cut": content[: len(content) // 2]}[damage])
    with pytest.raises(CheckpointFormatError, match=r"damaged\.onnx"):
        OnnxForward(path, [CPU])


def test_a_model_of_another_kind_is_refused(tmp_path):
    """The message names what it takes and what a decision model takes."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "other", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "other.onnx")
    with pytest.raises(CheckpointFormatError, match=r"other\.onnx takes x and gives y.*input_ids"):
        OnnxForward(tmp_path / "other.onnx", [CPU])


def test_the_cpu_is_always_there():
    """Whatever accelerator is asked for or found, the CPU comes last."""
    assert choose_providers()[-1] == CPU
    assert choose_providers(CPU) == [CPU]
    assert choose_providers([(CPU, {"use_arena": "0"})]) == [(CPU, {"use_arena": "0"})]


def test_an_absent_provider_is_a_warning():
    """As an absent torch device is."""
    with pytest.warns(RuntimeWarning, match="'CoreMLExecutionProvider' is not available"):
        assert choose_providers(["CoreMLExecutionProvider"])[-1] == CPU


@pytest.mark.parametrize("wrong", ["cuda", [], 3, ["CPU"], [None]])
def test_what_is_no_provider_is_refused(wrong):
    """A value error that names the argument."""
    with pytest.raises(OptionError, match="providers"):
        choose_providers(wrong)


def test_an_unknown_encoder_is_refused_before_anything_is_written(checkpoints, tmp_path):
    """The message names the encoders that can be exported."""
    from transformers import RobertaConfig, RobertaModel

    from laya._forward.network import DecisionNetwork

    shape = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 64}
    settings = RobertaConfig(vocab_size=900, max_position_embeddings=130, **shape)
    network = DecisionNetwork(RobertaModel(settings, add_pooling_layer=False), 64, 1, 1)
    config = load_config(checkpoints / "bert" / "rl_agent_config.json")
    with pytest.raises(OptionError, match=r"modernbert, bert.*'roberta'"):
        onnx_export._write(network, tmp_path / "x.onnx", config, settings.to_dict(), {})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_activation_is_refused(checkpoints, tmp_path):
    """It would be computed as another one."""
    folder = shutil.copytree(checkpoints / "bert", tmp_path / "bert")
    config = json.loads((folder / "encoder" / "config.json").read_text())
    (folder / "encoder" / "config.json").write_text(json.dumps({**config, "hidden_act": "gelu_new"}))
    with pytest.raises(OptionError, match=r"gelu and relu.*'gelu_new'"):
        laya.export_onnx(folder, tmp_path / "x.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int4"}, "quantize must be None or 'int8'"),
        ({"path": "/nowhere/at/all/laya.onnx"}, "there is no directory '/nowhere/at/all'"),
        ({"path": ""}, "path: '' is a directory; name a file, such as 'laya.onnx'"),
        ({"path": "/"}, "path: '/' is a directory; name a file"),
        ({"path": None}, "path must be the name of the file to write, got NoneType"),
        ({"path": b"x.onnx"}, "path must be the name of the file to write, got bytes"),
        ({"path": "/tmp/" + "x" * 300}, "path: '/tmp/xxx.* can't be written: File name too long"),
        pytest.param(
            {"path": "/proc/laya.onnx"},
            "path: nothing can be written into '/proc'",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write into"),
        ),
        ({"model": 3}, "model must be an Agent"),
    ],
)
def test_bad_arguments_of_an_export_are_named(arguments, message, checkpoints, tmp_path):
    """Before anything is loaded."""
    with pytest.raises(OptionError, match=message):
        laya.export_onnx(**{"model": checkpoints / "bert", "path": tmp_path / "x.onnx", **arguments})


@pytest.mark.parametrize("use", ["laya.ONNXAgent('x')", "laya.export_onnx('x', '/tmp/x.onnx')"])
def test_without_the_extra_the_error_names_it(use):
    """The names can be imported, using them says what to install."""
    program = (
        "import sys; sys.modules['onnxruntime'] = None; import laya\n"
        f"try:\n    {use}\nexcept ImportError as error: print(error)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    assert "pip install 'laya-integrations[onnx]'" in outcome.stdout
