"""Check what a caller hands in before laya is asked, and name what is wrong by its place and type, never its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any

from pydantic import BaseModel

_ONE = (str, bytes, Mapping, BaseModel)
"""What Python can go through piece by piece, but which is one thing to a caller."""


Kinds = type | UnionType | tuple[type, ...]


def of_kind(kinds: Kinds, item: Any, argument: str, what: str, hint: str = "") -> Any:
    """The item; raises TypeError where it is none of the kinds, which `what` names."""
    if not isinstance(item, kinds):
        raise TypeError(f"{argument} must be {what}, got {type(item).__name__}{hint}")
    return item


def listed(items: Any, argument: str) -> list[Any]:
    """The items as a list; raises TypeError for what is no list, as a text, which has letters."""
    if isinstance(items, _ONE) or not isinstance(items, Iterable):
        raise TypeError(f"{argument} must be a list, got {type(items).__name__}; put a single one into a list")
    return list(items)


def listed_of(kinds: Kinds, items: Any, argument: str, what: str, hint: str = "") -> list[Any]:
    """`listed`, where each item is `of_kind`; an error has the index of the first that isn't."""
    return [
        of_kind(kinds, item, f"{argument}[{index}]", what, hint) for index, item in enumerate(listed(items, argument))
    ]
