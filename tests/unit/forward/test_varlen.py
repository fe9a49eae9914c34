"""Rows looked at by the kernel of accelerators, which gets a processor's version here, true to its rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import varlen  # noqa: F401 - defines the operator

from laya._forward.device import Precision, pass_cost
from laya._forward.packed import PackedNetwork
from laya._forward.packed.layout import lay_out
from laya._forward.packed.varlen import VarlenRows, varlen_works
from laya._forward.torch_forward import TorchForward
from tests.unit.forward.networks import ENCODERS, LENGTHS, agree, batch, network, padded

CPU, META = torch.device("cpu"), torch.device("meta")


def attention(
    q: Tensor, k: Tensor, v: Tensor, starts_q: Tensor, starts_k: Tensor, max_q: int, max_k: int, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """What the kernel computes: softmax over the keys of a row that are near enough; it writes nothing else."""
    assert starts_q.dtype == starts_k.dtype == torch.int32 and len(starts_q) == len(starts_k)
    assert q.shape[-1] % 8 == 0 and q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
    left, right = rest[2]
    mixed = torch.full(q.shape, torch.nan, dtype=q.dtype)
    for row in range(len(starts_q) - 1):
        queries, keys = (slice(int(starts[row]), int(starts[row + 1])) for starts in (starts_q, starts_k))
        count, length = queries.stop - queries.start, keys.stop - keys.start
        assert 0 < count <= max_q and 0 < length <= max_k
        scores = torch.einsum("qhd,khd->hqk", q[queries].float(), k[keys].float()) / q.shape[-1] ** 0.5
        if left >= 0:
            ahead = torch.arange(length) - torch.arange(count)[:, None] - (length - count)
            scores = scores.masked_fill((ahead > right) | (ahead < -left), -torch.inf)
        mixed[queries] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[keys].float()).to(q.dtype)
    return mixed, torch.empty(0), torch.empty(0)


@pytest.fixture
def kernel() -> Iterator[None]:
    """The operator on the CPU, for one test."""
    library = torch.library.Library("torch_attn", "IMPL")
    library.impl("_varlen_attn", attention, "CPU")
    varlen_works.cache_clear()
    yield
    library._destroy()
    varlen_works.cache_clear()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("head_layers", [0, 1, 2])
@pytest.mark.parametrize("name", ENCODERS)
def test_the_kernel_gets_the_logits_of_padded_rows(name: str, head_layers: int) -> None:
    """For every encoder, over rows shorter and longer than the window."""
    built = network(ENCODERS[name](), head_layers)
    inputs = batch(LENGTHS)
    laid = lay_out(inputs)
    with torch.inference_mode():
        wanted = padded(built, inputs)
        agree(PackedNetwork(built).compute(laid, VarlenRows.of(laid, CPU)), wanted, atol=2e-5)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["modernbert", "bert"])
def test_narrow_types_are_computed_too(name: str, dtype: torch.dtype) -> None:
    """As accelerators do with fast=True."""
    built = network(ENCODERS[name]())
    inputs = batch(LENGTHS)
    laid = lay_out(inputs)
    with torch.inference_mode():
        wanted = padded(built, inputs)
        logits, _ = PackedNetwork(built.to(dtype)).compute(laid, VarlenRows.of(laid, CPU))
    shown = torch.from_numpy(inputs.marker_mask)
    assert logits.dtype is torch.float32
    torch.testing.assert_close(logits[shown], wanted[0][shown], atol=0.1, rtol=0.1)


@pytest.mark.parametrize("name", ["modernbert", "bert"])
def test_a_pass_asks_nothing_of_the_host(name: str) -> None:
    """Tensors without values stand for a device's: what waits for a value, or lies on the CPU, is an error."""
    built = network(ENCODERS[name]()).to(META)
    laid = lay_out(batch(LENGTHS))
    with torch.inference_mode():
        logits, act_logits = PackedNetwork(built).compute(laid, VarlenRows.of(laid, META))
    assert (logits.shape, act_logits.shape) == ((len(LENGTHS), 3), (len(LENGTHS), 2))
    assert logits.device == act_logits.device == META


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_kernel_that_computes_attention_works(dtype: torch.dtype) -> None:
    """In every type, within that type's rounding."""
    assert varlen_works(CPU, dtype, 16)


def test_a_missing_kernel_does_not_work() -> None:
    """PyTorch has none for processors."""
    varlen_works.cache_clear()
    assert not varlen_works(CPU, torch.bfloat16, 16)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("change", ["window", "scale", "rows"])
def test_a_kernel_that_computes_something_else_does_not_work(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that passes over the window, scales otherwise or looks at other rows is not used."""
    monkeypatch.setattr("laya._forward.packed.varlen._kernel", lambda: wrong)

    def wrong(q: Tensor, k: Tensor, v: Tensor, *bounds: Any, window_size: tuple[int, int] = (-1, -1)) -> Tensor:
        starts_q, starts_k, max_q, max_k = bounds
        if change == "window":
            window_size = (-1, -1)
        elif change == "scale":
            q = q * 2
        else:
            v = v.roll(1, 0)
        return attention(q, k, v, starts_q, starts_k, max_q, max_k, False, None, window_size)[0]

    assert not varlen_works(CPU, torch.bfloat16, 16)


def test_memory_that_runs_out_is_no_missing_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be there next time, so it isn't remembered."""

    def exhausted(*given: Any, **named: Any) -> Tensor:
        raise torch.cuda.OutOfMemoryError("out of memory")

    monkeypatch.setattr("laya._forward.packed.varlen._kernel", lambda: exhausted)
    varlen_works.cache_clear()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        varlen_works(CPU, torch.bfloat16, 16)


def test_without_the_kernel_an_accelerator_pads() -> None:
    """Its own device decides, before the network gives up any weight."""
    assert not PackedNetwork.knows(network(ENCODERS["modernbert"]()).to(META))
    assert pass_cost(META, packed=False).padded
    assert not pass_cost(META, packed=True).padded


def test_a_forward_knows_the_device_its_weights_are_on() -> None:
    """Plain "cuda" is whichever device a thread has chosen; the weights stay where they are."""
    forward = TorchForward(network(ENCODERS["bert"]()), CPU, Precision())
    assert forward.device == CPU
