"""Rows laid end to end: the same logits as padded rows, for every encoder that is computed this way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import RobertaConfig, RobertaModel

from laya._forward.device import Precision
from laya._forward.network import DecisionNetwork
from laya._forward.packed import PackedNetwork, linear
from laya._forward.packed.layout import lay_out
from laya._forward.packed.linear import Linear, filler, packing_works
from laya._forward.packed.rows import ProcessorRows
from laya._forward.torch_forward import TorchForward
from tests.unit.forward.networks import ENCODERS, LENGTHS, agree, batch, modernbert, network, padded


@pytest.fixture(params=["packed weights", "plain weights"])
def layouts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to hold a weight."""
    if request.param == "plain weights":
        monkeypatch.setattr(linear, "packing_works", lambda dtype: False)
    elif not packing_works(torch.float32):
        pytest.skip("this PyTorch packs no weights")


@pytest.mark.usefixtures("layouts")
@pytest.mark.parametrize("head_layers", [0, 1, 2])
@pytest.mark.parametrize("name", ENCODERS)
def test_packed_rows_get_the_logits_of_padded_rows(name: str, head_layers: int) -> None:
    """Rows that share a length, that fit the window, and that are many windows long."""
    built = network(ENCODERS[name](), head_layers)
    inputs = batch(LENGTHS)
    with torch.inference_mode():
        wanted = padded(built, inputs)
        agree(PackedNetwork(built)(inputs), wanted, atol=2e-5)


@pytest.mark.parametrize("name", ["modernbert", "bert"])
def test_rows_need_no_order(name: str) -> None:
    """A caller's own batch size keeps the order that the rows came in."""
    built = network(ENCODERS[name]())
    inputs = batch([40, 5, 150, 5, 63])
    with torch.inference_mode():
        wanted = padded(built, inputs)
        agree(PackedNetwork(built)(inputs), wanted, atol=2e-5)


@pytest.mark.parametrize("name", ["modernbert", "bert"])
def test_half_precision_weights_are_computed_too(name: str) -> None:
    """With the rounding of bf16, as the padded rows."""
    built = network(ENCODERS[name]())
    inputs = batch(LENGTHS)
    with torch.inference_mode():
        wanted = padded(built, inputs)
        packed = PackedNetwork(built.to(torch.bfloat16))(inputs)
    assert packed[0].dtype is torch.float32
    shown = torch.from_numpy(inputs.marker_mask)
    torch.testing.assert_close(packed[0][shown], wanted[0][shown], atol=0.1, rtol=0.1)


def test_weights_are_held_once() -> None:
    """The network's linear layers give theirs up; embeddings, norms and scorers stay where they are."""
    built = network(modernbert())
    before = sum(parameter.numel() for parameter in built.parameters())
    linears = [module for module in (*built.encoder.modules(), *built.head.modules()) if isinstance(module, nn.Linear)]
    inside = sum(module.weight.numel() for module in linears)
    with torch.inference_mode():
        PackedNetwork(built)
    assert sum(parameter.numel() for parameter in built.parameters()) <= before - inside


def roberta() -> nn.Module:
    """A small RoBERTa."""
    settings = RobertaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, vocab_size=200
    )
    return RobertaModel(settings, add_pooling_layer=False)


@pytest.mark.parametrize(
    "encoder",
    [
        roberta,
        lambda: modernbert(layer_types=["sliding_attention"] * 5),
        nn.Identity,
    ],
    ids=["roberta", "other layers", "no model"],
)
def test_other_encoders_are_left_alone(encoder: object) -> None:
    """Their own code computes them."""
    assert not PackedNetwork.knows(DecisionNetwork(encoder(), 64, 1, 2))  # type: ignore[operator]


def test_a_cpu_computes_rows_packed() -> None:
    """A compiled network isn't packed, since it is traced as a whole; neither is what isn't known."""
    cpu, precision = torch.device("cpu"), Precision()
    assert not TorchForward(network(modernbert()), cpu, precision).cost.padded
    assert TorchForward(network(modernbert()), cpu, precision, compile=True).cost.padded
    assert TorchForward(network(roberta()), cpu, precision).cost.padded


