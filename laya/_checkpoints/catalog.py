"""The checkpoints that a Router knows by name, and where each is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from laya.errors import OptionError

REPO = "convaiinnovations/laya"

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "en": "english",
        "laya": "english",
        "default": "english",
        "multi": "multilingual",
        "ml": "multilingual",
        "laya-multilingual": "multilingual",
        "typed": "typed-decisions",
        "typed_decisions": "typed-decisions",
        "laya-typed-decisions": "typed-decisions",
        "decisions": "typed-decisions",
    }
)
"""Other names of the published checkpoints, lower case."""

SourceLike: TypeAlias = "str | os.PathLike[str] | tuple[str | os.PathLike[str], str | None] | Source"
"""What a caller may give as a checkpoint's place."""


@dataclass(frozen=True)
class Source:
    """Say where a checkpoint is: a repository or a directory, and a folder in it."""

    repo_or_path: str
    subfolder: str | None = None

    @classmethod
    def parse(cls, name: str, value: object) -> Source:
        """Read a path, a repository id, or one of them paired with a subfolder."""
        if isinstance(value, Source):
            return value
        place, subfolder = value if isinstance(value, (tuple, list)) and len(value) == 2 else (value, None)
        where = os.fspath(place) if isinstance(place, (str, os.PathLike)) else None
        if not isinstance(where, str) or not where.strip() or not isinstance(subfolder, (str, type(None))):
            message = (
                f"models[{name!r}] must be a directory, a Hub id or a pair (directory or id, subfolder), "
                f"not {type(value).__name__}"
            )
            raise OptionError(message, option="models")
        return cls(where, subfolder or None)


ATTACHED = Source("<attached>")
"""The place of an agent that was attached under a new name: it can't be built again."""

PUBLISHED: Mapping[str, Source] = MappingProxyType(
    {
        "english": Source(REPO),
        "multilingual": Source(REPO, "multilingual"),
        "typed-decisions": Source(REPO, "typed-decisions"),
    }
)
"""One repository, a subfolder each."""

STANDALONE: Mapping[str, Source] = MappingProxyType(
    {
        "english": Source(REPO),
        "multilingual": Source(f"{REPO}-multilingual"),
        "typed-decisions": Source(f"{REPO}-typed-decisions"),
    }
)
"""A repository each."""


@dataclass(frozen=True)
class Catalog:
    """Map checkpoint names, whatever their case, to sources."""

    sources: Mapping[str, Source] = field(default_factory=lambda: PUBLISHED)

    @classmethod
    def build(cls, models: Mapping[str, SourceLike] | None = None, *, standalone_repos: bool = False) -> Catalog:
        """Start from the published checkpoints; `models` re-points them, by name or alias, or adds others."""
        sources = dict(STANDALONE if standalone_repos else PUBLISHED)
        given: set[str] = set()
        for name, source in _parse_models(models).items():
            canonical = cls(sources)._find(name) or name
            if canonical in given:
                message = f"models: {name!r} names {canonical!r} once more; give each checkpoint one place"
                raise OptionError(message, option="models")
            given.add(canonical)
            sources[canonical] = source
        return cls(MappingProxyType(sources))

    def with_attached(self, name: str) -> Catalog:
        """Know `name` too, which stands for an agent that was built elsewhere; a known name stays as it is."""
        if not isinstance(name, str) or not name.strip():  # type: ignore[redundant-expr]  # callers may be untyped
            message = f"a checkpoint's name must be a non-empty string, not {name!r:.40}"
            raise OptionError(message, option="name")
        if self._find(name) is not None:
            return self
        return Catalog(MappingProxyType({**self.sources, name.strip(): ATTACHED}))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the published ones first; no aliases."""
        return tuple(self.sources)

    def resolve_name(self, name: str) -> str:
        """Return the checkpoint that a name or alias means; an unknown one is a ValueError naming all."""
        found = self._find(name)
        if found is None:
            message = f"unknown checkpoint {name!r:.80}; choose one of {', '.join(self.names)}"
            raise OptionError(message, option="model")
        return found

    def source(self, name: str) -> Source:
        """Return where a checkpoint, given by name or alias, is."""
        return self.sources[self.resolve_name(name)]

    def _find(self, name: object) -> str | None:
        """Look a name up; a checkpoint's own name goes before an alias."""
        wanted = name.strip().casefold() if isinstance(name, str) else None
        for known in self.sources:
            if known.casefold() == wanted:
                return known
        return ALIASES.get(wanted) if wanted is not None else None


def _parse_models(models: object) -> dict[str, Source]:
    if models is None:
        return {}
    if not isinstance(models, Mapping):
        message = f"models must map names to directories or Hub ids, not {type(models).__name__}"
        raise OptionError(message, option="models")
    for name in models:
        if not isinstance(name, str) or not name.strip():
            message = f"models: a name must be a non-empty string, not {type(name).__name__} {name!r:.40}"
            raise OptionError(message, option="models")
    return {name: Source.parse(name, value) for name, value in models.items()}
