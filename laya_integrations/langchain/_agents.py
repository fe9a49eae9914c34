"""What the middlewares use of LangChain's agents, which are a package of their own."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        hook_config,
    )
    from langgraph.runtime import Runtime
    from langgraph.types import interrupt
except ModuleNotFoundError as error:
    raise ImportError(
        f"the agent middlewares of laya_integrations.langchain need the module {error.name!r}, which is missing or "
        "too old here; install it with: pip install 'langchain>=1.5,<2'",
        name=error.name,
    ) from error

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "ModelRequest",
    "ModelResponse",
    "Runtime",
    "hook_config",
    "interrupt",
    "warn_of_unknown_tools",
]


def warn_of_unknown_tools(argument: str, names: Collection[str], request: ModelRequest[Any]) -> None:
    """Warn of names that an argument gives and no tool of the request has: misspelt, they would do nothing."""
    known = {tool.get("name") if isinstance(tool, dict) else tool.name for tool in request.tools}
    if unknown := sorted(set(names) - known):
        found = ", ".join(sorted(str(name) for name in known if name)) or "none"
        is_format = unknown[0] in {spec.name for spec in getattr(request.response_format, "schema_specs", ())}
        fault = (
            "is the agent's response format; an answer in it is output, no tool call"
            if is_format
            else f"the agent has no tool for; its tools are: {found}"
        )
        warnings.warn(f"{argument} names {unknown[0]!r}, which {fault}", RuntimeWarning, stacklevel=3)
