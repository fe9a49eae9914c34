"""The decision network as an ONNX graph, written out operator by operator.

Tracing takes minutes for a large encoder and changes with every exporter release; this takes a second, and uses
onnxruntime's fused attention, rotary and Gelu kernels (domain `com.microsoft`). It computes what
`laya._forward.network` computes, which every export is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laya._forward import rope
from laya.errors import OptionError

if TYPE_CHECKING:
    from onnx import GraphProto

OPSET = 17
"""LayerNormalization is an operator from here on."""
UNQUANTIZED = "exact"
"""Prefix of nodes whose weights stay F32 in a quantized model: a few small products that decide the answer."""

_FUSED = "com.microsoft"
_AXES = {"input_ids": "nL", "attention_mask": "nL", "marker_pos": "nK", "marker_mask": "nK", "qtype": "n"}
_FLOAT, _INT32, _BOOL = 1, 6, 9
"""Of `onnx.TensorProto.DataType`."""
_BLOCKED = -1e9
"""Added to attention scores of what can't be seen; finite, so that a row that sees nothing stays a number."""
_MASKED = -1e4
"""Logit of a slot without an option, as in the network."""
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(slots=True)
class Graph:
    """A graph under construction. Every method that adds a node returns the name of its output."""

    weights: Mapping[str, NDArray[np.float32]]
    _nodes: list[Any] = field(default_factory=list)
    _initializers: dict[str, Any] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, prefix: str = "node", domain: str = "", **attributes: Any) -> str:
        """Add a node; an empty input name is an optional input left out."""
        return self._add(kind, inputs, 1, prefix, domain, attributes)[0]

    def parts(self, kind: str, *inputs: str, count: int, axis: int) -> list[str]:
        """Add a node with several outputs, along an axis."""
        return self._add(kind, inputs, count, "node", "", {"axis": axis})

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A small tensor."""
        array = np.asarray(value, dtype=dtype)
        return self.tensor(f"constant_{array.dtype}_{array.shape}_{array.tolist()}", array)

    def tensor(self, name: str, array: NDArray[Any]) -> str:
        """A tensor of the file; the same name is the same tensor."""
        from onnx import numpy_helper

        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name: str) -> str:
        """A tensor of the checkpoint, as it is."""
        return self.tensor(name, self.weights[name])

    def linear(self, hidden: str, *names: str, prefix: str = "node") -> str:
        """`hidden @ W.T + b`; several layers are one product, outputs side by side. A missing bias is none."""
        joined = np.concatenate([self.weights[f"{name}.weight"] for name in names]).T
        product = self.op("MatMul", hidden, self.tensor("+".join(names) + ".weight.T", joined), prefix=prefix)
        biases = [self.weights.get(f"{name}.bias") for name in names]
        if any(bias is None for bias in biases):
            return product
        bias = self.tensor("+".join(names) + ".bias", np.concatenate(biases))  # type: ignore[arg-type]
        return self.op("Add", product, bias)

    def norm(self, hidden: str, name: str, epsilon: float) -> str:
        """Layer normalisation over the last axis."""
        bias = [self.weight(f"{name}.bias")] if f"{name}.bias" in self.weights else []
        return self.op("LayerNormalization", hidden, self.weight(f"{name}.weight"), *bias, axis=-1, epsilon=epsilon)

    def embedding(self, name: str, ids: str) -> str:
        """Rows of a table."""
        return self.op("Gather", self.weight(f"{name}.weight"), ids)

    def activation(self, hidden: str, kind: str) -> str:
        """Gelu by the error function, or ReLU."""
        return self.op("Relu", hidden) if kind == "relu" else self.op("Gelu", hidden, domain=_FUSED)

    def attention(self, query: str, key: str, value: str, heads: int, padding: str = "", bias: str = "") -> str:
        """`[n, Q, d]`, `[n, L, d]` twice -> `[n, Q, d]`; `padding` is `[n, L]` int32, `bias` `[n, 1, Q, L]`."""
        return self.op(
            "MultiHeadAttention", query, key, value, "", padding, bias,
            domain=_FUSED, num_heads=heads, mask_filter_value=_BLOCKED,
        )  # fmt: skip

    def _add(
        self, kind: str, inputs: Sequence[str], count: int, prefix: str, domain: str, attributes: Mapping[str, Any]
    ) -> list[str]:
        from onnx import helper

        name = f"{prefix}_{len(self._nodes)}_{kind}"
        outputs = [f"{name}_{index}" for index in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs

    def finish(self, outputs: Mapping[str, tuple[str, int | str]]) -> GraphProto:
        """Close the graph: `{output: (value, width of the second axis)}`."""
        from onnx import TensorProto, helper

        for name, (value, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name], name=name))
        kinds = {"marker_mask": TensorProto.BOOL}
        return helper.make_graph(
            self._nodes,
            "laya",
            [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.INT64), list(_AXES[n])) for n in _AXES],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", w]) for n, (_, w) in outputs.items()],
            list(self._initializers.values()),
        )


def decision_graph(
    weights: Mapping[str, NDArray[np.float32]], encoder_config: Mapping[str, Any], head_layers: int, actions: int
) -> GraphProto:
    """The graph of a checkpoint; raises `OptionError` for an encoder that isn't known here."""
    encode = _ENCODERS.get(encoder_config["model_type"])
    if encode is None:
        raise OptionError(
            f"model: export_onnx knows the encoders {', '.join(_ENCODERS)}, this one is "
            f"{encoder_config['model_type']!r}; use it with Agent",
            option="model",
        )
    graph = Graph(weights)
    padding = graph.op("Cast", "attention_mask", to=_INT32)
    hidden = encode(graph, encoder_config, padding)
    types = graph.op("Unsqueeze", graph.embedding("type_emb", "qtype"), graph.constant([1]))
    read = _head(graph, graph.op("Add", hidden, types), padding, head_layers)
    cls, at_markers = graph.parts("Split", read, _cls_and_markers(graph), count=2, axis=1)
    logits = _scores(graph, at_markers)
    act_logits = _acts(graph, graph.op("Squeeze", cls, graph.constant([1])), logits)
    return graph.finish({"logits": (logits, "K"), "act_logits": (act_logits, actions)})


