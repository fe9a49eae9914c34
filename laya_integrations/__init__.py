"""Adapters that put laya's decisions into the frameworks around it.

Each framework has a folder and an extra of the same name (`pip install 'laya-integrations[langchain]'`).
Importing this package imports none of them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_FRAMEWORKS = ("langchain", "llama_index", "opentelemetry")


def __getattr__(name: str) -> ModuleType:
    if name in _FRAMEWORKS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_FRAMEWORKS])
