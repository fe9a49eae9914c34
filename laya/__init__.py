"""laya: typed decisions about text, JSON and conversations, in one forward pass.

Importing the package loads neither torch nor transformers; the names below load what they need on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from laya import hooks
from laya._version import __version__
from laya.hooks import AsyncHook, BaseHook, Hook, PredictContext, PredictHook

if TYPE_CHECKING:
    from laya import questions as questions
    from laya import types as types
    from laya._forward.onnx_export import export_onnx
    from laya.agent import Agent, load
    from laya.onnx_agent import ONNXAgent
    from laya.questions import Choice, Noul, Score
    from laya.router import Router

_LAZY = {
    "Agent": "laya.agent",
    "load": "laya.agent",
    "Router": "laya.router",
    "ONNXAgent": "laya.onnx_agent",
    "export_onnx": "laya._forward.onnx_export",
    "Choice": "laya.questions",
    "Score": "laya.questions",
    "Noul": "laya.questions",
}

__all__ = [
    "Agent",
    "AsyncHook",
    "BaseHook",
    "Choice",
    "Hook",
    "Noul",
    "ONNXAgent",
    "PredictContext",
    "PredictHook",
    "Router",
    "Score",
    "__version__",
    "export_onnx",
    "hooks",
    "load",
]


_SUBMODULES = ("questions", "types")
"""Read as attributes without an import of their own, as `laya.questions.Levels`."""


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"laya.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'laya' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