def _modernbert(graph: Graph, config: Mapping[str, Any], padding: str) -> str:
    epsilon, heads = config.get("norm_eps", 1e-5), config["num_attention_heads"]
    activation = _known_activation(config.get("hidden_activation", "gelu"))
    every = config.get("global_attn_every_n_layers", 3)
    kinds = config.get("layer_types") or [
        rope.SLIDING if layer % every else rope.FULL for layer in range(config["num_hidden_layers"])
    ]
    # The defaults are those of the architecture.
    thetas = {rope.FULL: 160000.0, rope.SLIDING: 10000.0} | rope.thetas_on_disk(config)
    positions = _positions(graph)
    turns = {kind: _rotation(graph, positions, thetas[kind], config["hidden_size"] // heads) for kind in set(kinds)}
    near = _near(graph, positions, config.get("local_attention", 128) // 2)
    words = graph.embedding("encoder.embeddings.tok_embeddings", "input_ids")
    hidden = graph.norm(words, "encoder.embeddings.norm", epsilon)
    for layer, kind in enumerate(kinds):
        name = f"encoder.layers.{layer}"
        # The first layer's input is normalised already.
        normed = graph.norm(hidden, f"{name}.attn_norm", epsilon) if layer else hidden
        query, key, value = graph.parts("Split", graph.linear(normed, f"{name}.attn.Wqkv"), count=3, axis=-1)
        query, key = (_rotate(graph, each, turns[kind], heads) for each in (query, key))
        masks = {"padding": padding} if kind == rope.FULL else {"bias": near}
        mixed = graph.attention(query, key, value, heads, **masks)
        hidden = graph.op("Add", hidden, graph.linear(mixed, f"{name}.attn.Wo"))
        wide = graph.linear(graph.norm(hidden, f"{name}.mlp_norm", epsilon), f"{name}.mlp.Wi")
        shown, gate = graph.parts("Split", wide, count=2, axis=-1)
        gated = graph.op("Mul", graph.activation(shown, activation), gate)
        hidden = graph.op("Add", hidden, graph.linear(gated, f"{name}.mlp.Wo"))
    return graph.norm(hidden, "encoder.final_norm", epsilon)


def _bert(graph: Graph, config: Mapping[str, Any], padding: str) -> str:
    epsilon, heads = config.get("layer_norm_eps", 1e-12), config["num_attention_heads"]
    activation = _known_activation(config.get("hidden_act", "gelu"))
    tables = "encoder.embeddings"
    places = graph.weight(f"{tables}.position_embeddings.weight")
    length = graph.op("Shape", "input_ids", start=1)
    placed = graph.op("Slice", places, graph.constant([0]), length, graph.constant([0]))
    first_type = graph.tensor("token_type", graph.weights[f"{tables}.token_type_embeddings.weight"][0])
    hidden = graph.op("Add", graph.embedding(f"{tables}.word_embeddings", "input_ids"), first_type)
    hidden = graph.norm(graph.op("Add", hidden, placed), f"{tables}.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.encoder.layer.{layer}"
        projections = (f"{name}.attention.self.{part}" for part in ("query", "key", "value"))
        query, key, value = graph.parts("Split", graph.linear(hidden, *projections), count=3, axis=-1)
        mixed = graph.linear(graph.attention(query, key, value, heads, padding), f"{name}.attention.output.dense")
        hidden = graph.norm(graph.op("Add", hidden, mixed), f"{name}.attention.output.LayerNorm", epsilon)
        wide = graph.activation(graph.linear(hidden, f"{name}.intermediate.dense"), activation)
        narrow = graph.linear(wide, f"{name}.output.dense")
        hidden = graph.norm(graph.op("Add", hidden, narrow), f"{name}.output.LayerNorm", epsilon)
    return hidden


_ENCODERS: Mapping[str, Callable[[Graph, Mapping[str, Any], str], str]] = {"modernbert": _modernbert, "bert": _bert}


def _head(graph: Graph, hidden: str, padding: str, layers: int) -> str:
    """`[n, L, d]` -> `[n, 1 + K, d]`, the head's output at CLS and the MASKs; the last layer computes no others."""
    width = graph.weights["type_emb.weight"].shape[1]
    if layers == 0:
        return _at_cls_and_markers(graph, hidden)
    for layer in range(layers):
        name = f"head.layers.{layer}"
        normed, residual = graph.norm(hidden, f"{name}.norm1", 1e-5), hidden
        wanted = normed
        if layer == layers - 1:
            wanted, residual = (_at_cls_and_markers(graph, each) for each in (normed, hidden))
        query, key, value = _in_projection(graph, name, wanted, normed)
        mixed = graph.attention(query, key, value, max(1, width // 64), padding)
        hidden = graph.op("Add", residual, graph.linear(mixed, f"{name}.self_attn.out_proj"))
        wide = graph.activation(graph.linear(graph.norm(hidden, f"{name}.norm2", 1e-5), f"{name}.linear1"), "relu")
        hidden = graph.op("Add", hidden, graph.linear(wide, f"{name}.linear2"))
    return hidden


def _in_projection(graph: Graph, layer: str, wanted: str, normed: str) -> list[str]:
    weights = np.split(graph.weights[f"{layer}.self_attn.in_proj_weight"], 3)
    biases = np.split(graph.weights[f"{layer}.self_attn.in_proj_bias"], 3)
    projected = []
    for part, source, weight, bias in zip("qkv", (wanted, normed, normed), weights, biases, strict=True):
        product = graph.op("MatMul", source, graph.tensor(f"{layer}.{part}.weight.T", weight.T))
        projected.append(graph.op("Add", product, graph.tensor(f"{layer}.{part}.bias", bias)))
    return projected


def _scores(graph: Graph, at_markers: str) -> str:
    hidden = graph.linear(graph.norm(at_markers, "scorer.0", 1e-5), "scorer.1", prefix=UNQUANTIZED)
    scores = graph.linear(graph.activation(hidden, "gelu"), "scorer.3", prefix=UNQUANTIZED)
    flat = graph.op("Squeeze", scores, graph.constant([-1]))
    return graph.op("Where", "marker_mask", flat, graph.constant(_MASKED, np.float32))


def _acts(graph: Graph, cls: str, logits: str) -> str:
    shown = graph.op("Cast", "marker_mask", to=_FLOAT)
    p = graph.op("Mul", graph.op("Softmax", logits, axis=-1), shown)
    top, _ = graph.parts("TopK", p, graph.constant([2]), count=2, axis=-1)
    first, second = graph.parts("Split", top, count=2, axis=-1)
    last = graph.constant([-1])
    count = graph.op("Max", graph.op("ReduceSum", shown, last, keepdims=1), graph.constant(2, np.float32))
    logs = graph.op("Log", graph.op("Max", p, graph.constant(_TINY, np.float32)))
    negative = graph.op("ReduceSum", graph.op("Mul", p, logs), last, keepdims=1)
    entropy = graph.op("Neg", graph.op("Div", negative, graph.op("Log", count)))
    lead, share = graph.op("Sub", first, second), graph.op("Div", count, graph.constant(255, np.float32))
    seen = graph.op("Concat", cls, first, lead, entropy, share, axis=-1)
    hidden = graph.activation(graph.linear(seen, "act_head.0", prefix=UNQUANTIZED), "gelu")
    return graph.linear(hidden, "act_head.2", prefix=UNQUANTIZED)


def _at_cls_and_markers(graph: Graph, hidden: str) -> str:
    first = graph.op("Mul", graph.op("Unsqueeze", "qtype", graph.constant([1])), graph.constant(0))
    places = graph.op("Concat", first, "marker_pos", axis=1)
    return graph.op("GatherND", hidden, graph.op("Unsqueeze", places, graph.constant([-1])), batch_dims=1)


def _cls_and_markers(graph: Graph) -> str:
    options = graph.op("Shape", "marker_pos", start=1)
    return graph.op("Concat", graph.constant([1]), options, axis=0)


def _positions(graph: Graph) -> str:
    length = graph.op("Squeeze", graph.op("Shape", "input_ids", start=1))
    return graph.op("Range", graph.constant(0), length, graph.constant(1))


def _rotation(graph: Graph, positions: str, theta: float, head_width: int) -> tuple[str, str]:
    """Cosines and sines of every position, `[L, head_width / 2]`."""
    exponents = np.arange(0, head_width, 2, dtype=np.float32) / np.float32(head_width)
    frequencies = graph.constant((1.0 / np.float32(theta) ** exponents)[None], np.float32)
    column = graph.op("Unsqueeze", graph.op("Cast", positions, to=_FLOAT), graph.constant([1]))
    angles = graph.op("Mul", column, frequencies)
    return graph.op("Cos", angles), graph.op("Sin", angles)


def _rotate(graph: Graph, hidden: str, turn: tuple[str, str], heads: int) -> str:
    return graph.op("RotaryEmbedding", hidden, graph.constant([0]), *turn, domain=_FUSED, interleaved=0)


def _near(graph: Graph, positions: str, reach: int) -> str:
    """What a sliding layer adds to its scores, `[n, 1, L, L]`."""
    row, column = (graph.op("Unsqueeze", positions, graph.constant([axis])) for axis in (0, 1))
    distance = graph.op("Abs", graph.op("Sub", column, row))
    close = graph.op("LessOrEqual", distance, graph.constant(reach))
    real = graph.op("Unsqueeze", graph.op("Cast", "attention_mask", to=_BOOL), graph.constant([1, 2]))
    seen = graph.op("And", real, close)
    return graph.op("Where", seen, graph.constant(0, np.float32), graph.constant(_BLOCKED, np.float32))


def _known_activation(name: str) -> str:
    if name not in ("gelu", "relu"):
        raise OptionError(
            f"model: export_onnx knows the activations gelu and relu, this encoder has {name!r}; use it with Agent",
            option="model",
        )
    return name
