"""Read a text to its end, also where it is longer than the token budget: then in pieces, cut to size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from laya_integrations._decisions import Decision
from laya_integrations.llama_index._asking import Asked, Asking, Asks

_FILL = 0.9
"""Part of the room for a state that a piece is to take; tokens don't lie evenly in a text."""


@dataclass(frozen=True)
class Reading:
    """What was read of a text."""

    decisions: list[Decision]
    """Those about the text, or about its pieces that were read to their ends."""
    first: Decision
    """The one about the text as it came, of which the end may have been cut off."""
    is_whole: bool
    """Whether all of the text was read."""


def read(asking: Asking, text: str, most: int) -> Asks[Reading]:
    """Ask about a text: at first as it is, then, in one laya call a round, about pieces of what was cut.

    Ends without the rest before a round that would need more than `most` pieces in all. A text of even density
    takes two rounds; whatever a runner reports, fewer than twice `most` states are asked about, since every piece that
    is cut becomes two at least.
    """
    first: Decision | None = None
    whole: list[Decision] = []
    pieces = [text]
    while True:
        decisions = yield Asked(asking, pieces)
        first = first or decisions[0]
        whole += [decision for decision in decisions if not decision.truncated]
        cut = [
            (piece, _number(decision)) for piece, decision in zip(pieces, decisions, strict=True) if decision.truncated
        ]
        if not cut:
            return Reading(whole, first, is_whole=True)
        if len(whole) + sum(number for _, number in cut) > most:
            return Reading(whole, first, is_whole=False)
        pieces = [part for piece, number in cut for part in _parts(piece, int(number))]


def _number(decision: Decision) -> float:
    """The pieces that a text has to be in, going by what was cut off; two where the result doesn't say how much."""
    usage = decision.result.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    tokens, dropped = usage.get("state_tokens"), usage.get("state_tokens_dropped")
    if not isinstance(tokens, int) or not isinstance(dropped, int) or not 0 < dropped <= tokens:
        return 2
    if dropped == tokens:
        return math.inf
    share = _FILL * (tokens - dropped) / tokens
    return math.ceil((5 / share - 1) / 4)


def _parts(text: str, number: int) -> list[str]:
    """Pieces of equal length; neighbours share a fifth of it, so that a sentence at an edge is whole in one of them."""
    length = math.ceil(5 * len(text) / (4 * number + 1))
    starts = [index * (len(text) - length) // (number - 1) for index in range(number)]
    return [text[start : start + length] for start in starts]
