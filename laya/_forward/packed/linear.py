"""Matrix products with weights laid out for the processor."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

_TYPICAL_TOKENS = 256
"""Number of tokens that the layout is chosen for; any number is computed."""
_ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 0.06, torch.float16: 0.01}
"""Types whose weights may be packed, and how far two sums of a few products may lie apart."""


class Linear:
    """`x @ weight.T + bias` for `[T, k]` inputs."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._bias, self._width = bias, len(weight)
        self._packed = weight.device.type == "cpu" and packing_works(weight.dtype)
        self._weight = _reorder(weight) if self._packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """`[T, k]` -> `[T, m]`."""
        if not self._packed:
            return nn.functional.linear(x, self._weight, self._bias)
        if not x.shape[0]:
            return x.new_empty(0, self._width)
        product: Tensor = _onednn()(_filled(x), self._weight, self._bias, "none", [], "")
        return product[: x.shape[0]]

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """The product with a `[T, m]` residual added."""
        if not self._packed:
            return nn.functional.linear(x, self._weight, self._bias) + residual
        if not x.shape[0]:
            return residual
        total: Tensor = _onednn().binary(_filled(x), _filled(residual), self._weight, self._bias, "add")
        return total[: x.shape[0]]


def filler(tokens: int) -> int:
    """How many tokens more than `tokens` are computed: at most 7, or a sixteenth of them.

    oneDNN compiles a kernel for each number of tokens, which takes a millisecond, and keeps it, with up to a megabyte:
    few different numbers bound both.
    """
    return -tokens % (1 << max(3, tokens.bit_length() - 5))


def _filled(x: Tensor) -> Tensor:
    missing = filler(x.shape[0])
    return pad(x, (0, 0, 0, missing)) if missing else x


def take(module: Any) -> Linear:
    """A linear module's weights, packed; the module gives them up, so that they are held once."""
    weight, bias = module.weight, module.bias
    module.weight = None
    return Linear(weight.detach(), None if bias is None else bias.detach())


@cache
def packing_works(dtype: torch.dtype) -> bool:
    """Whether this PyTorch packs weights of a type for oneDNN, and computes with them what `linear` computes.

    The operators are the ones that PyTorch's own compiler emits; they are no public names, so they are tried. A
    narrow type needs a processor that has it.
    """
    rounding = _ROUNDING.get(dtype)
    if rounding is None or not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    sizes = (3, 8), (3, 5), (5, 8), (5,)
    x, residual, weight, bias = (torch.randn(size, generator=generator).to(dtype) for size in sizes)
    wanted = nn.functional.linear(x, weight, bias)
    try:
        packed = _reorder(weight)
        plain = _onednn()(x, packed, bias, "none", [], "")
        added = _onednn().binary(x, residual, packed, bias, "add")
    except (AttributeError, RuntimeError, TypeError):
        return False
    return all(
        found.dtype == dtype and torch.allclose(found, expected, rtol=rounding, atol=rounding)
        for found, expected in ((plain, wanted), (added, wanted + residual))
    )


def _reorder(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_TOKENS)
    return packed


def _onednn() -> Any:
    return torch.ops.mkldnn._linear_pointwise
