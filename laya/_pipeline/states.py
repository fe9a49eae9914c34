"""Turn a state into the text the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from laya._pipeline.questions import json_text
from laya.errors import StateError


def check_states(states: Any) -> None:
    """Refuse what is no list of states, before anything is tokenized.

    Raises `StateError` (a `TypeError`) for a str, bytes, dict or other non-sequence, and for a None state.
    """
    if not isinstance(states, list | tuple):
        single = isinstance(states, str | bytes | dict)
        step = "pass a single state to predict()" if single else "pass a list, such as list(states)"
        raise StateError(f"predict_batch takes a list of states, got {type(states).__name__}; {step}")
    for index, state in enumerate(states):
        if state is None:
            raise StateError(f"states[{index}] is None; pass a string, a dict or a list", index=index)


def check_state_contents(states: Sequence[Any]) -> None:
    """Refuse a state that can't be written as JSON before any of them is answered; raises `StateError`."""
    for index, state in enumerate(states):
        if not isinstance(state, str):
            state_text(state, index)


def state_text(state: Any, index: int = 0) -> str:
    """The text of one state: a string as it is, anything else as JSON without ASCII escapes."""
    if isinstance(state, str):
        return state
    try:
        return json_text(state)
    except (TypeError, ValueError, RecursionError) as error:
        # The message of json names types only, never the values.
        raise StateError(
            f"states[{index}] can't be written as JSON ({error}); pass text or JSON values", index=index
        ) from error


def cut_from_left(state: Any) -> bool:
    """A conversation loses its oldest tokens, everything else its last ones."""
    return isinstance(state, list)
