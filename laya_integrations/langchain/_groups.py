"""Split a batch into groups that are asked together, and put their outputs back in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Group:
    """Items of one key, with their configs and their places in the batch."""

    places: list[int] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    configs: list[RunnableConfig] = field(default_factory=list)

    @property
    def asked(self) -> tuple[list[Any], list[RunnableConfig]]:
        """The arguments of a runnable's batch."""
        return self.inputs, self.configs


def grouped(keys: Iterable[Key | None], inputs: Sequence[Any], configs: Sequence[RunnableConfig]) -> dict[Key, Group]:
    """The items by key, in order of first sight; those whose key is None are left out."""
    groups: dict[Key, Group] = {}
    for place, (key, input, config) in enumerate(zip(keys, inputs, configs, strict=True)):
        if key is not None:
            group = groups.setdefault(key, Group())
            group.places.append(place)
            group.inputs.append(input)
            group.configs.append(config)
    return groups


def in_order(groups: Iterable[Group], found: Iterable[Sequence[Any]], count: int) -> list[Any]:
    """Each group's outputs at their places in a batch of `count`; None where an item was in no group."""
    outputs: list[Any] = [None] * count
    for group, items in zip(groups, found, strict=True):
        for place, item in zip(group.places, items, strict=True):
            outputs[place] = item
    return outputs