@pytest.mark.parametrize("window", [None, 1, 8, 64])
def test_attention_is_the_softmax_over_a_rows_window(window: int | None) -> None:
    """Written out by hand, for lengths around every threshold."""
    torch.manual_seed(1)
    lengths = [1, 1, 3, 31, 32, 33, 100, 100, 255, 256, 300]
    q, k, v = torch.randn(sum(lengths), 3, 2, 8).unbind(1)
    found = ProcessorRows(lengths, [0] * len(lengths)).attend(q, k, v, window)
    start = 0
    for length in lengths:
        queries, keys, values = (x[start : start + length].transpose(0, 1) for x in (q, k, v))
        scores = queries @ keys.transpose(1, 2) / 8**0.5
        places = torch.arange(length)
        if window is not None:
            scores = scores.masked_fill((places[:, None] - places).abs() > window, -torch.inf)
        wanted = (scores.softmax(-1) @ values).transpose(0, 1).flatten(1)
        torch.testing.assert_close(found[start : start + length], wanted, atol=1e-5, rtol=1e-5)
        start += length


def test_a_linear_is_a_matrix_product() -> None:
    """With or without bias, residual and rows."""
    generator = np.random.default_rng(0)
    weight, bias = (torch.from_numpy(generator.normal(size=size).astype(np.float32)) for size in ((5, 8), 5))
    for rows in (0, 1, 300):
        x = torch.from_numpy(generator.normal(size=(rows, 8)).astype(np.float32))
        residual = torch.ones(rows, 5)
        torch.testing.assert_close(Linear(weight, bias)(x), x @ weight.T + bias)
        torch.testing.assert_close(Linear(weight, None).plus(x, residual), x @ weight.T + residual)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_linear_of_any_type_is_a_matrix_product(dtype: torch.dtype) -> None:
    """Packed where this processor has the instructions for the type, else by PyTorch."""
    generator = torch.Generator().manual_seed(0)
    weight, x, residual = (torch.randn(size, generator=generator).to(dtype) for size in ((5, 8), (3, 8), (3, 5)))
    made = Linear(weight, None)
    wanted = x.double() @ weight.double().T
    for found, expected in ((made(x), wanted), (made.plus(x, residual), wanted + residual.double())):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), expected, atol=0.06, rtol=0.02)


def test_few_numbers_of_tokens_are_computed() -> None:
    """Each one costs a kernel that is compiled and kept; a long run of calls would fill hundreds of megabytes."""
    computed = [tokens + filler(tokens) for tokens in range(1, 2049)]
    assert len(set(computed)) <= 80
    assert all(filler(size) == 0 for size in set(computed))
    assert all(0 <= filler(tokens) <= max(7, tokens / 16) for tokens in range(1, 5000))
    assert filler(0) == 0


@pytest.mark.parametrize("window", [None, 8])
def test_filler_attends_to_nothing(window: int | None) -> None:
    """Nothing of what lay in memory before reaches the layers after it."""
    torch.manual_seed(1)
    q, k, v = torch.randn(20, 3, 2, 8).unbind(1)
    found = ProcessorRows([7, 9], [2, 2], filler=4).attend(q, k, v, window)
    assert not found[16:].any()
    torch.testing.assert_close(found[:16], ProcessorRows([7, 9], [2, 2]).attend(q[:16], k[:16], v[:16], window))


def test_what_is_laid_out_is_the_batch_without_its_padding() -> None:
    """Tokens, what they belong to and what is read of them, with two tokens of filler."""
    laid = lay_out(batch([5, 3], options=2), filler=2)
    assert laid.ids.tolist() == [*batch([5, 3]).input_ids[0], *batch([5, 3]).input_ids[1, :3], 0, 0]
    assert laid.positions.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 0]
    assert laid.kinds.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0, 0]
    assert laid.where.tolist() == [0, 1, 2, 5, 6]
    assert (laid.cls.tolist(), laid.options.tolist(), laid.slots.tolist()) == ([0, 3], [1, 2, 4], [0, 1, 2])
    assert (laid.lengths.tolist(), laid.reads.tolist()) == ([5, 3], [3, 2])


def test_a_row_reads_only_its_own_options() -> None:
    """One question of many options among small ones costs what it has, not as much for every row."""
    lengths, options = [90, 12, 12, 12], [80, 2, 2, 2]
    inputs = batch(lengths, options=80)
    shown = np.arange(80) < np.array(options)[:, None]
    inputs = inputs._replace(marker_mask=shown, marker_pos=inputs.marker_pos * shown)
    assert len(lay_out(inputs).where) == sum(options) + len(options)
    built = network(modernbert())
    with torch.inference_mode():
        wanted = padded(built, inputs)
        agree(PackedNetwork(built)(inputs), wanted, atol=2e-5)
