"""The LangChain runs of bare laya calls, from the call's start to its end.

Handlers are told one by one: one that raises leaves no run of another's open.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.callbacks.manager import handle_event
from langchain_core.outputs import LLMResult

from laya.hooks import PredictContext
from laya_integrations._calls import CallStart, states_of
from laya_integrations._decisions import Decision
from laya_integrations.langchain._covered import Cover
from laya_integrations.langchain.callbacks import annotate, decision_metadata, llm_result

logger = logging.getLogger(__name__)

NAME = "laya.predict"
"""The runs' name."""


@dataclass(frozen=True)
class ItemRun:
    """One state's run, as LangChain's run managers look."""

    handlers: list[BaseCallbackHandler]
    run_id: UUID
    parent_run_id: UUID | None
    tags: list[str]
    state: Any


class CallRuns:
    """The runs of one call: one that has laya's run id, or one for each of several states.

    The runs of several states have ids made of laya's and their place: `uuid5(UUID(run_id), str(place))`.
    """

    def __init__(self, ctx: PredictContext, manager: CallbackManager, cover: Cover | None = None) -> None:
        self.ctx = ctx
        self.parent_run_id = manager.parent_run_id
        self.start = CallStart(manager.parent_run_id)
        self._manager = manager
        self._cover = cover
        self._items: list[ItemRun] | None = None
        self._closed = False
        self._lock = threading.Lock()

    def open(self) -> None:
        """Start the runs, unless they were closed already: a hook that overran its time may come late."""
        with self._lock:
            if not self._closed:
                self._open()

    def close(self) -> None:
        """End the runs with the call's answers or its error; starts them first where that is still to be done."""
        with self._lock:
            covered = self._items is None and self._cover is not None and self._cover.covered(self.ctx)
            if not self._closed and not covered:
                self._open()
                self._end()
            self._closed = True

    def _open(self) -> None:
        if self._items is not None:
            return
        states = states_of(self.ctx)
        self._items = [self._item(place, state, len(states)) for place, state in enumerate(states)]
        for place, item in enumerate(self._items):
            metadata = {**self._manager.metadata, **self._call_metadata(place)}
            _tell(item, "on_llm_start", {"name": NAME}, [_text(item.state)], name=NAME, metadata=metadata)

    def _item(self, place: int, state: Any, count: int) -> ItemRun:
        call_id = UUID(hex=self.ctx.run_id)
        run_id = call_id if count == 1 else uuid5(call_id, str(place))
        return ItemRun(self._manager.handlers, run_id, self.parent_run_id, self._manager.tags, state)

    def _call_metadata(self, place: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {"laya_run_id": self.ctx.run_id}
        if self.ctx.model is not None:
            metadata["laya_model"] = str(self.ctx.model)
        return {**metadata, "laya_batch_index": place} if len(self._items or ()) > 1 else metadata

    def _end(self) -> None:
        items = self._items or []
        results = list(self.ctx.results or [])
        for place, item in enumerate(items):
            error = self.ctx.error
            if error is None and not results:
                error = RuntimeError("the laya call ended without a result")
            metadata = {"laya_elapsed_ms": self.ctx.elapsed_ms}
            if error is not None:
                annotate(item, metadata)
                _tell(item, "on_llm_error", error)
                continue
            # A hook may answer a whole call with one payload, whose tokens then count once.
            shared = len(results) != len(items)
            decision = self._decision(results[0 if shared else place], place)
            annotate(item, {**metadata, **decision_metadata(decision, counts=not shared or place == 0)})
            _tell(item, "on_llm_end", _answer(decision, counts=not shared or place == 0))

    def _decision(self, payload: Any, place: int) -> Decision:
        result = dict(payload) if isinstance(payload, Mapping) else {}
        if "routing" not in result and isinstance(self.ctx.decision, Mapping):
            result["routing"] = self.ctx.decision
        return Decision(result, self.ctx.run_id, place if len(self._items or ()) > 1 else None)


def _answer(decision: Decision, *, counts: bool) -> LLMResult:
    try:
        content = json.dumps(decision.values, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception:  # a hook's payload has any shape
        content = ""
    return llm_result(decision, content, counts=counts)


def _text(state: Any) -> str:
    if isinstance(state, str):
        return state
    try:
        return json.dumps(state, ensure_ascii=False, default=str)
    except Exception:
        return f"({type(state).__name__})"


def _tell(item: ItemRun, event: str, *args: Any, **kwargs: Any) -> None:
    run = {"run_id": item.run_id, "parent_run_id": item.parent_run_id, "tags": item.tags, **kwargs}
    for handler in item.handlers:
        try:
            handle_event([handler], event, "ignore_llm", *args, **run)
        except Exception:
            logger.warning("laya: %s failed in %s", event, type(handler).__name__, exc_info=True)
