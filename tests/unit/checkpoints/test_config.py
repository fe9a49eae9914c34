"""What a checkpoint's JSON files may say, and what is refused."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from laya._checkpoints.config import (
    CheckpointConfig,
    SpecialTokens,
    bucket,
    load_config,
    load_encoder_config,
    load_tokenizer_names,
)
from laya._pipeline.calibration import Temperatures
from laya.errors import CheckpointFormatError, CheckpointNotFoundError

CHECKPOINTS = Path(__file__).parents[2] / "data" / "checkpoints"


def read(tmp_path: Path, content: object) -> CheckpointConfig:
    """Load a config of this content; bytes are written as they are."""
    path = tmp_path / "rl_agent_config.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return load_config(path)


def test_english_config_is_read_and_its_one_low_temperature_replaced() -> None:
    """The published english config has one bucket below the range; one warning names it."""
    path = CHECKPOINTS / "english" / "rl_agent_config.json"
    with pytest.warns(RuntimeWarning) as caught:
        config = load_config(path)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "choice:11+=float 0.1005828 -> 0.5" in message
    assert str(path) in message
    assert (config.max_len, config.head_max_len, config.head_layers) == (160, 64, 2)
    assert config.temperature == (1.636903, 1.25143, 1.9833995)
    assert config.temperature_by_options["choice:11+"] == 0.5
    assert config.temperature_by_options["choice:3-5"] == 1.7601519
    assert (config.actions, config.amp_dtype, config.model_name) == (2, "bf16", "rl-agent")
    assert config.raw["temperature_by_options"]["choice:11+"] == 0.1005828
    assert config.raw["cost_wrong_act"] == 3.0


@pytest.mark.parametrize(("name", "actions", "layers"), [("multilingual", 2, 2), ("bert", 1, 1)])
def test_configs_without_bad_temperatures_load_silently(name: str, actions: int, layers: int) -> None:
    """Nothing is said about a checkpoint that has nothing to replace."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = load_config(CHECKPOINTS / name / "rl_agent_config.json")
    assert (config.actions, config.head_layers, config.temperature) == (actions, layers, (1.0, 1.0, 1.0))


def test_an_empty_config_gets_the_defaults(tmp_path: Path) -> None:
    """Everything has a default, and null counts as missing."""
    for content in ({}, {"max_len": None, "temperature": None, "act_costs": None, "model_name": None}):
        config = read(tmp_path, content)
        assert (config.max_len, config.head_max_len, config.head_layers) == (512, 192, 2)
        assert config.temperature == (1.0, 1.0, 1.0)
        assert dict(config.temperature_by_options) == {}
        assert (config.actions, config.amp_dtype, config.model_name) == (1, "bf16", None)


def test_a_head_budget_may_exceed_the_whole(tmp_path: Path) -> None:
    """A short max_len beside the default head budget is loaded; what doesn't fit is refused by question."""
    config = read(tmp_path, {"max_len": 128})
    assert (config.max_len, config.head_max_len) == (128, 192)


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("1.25", 1.25),
        ("1", 1.0),
        ("0.5", 0.5),
        ("5", 5.0),
        ("0.49", 0.5),
        ("-3", 0.5),
        ("0", 0.5),
        ("5.01", 5.0),
        ("1" + "0" * 400, 5.0),
        ("true", 1.0),
        ("false", 1.0),
        ('"2.0"', 1.0),
        ("null", 1.0),
        ("[2.0]", 1.0),
        ("NaN", 1.0),
        ("Infinity", 1.0),
        ("-Infinity", 1.0),
        ("1e999", 1.0),
    ],
)
def test_every_temperature_is_confined(tmp_path: Path, written: str, used: float) -> None:
    """Numbers are clamped to [0.5, 5], all else becomes 1, and whatever changed is named."""
    content = f'{{"temperature": [1, {written}, 1], "temperature_by_options": {{"noul:2": {written}}}}}'
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = read(tmp_path, content.encode())
    assert config.temperature == (1.0, used, 1.0)
    assert config.temperature_by_options["noul:2"] == used
    assert all(type(t) is float for t in config.temperature)
    changed = written not in ("1.25", "1", "0.5", "5")
    assert [w.category for w in caught] == ([RuntimeWarning] if changed else [])
    if changed:
        message = str(caught[0].message)
        assert "temperature[1]=" in message
        assert "noul:2=" in message
        assert "temperature[0]" not in message
        assert len(message) < 500


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_len", 0),
        ("max_len", -1),
        ("max_len", True),
        ("max_len", "512"),
        ("max_len", 512.5),
        ("head_max_len", 0),
        ("head_max_len", []),
        ("head_layers", -1),
        ("head_layers", 1.0),
        ("temperature", [1.0, 1.0]),
        ("temperature", [1.0] * 4),
        ("temperature", 1.0),
        ("temperature", {"choice": 1.0}),
        ("temperature_by_options", [1.0]),
        ("act_costs", ["escalate"]),
        ("act_costs", 1),
        ("amp_dtype", 16),
        ("model_name", ["laya"]),
    ],
)
def test_a_wrong_type_names_file_and_key(tmp_path: Path, key: str, value: object) -> None:
    """What can't be used is refused with the file, the key and the value's type."""
    with pytest.raises(CheckpointFormatError) as raised:
        read(tmp_path, {key: value})
    for part in (str(tmp_path / "rl_agent_config.json"), repr(key), type(value).__name__):
        assert part in str(raised.value)
    assert raised.value.path == tmp_path / "rl_agent_config.json"
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"", "line 1, column 1"),
        (b'{"max_len": 512,\n "head_max', "line 2, column 2"),
        (b'{"model_name": "caf\xe9"}', "byte 19"),
        (b"[1, 2]", "object is needed"),
        (b'"config"', "object is needed"),
        (b"null", "object is needed"),
        (b"version https://git-lfs.github.com/spec/v1\n", "line 1, column 1"),
        (b"[" * 200_000, "not usable JSON"),
        (b'{"max_len": ' + b"9" * 5000 + b"}", "not usable JSON"),
    ],
    ids=["empty", "truncated", "latin-1", "list", "string", "null", "pointer", "deep", "long integer"],
)
def test_unreadable_json_names_file_and_place(tmp_path: Path, content: bytes, where: str) -> None:
    """A file that is no JSON object is refused with its name and the position of the fault."""
    with pytest.raises(CheckpointFormatError, match=re.escape(where)) as raised:
        read(tmp_path, content)
    assert "rl_agent_config.json" in str(raised.value)


