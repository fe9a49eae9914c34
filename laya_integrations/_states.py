"""Read the states that models write."""

from __future__ import annotations

import json
from typing import Any


def read_state(state: Any) -> Any:
    """The state of a tool call; JSON text of an object or a list is what models often send in its place."""
    if not isinstance(state, str) or not state.lstrip().startswith(("{", "[")):
        return state
    try:
        return json.loads(state)
    except (ValueError, RecursionError):
        return state
