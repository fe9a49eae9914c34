"""Which device is taken, and in what precision it computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from laya._forward.device import Precision, _pays_on_cpu, choose_device, choose_precision, narrow_precisions, pass_cost
from laya.errors import OptionError

CPU = torch.device("cpu")


@pytest.fixture
def only_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without accelerators, wherever the tests run."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def two_gpus(only_cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two CUDA devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("only_cpu")
def test_the_cpu_is_the_last_resort() -> None:
    """It is always there."""
    assert choose_device(None) == CPU
    assert choose_device("cpu") == CPU
    assert choose_device(CPU) == CPU


@pytest.mark.usefixtures("two_gpus")
def test_an_accelerator_is_preferred_and_its_index_kept() -> None:
    """CUDA goes before all others."""
    assert choose_device(None) == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device("cpu") == CPU


@pytest.mark.usefixtures("two_gpus")
def test_an_index_that_is_not_there_warns_and_falls_back() -> None:
    """As a device that isn't there does."""
    with pytest.warns(RuntimeWarning, match=r"'cuda:2' is not available.*'cuda'"):
        assert choose_device("cuda:2") == torch.device("cuda")


@pytest.mark.usefixtures("only_cpu")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "xpu"])
def test_an_unavailable_device_warns_and_falls_back(device: str) -> None:
    """The warning names both."""
    with pytest.warns(RuntimeWarning, match=f"'{device}' is not available.*'cpu'"):
        assert choose_device(device) == CPU


@pytest.mark.parametrize("nonsense", ["gpu", "", "cuda:x", "meta", 3.5, ["cpu"], "vulkan"], ids=repr)
def test_nonsense_is_refused(nonsense: Any) -> None:
    """Not replaced: it is a mistake in the caller's code."""
    with pytest.raises(OptionError, match=r"^device "):
        choose_device(nonsense)


def test_a_cpu_computes_in_f32() -> None:
    """Whatever the checkpoint was trained in."""
    assert choose_precision(CPU, "bf16") == Precision(torch.float32, None)


@pytest.mark.parametrize(
    ("bf16", "f16", "narrow"),
    [(0.5, 0.5, [torch.bfloat16, torch.float16]), (0.5, 1.0, [torch.bfloat16]), (1.0, 1.0, []), (0.9, 0.9, [])],
)
def test_fast_needs_a_cpu_that_is_faster_in_a_narrow_type(
    monkeypatch: pytest.MonkeyPatch, bf16: float, f16: float, narrow: list[torch.dtype]
) -> None:
    """Emulation is slower than F32, so the types are timed."""
    seconds = {torch.bfloat16: bf16, torch.float16: f16, torch.float32: 1.0}
    monkeypatch.setattr("laya._forward.device._product_seconds", lambda x, weight: seconds[weight.dtype])
    _pays_on_cpu.cache_clear()
    try:
        assert narrow_precisions(CPU, "bf16") == [Precision(dtype) for dtype in narrow]
    finally:
        _pays_on_cpu.cache_clear()


@pytest.mark.parametrize(
    ("amp", "native", "narrow"),
    [
        ("bf16", True, [torch.bfloat16, torch.float16]),
        ("bf16", False, [torch.float16]),
        ("fp16", True, [torch.float16, torch.bfloat16]),
    ],
)
def test_cuda_multiplies_in_what_it_has(
    monkeypatch: pytest.MonkeyPatch, amp: str, native: bool, narrow: list[torch.dtype]
) -> None:
    """F32 weights unless `fast`; what the checkpoint was trained in comes first."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: native)
    device = torch.device("cuda")
    assert choose_precision(device, amp) == Precision(torch.float32, narrow[0])
    assert narrow_precisions(device, amp) == [Precision(dtype) for dtype in narrow]


def test_mps_stores_half_precision_when_fast() -> None:
    """It has no autocast worth having."""
    assert choose_precision(torch.device("mps"), "bf16") == Precision(torch.float32, None)
    assert narrow_precisions(torch.device("mps"), "bf16") == [Precision(torch.float16)]


def test_an_accelerators_passes_are_larger() -> None:
    """A launch costs more there, and memory is bounded on both."""
    cpu, cuda = pass_cost(CPU, packed=False), pass_cost(torch.device("cuda", 0), packed=False)
    assert cuda.overhead > cpu.overhead
    assert cuda.budget > cpu.budget > 0


def test_packed_rows_cost_no_padding() -> None:
    """So that plans fill passes, whatever the lengths."""
    assert pass_cost(CPU, packed=False).padded
    assert not pass_cost(CPU, packed=True).padded
