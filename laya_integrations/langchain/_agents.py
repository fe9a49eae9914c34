"""What the middlewares use of LangChain's agents, which are a package of their own."""

from __future__ import annotations

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
]
