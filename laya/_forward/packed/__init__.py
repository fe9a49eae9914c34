"""Forward passes over rows laid end to end: no padding is computed.

A pass over `n` rows of lengths `l_i` works on `[T, d]` activations with `T = sum(l_i)`; only attention looks at one row
at a time. It computes what `laya._forward.network` computes over padded rows, for the encoders that it knows.
"""

from laya._forward.packed.network import PackedNetwork

__all__ = ["PackedNetwork"]
