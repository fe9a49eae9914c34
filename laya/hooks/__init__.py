"""Watch and steer predictions: the context of a call, the six events, and what runs hooks on them."""

from __future__ import annotations

from laya.hooks._context import HOOK_EVENTS, PredictContext
from laya.hooks._coroutines import run_coroutine_sync
from laya.hooks._dispatch import dispatch
from laya.hooks._hook import AsyncHook, BaseHook, Hook, PredictHook, normalise_hooks
from laya.hooks._registry import (
    HookRegistry,
    add_default_hook,
    clear_default_hooks,
    compose_hooks,
    default_hooks,
    set_default_hooks,
)
from laya.hooks._usage import aggregate_usage

__all__ = [
    "HOOK_EVENTS",
    "AsyncHook",
    "BaseHook",
    "Hook",
    "HookRegistry",
    "PredictContext",
    "PredictHook",
    "add_default_hook",
    "aggregate_usage",
    "clear_default_hooks",
    "compose_hooks",
    "default_hooks",
    "dispatch",
    "normalise_hooks",
    "run_coroutine_sync",
    "set_default_hooks",
]
