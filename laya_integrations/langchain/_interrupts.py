"""Tell LangGraph's own signals from failures."""

from __future__ import annotations

import sys


def steers_graph(error: BaseException) -> bool:
    """Whether LangGraph raised it to steer the graph, as `interrupt()` in a hook does: that is no failure."""
    errors = sys.modules.get("langgraph.errors")
    return errors is not None and isinstance(error, errors.GraphBubbleUp)
