"""`fast=True` on a processor that is made to look fast in a narrow type; what it computes is real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from laya import Agent
from tests.integration.test_conformance import DATA, revive

NARROW = {"bf16": [torch.bfloat16], "f16": [torch.float16], "both": [torch.bfloat16, torch.float16]}
CHECKPOINTS = ["english", "multilingual", "typed-decisions", "bert"]
PROMISED = 0.02
"""How far a probability may move."""
TEMPERATURES = pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CLEAR = 0.05
"""Lead of an F32 answer that a narrow type must not turn round."""


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let products in some types look fast."""

    def looks_fast_in(types: str) -> None:
        monkeypatch.setattr("laya._forward.device._pays_on_cpu", NARROW[types].__contains__)

    return looks_fast_in


def probabilities(answer: dict[str, Any]) -> list[float]:
    """Of the options, or of yes and no."""
    if "noul" in answer:
        return [answer["noul"], 1 - answer["noul"]]
    return list(answer["probabilities"].values())


@TEMPERATURES
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_fast_answers_like_f32(name: str, device: str, checkpoints: Path, processor: Callable[[str], None]) -> None:
    """Recorded calls: no probability moves by more than 0.02, and no clear answer turns round."""
    processor("both")
    plain = Agent(checkpoints / name, device="cpu")
    fast = Agent(checkpoints / name, device=device, fast=True)
    cases = json.loads((DATA / "cases" / "predict.json").read_text("utf-8"))
    compared = 0
    for case in [case for case in cases if case["checkpoint"] == name][::2]:
        exact, narrow = (agent.predict(**revive(case["args"]))["answers"] for agent in (plain, fast))
        for key, answer in exact.items():
            ours, theirs = probabilities(answer), probabilities(narrow[key])
            assert max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) <= PROMISED, case["id"]
            actions = (answers[key]["action"]["act_probability"] for answers in (exact, narrow))
            assert abs(next(actions) - next(actions)) <= PROMISED, case["id"]
            first, second = [*sorted(ours, reverse=True), 0.0][:2]
            if first - second > CLEAR:
                assert ours.index(first) == theirs.index(max(theirs)), case["id"]
            compared += 1
    assert compared > 10


@TEMPERATURES
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_type_that_rounds_too_coarsely_is_passed_over(
    name: str, checkpoints: Path, processor: Callable[[str], None]
) -> None:
    """These networks are sharp: BF16 moves their answers by 0.02 and more, F16 by less than a hundredth."""
    processor("bf16")
    assert "float32" in repr(Agent(checkpoints / name, device="cpu", fast=True))
    processor("both")
    assert "float16" in repr(Agent(checkpoints / name, device="cpu", fast=True))


def test_a_type_too_small_for_the_values_is_passed_over(
    tmp_path: Path, checkpoints: Path, processor: Callable[[str], None]
) -> None:
    """Infinite in F16, so the answers would be NaN; F32 answers."""
    copied = Path(shutil.copytree(checkpoints / "bert", tmp_path / "large"))
    tensors = load_file(copied / "model.safetensors")
    name = next(key for key in tensors if key.endswith("layer.0.output.dense.weight"))
    tensors[name] = tensors[name].float() * 1e5
    save_file(tensors, copied / "model.safetensors")
    processor("f16")
    agent = Agent(copied, device="cpu", fast=True)
    assert "float32" in repr(agent)
    assert agent.predict("hello", {"angry": {"type": "noul", "instructions": "Angry?"}})


def test_an_ordinary_load_tries_nothing(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a fast one where no narrow type is faster: both load once and ask nothing."""
    asked: list[object] = []
    monkeypatch.setattr("laya._forward.fast.sample_probabilities", asked.append)
    monkeypatch.setattr("laya._forward.device._pays_on_cpu", lambda dtype: False)
    for fast in (False, True):
        assert "float32" in repr(Agent(checkpoints / "bert", device="cpu", fast=fast))
    assert asked == []
