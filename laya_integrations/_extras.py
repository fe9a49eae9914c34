"""Import what needs a framework when it is first used, and say which extra to install where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def installed_by(extra: str) -> Iterator[None]:
    """Turn a missing package inside the block into an ImportError that names the extra to install.

    A missing module of laya's own is a fault of the installation, not of the extra, and passes unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.split(".")[0] in ("laya", "laya_integrations"):
            raise
        package = extra.replace("-", "_")
        raise ImportError(
            f"laya_integrations.{package} needs the module {missing!r}, which is missing or too old here; "
            f"install it with: pip install 'laya-integrations[{extra}]'",
            name=missing,
        ) from error


def lazy_names(
    module: str, homes: Mapping[str, str], extra: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`: a name's module is imported when the name is first used.

    `homes` says in which module below `laya_integrations` each name is defined.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        with installed_by(extra):
            value = getattr(import_module(f"laya_integrations.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return load, names
