"""The decision network on random weights, against formulas written out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from laya._forward.network import DecisionHead, DecisionNetwork, action_features, parameter_count

WIDTH = 64


class Lookup(nn.Module):
    """An encoder that looks each token up, whatever surrounds it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.table(input_ids))


def network(head_layers: int = 1, actions: int = 2) -> DecisionNetwork:
    """A small network with fixed random weights."""
    torch.manual_seed(7)
    return DecisionNetwork(Lookup(), WIDTH, head_layers, actions).eval().requires_grad_(False)


def batch(rows: int = 2, length: int = 9, options: int = 3) -> list[torch.Tensor]:
    """Rows of which the second is shorter and has one option less."""
    ids = torch.arange(rows * length).reshape(rows, length) % 50
    mask = torch.ones(rows, length, dtype=torch.long)
    markers = torch.arange(1, options + 1).repeat(rows, 1)
    shown = torch.ones(rows, options, dtype=torch.bool)
    if rows > 1:
        mask[1, 6:] = 0
        shown[1, -1] = False
        markers[1, -1] = 0
    return [ids, mask, markers, shown, torch.arange(rows) % 3]


@pytest.mark.parametrize("actions", [1, 2, 5])
def test_logits_are_one_an_option_and_one_an_action(actions: int) -> None:
    """`[n, K]` and `[n, A]`, both F32."""
    logits, act_logits = network(actions=actions)(*batch())
    assert (logits.shape, act_logits.shape) == ((2, 3), (2, actions))
    assert (logits.dtype, act_logits.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("head_layers", [0, 1, 2])
def test_padding_and_company_change_nothing(head_layers: int) -> None:
    """A row alone, unpadded, has the logits that it has in a batch."""
    model = network(head_layers)
    ids, mask, markers, shown, qtype = batch()
    logits, act_logits = model(ids, mask, markers, shown, qtype)
    alone, act_alone = model(ids[1:, :6], mask[1:, :6], markers[1:, :2], shown[1:, :2], qtype[1:])
    torch.testing.assert_close(logits[1:, :2], alone)
    torch.testing.assert_close(act_logits[1:], act_alone)


def test_a_logit_is_the_scorer_at_the_options_mask() -> None:
    """Hidden state plus type embedding, LayerNorm, Linear, GELU, Linear."""
    model = network(head_layers=0)
    ids, mask, markers, shown, qtype = batch(rows=1)
    logits, _ = model(ids, mask, markers, shown, qtype)
    hidden = model.encoder.table.weight[ids[0]] + model.type_emb.weight[0]
    for slot, position in enumerate(markers[0]):
        x = hidden[position]
        normed = (x - x.mean()) / torch.sqrt(x.var(unbiased=False) + 1e-5)
        inner = nn.functional.gelu(model.scorer[1].weight @ normed + model.scorer[1].bias)
        torch.testing.assert_close(logits[0, slot], (model.scorer[3].weight @ inner + model.scorer[3].bias)[0])


def test_the_type_changes_the_answer() -> None:
    """Each question type has its own embedding."""
    model = network()
    ids, mask, markers, shown, _ = batch(rows=1)
    outcomes = [model(ids, mask, markers, shown, torch.tensor([kind]))[0] for kind in range(3)]
    assert not torch.allclose(outcomes[0], outcomes[1])
    assert not torch.allclose(outcomes[1], outcomes[2])


@pytest.mark.parametrize(("width", "heads"), [(32, 1), (64, 1), (128, 2), (1024, 16)])
def test_head_layers_are_pre_norm_relu_with_a_head_for_64_channels(width: int, heads: int) -> None:
    """At least one attention head, and four times the width inside."""
    with torch.device("meta"):
        (layer,) = DecisionHead(width, 1).layers
    assert layer.self_attn.num_heads == heads
    assert layer.norm_first
    assert layer.linear1.out_features == 4 * width
    assert layer.activation is nn.functional.relu


def test_action_features_by_hand() -> None:
    """p = 1/8, 2/8, 5/8."""
    logits = torch.tensor([[math.log(1), math.log(2), math.log(5)]])
    entropy = -sum(p * math.log(p) for p in (0.125, 0.25, 0.625))
    expected = [0.625, 0.375, entropy / math.log(3), 3 / 255]
    features = action_features(logits, torch.ones(1, 3, dtype=torch.bool))
    assert features[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_single_option_leads_by_its_whole_probability(width: int) -> None:
    """k counts as two, alone or beside wider rows."""
    logits = torch.full((1, width), -1e4)
    logits[0, 0] = 0.3
    shown = torch.zeros(1, width, dtype=torch.bool)
    shown[0, 0] = True
    assert action_features(logits, shown)[0].tolist() == pytest.approx([1.0, 1.0, 0.0, 2 / 255], abs=1e-6)


def test_options_that_are_not_there_have_no_probability() -> None:
    """Two equal options of three slots: p = 1/2, 1/2."""
    logits = torch.tensor([[1.0, 1.0, -1e4]])
    features = action_features(logits, torch.tensor([[True, True, False]]))
    assert features[0].tolist() == pytest.approx([0.5, 0.0, 1.0, 2 / 255], abs=1e-6)


def test_parameter_count_leaves_the_carried_temperatures_out() -> None:
    """They are a buffer: no answer depends on them."""
    model = network()
    assert parameter_count(model) == sum(p.numel() for p in model.parameters())
    assert "temperature" in dict(model.named_buffers())