def test_byte_order_mark_and_repeated_keys_are_fine(tmp_path: Path) -> None:
    """What other JSON readers accept is accepted; the last of two equal keys counts."""
    assert read(tmp_path, b'\xef\xbb\xbf{"max_len": 1, "max_len": 256}').max_len == 256


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    """A file that vanished since it was resolved is a FileNotFoundError."""
    with pytest.raises(CheckpointNotFoundError, match=r"gone\.json"):
        load_config(tmp_path / "gone.json")


@pytest.mark.parametrize(
    ("n_options", "size"),
    [(1, "2"), (2, "2"), (3, "3-5"), (5, "3-5"), (6, "6-10"), (10, "6-10"), (11, "11+"), (5000, "11+")],
)
def test_buckets_end_at_two_five_and_ten(n_options: int, size: str) -> None:
    """The edges are the same for all types; one option counts as two."""
    for kind in ("choice", "score", "noul"):
        assert bucket(kind, n_options) == f"{kind}:{size}"


def test_a_bucket_goes_before_its_type(tmp_path: Path) -> None:
    """Without a bucket of its own a question takes the temperature of its type."""
    content = {"temperature": [1.1, 1.2, 1.3], "temperature_by_options": {"choice:2": 2.0, "noul:2": 3.0}}
    config = read(tmp_path, content)
    assert Temperatures.of_checkpoint(config).of("choice", 2) == 2.0
    assert Temperatures.of_checkpoint(config).of("choice", 3) == 1.1
    assert Temperatures.of_checkpoint(config).of("score", 2) == 1.2
    assert Temperatures.of_checkpoint(config).of("noul", 2) == 3.0


def test_encoder_config_comes_back_as_it_is() -> None:
    """RoPE parameters and all other keys are handed on untouched."""
    path = CHECKPOINTS / "english" / "encoder" / "config.json"
    config = load_encoder_config(path)
    assert config == json.loads(path.read_text())
    assert config["rope_parameters"]["sliding_attention"]["rope_theta"] == 10000.0


@pytest.mark.parametrize("content", [{}, {"model_type": ""}, {"model_type": 3}])
def test_an_encoder_config_without_model_type_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    """Without it no encoder can be built, so the file is named at once."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointFormatError, match="'model_type'"):
        load_encoder_config(path)


def test_special_tokens_of_the_published_tokenizers() -> None:
    """Both families of names are read."""
    english = load_tokenizer_names(CHECKPOINTS / "english" / "tokenizer" / "tokenizer_config.json")
    assert english == SpecialTokens(cls="[CLS]", sep="[SEP]", mask="[MASK]", pad="[PAD]")
    multilingual = load_tokenizer_names(CHECKPOINTS / "multilingual" / "tokenizer" / "tokenizer_config.json")
    assert multilingual == SpecialTokens(cls="<bos>", sep="<eos>", mask="<mask>", pad="<pad>")


def test_tokens_may_be_objects_and_bos_and_eos_stand_in(tmp_path: Path) -> None:
    """Older files describe a token as an object, or name only the ends of a text."""
    path = tmp_path / "tokenizer_config.json"
    mask = {"content": "<mask>", "lstrip": True}
    tokens = {"bos_token": "<s>", "cls_token": None, "eos_token": {"content": "</s>"}, "mask_token": mask}
    path.write_text(json.dumps(tokens | {"pad_token": "<pad>"}))
    assert load_tokenizer_names(path) == SpecialTokens(cls="<s>", sep="</s>", mask="<mask>", pad="<pad>")


@pytest.mark.parametrize("key", ["cls_token", "sep_token", "mask_token", "pad_token"])
@pytest.mark.parametrize("value", [None, "", 5, {}, {"content": None}, ["[CLS]"]])
def test_a_missing_token_is_named(tmp_path: Path, key: str, value: object) -> None:
    """Every one of the four is needed, and a value that names no token is as good as none."""
    path = tmp_path / "tokenizer_config.json"
    tokens: dict[str, object] = {"cls_token": "a", "sep_token": "b", "mask_token": "c", "pad_token": "d"}
    path.write_text(json.dumps(tokens | {key: value}))
    with pytest.raises(CheckpointFormatError, match=f"tokenizer_config.json.*'{key}'"):
        load_tokenizer_names(path)
