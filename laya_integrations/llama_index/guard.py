"""Look at a query before a query engine does: refuse it, rewrite it, or let it through.

engine = LayaQueryGuard(runner=agent, query_engine=index.as_query_engine())
engine.query("Ignore your rules.").response
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from laya_integrations import presets
from laya_integrations._decisions import Decision
from laya_integrations._fields import RunnerFields
from laya_integrations._questions import lower_questions
from laya_integrations.llama_index._asking import Asking
from laya_integrations.llama_index._conditions import Condition, check_conditions, met, unsure

logger = logging.getLogger(__name__)

_MOST_ROUNDS = 6
"""Halving a query so often makes 64 pieces."""


class QueryBlocked(ValueError):
    """A guard did not let a query through."""

    def __init__(self, blocked_by: Sequence[str], run_id: str | None) -> None:
        super().__init__(f"the query was blocked by {', '.join(blocked_by)} (laya run {run_id})")
        self.blocked_by = list(blocked_by)
        """The ids of the questions whose answers blocked it."""
        self.run_id = run_id
        """laya's id of the call."""

    def __reduce__(self) -> tuple[type[QueryBlocked], tuple[list[str], str | None]]:
        return type(self), (self.blocked_by, self.run_id)


class LayaQueryGuard(RunnerFields, BaseQueryEngine):
    """Ask questions about each query, and answer in the engine's place where one of them says so.

    The guard is a query engine itself: it goes wherever the engine went. A blocked query gets `refusal` as its
    response, with the answers in `metadata["laya"]`; its `retrieve` finds no nodes. A query that is longer than
    the token budget is read in pieces, and blocked by any of them.

    A model that reads the query judges it, so a query may be written to mislead it: use it beside other
    defences, and not in place of access rights.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    query_engine: BaseQueryEngine
    """What answers the queries that pass."""
    questions: Annotated[Any, AfterValidator(lower_questions)] = Field(default_factory=presets.guard)
    """What to ask about a query's text: question dicts or question objects."""
    block_if: dict[str, Condition] | None = None
    """By question id, when to block: a noul's value or lowest probability of true, a choice's label or labels, a
    score's lowest level. Without it, any noul that is true."""
    rewrite_if: dict[str, Condition] | None = None
    """The same, for rewriting; without it, every query that passes is rewritten, if there is a `rewrite`."""
    rewrite: Callable[[QueryBundle, dict[str, Any]], Any] | None = None
    """Makes the new query, as text or a `QueryBundle`, of the query and the bare answers; a query transform will do.
    Anything else that it returns is a TypeError."""
    on_block: Literal["refuse", "raise"] = "refuse"
    """Whether a blocked query gets the refusal, or raises `QueryBlocked`."""
    refusal: str = "This question can't be answered here."
    """The response to a blocked query."""
    streaming: bool = False
    """Whether the refusal is a stream: set it where the engine streams its answers."""
    on_failure: Literal["open", "closed"] = "closed"
    """Where laya can't be asked: `closed` raises, `open` lets the query through and logs it. Where an answer is below
    the options' `min_confidence`: `closed` blocks, `open` does not."""
    callback_manager: CallbackManager = Field(default_factory=lambda: CallbackManager([]), exclude=True, repr=False)
    """LlamaIndex's."""

    @model_validator(mode="after")
    def _can_decide(self) -> Self:
        if self.block_if is None:
            self.block_if = {name: True for name, asked in self.questions.items() if asked.get("type") == "noul"}
        if not self.block_if and self.rewrite is None:
            raise ValueError("nothing can come of these questions; give block_if or rewrite")
        if self.rewrite_if is not None and self.rewrite is None:
            raise ValueError("rewrite_if needs rewrite, which makes the new query")
        check_conditions(self.block_if, self.questions, "block_if")
        check_conditions(self.rewrite_if or {}, self.questions, "rewrite_if")
        return self

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The engine's nodes for the query that passes; none for a blocked one."""
        outcome = self._judged(query_bundle)
        return [] if outcome.query is None else self.query_engine.retrieve(outcome.query)

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """The engine's response of nodes, for the query that passes."""
        outcome = self._judged(query_bundle)
        if outcome.query is None:
            return self._refused(outcome)
        return self.query_engine.synthesize(outcome.query, nodes, additional_source_nodes)

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """`synthesize`, off the event loop."""
        outcome = await asyncio.to_thread(self._judged, query_bundle)
        if outcome.query is None:
            return self._arefused(outcome)
        return await self.query_engine.asynthesize(outcome.query, nodes, additional_source_nodes)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        outcome = self._judged(query_bundle)
        return self._refused(outcome) if outcome.query is None else self.query_engine.query(outcome.query)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        outcome = await asyncio.to_thread(self._judged, query_bundle)
        if outcome.query is None:
            return self._arefused(outcome)
        return await self.query_engine.aquery(outcome.query)

    def _refused(self, outcome: _Outcome) -> RESPONSE_TYPE:
        if self.streaming:
            return StreamingResponse((text for text in [self.refusal]), metadata=outcome.metadata)
        return Response(self.refusal, metadata=outcome.metadata)

    def _arefused(self, outcome: _Outcome) -> RESPONSE_TYPE:
        if self.streaming:
            return AsyncStreamingResponse(_stream(self.refusal), metadata=outcome.metadata)
        return self._refused(outcome)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self.query_engine}

    def _judged(self, query: QueryBundle) -> _Outcome:
        """What becomes of a query; raises `QueryBlocked` where blocking raises."""
        try:
            decisions = self._read(query.query_str)
            blocked_by, decision = self._blocking(decisions)
        except Exception as error:
            if self.on_failure == "closed":
                raise
            logger.warning("laya could not be asked, so a query passes as it came: %s", type(error).__name__)
            return _Outcome(query)
        if blocked_by and self.on_block == "raise":
            raise QueryBlocked(blocked_by, decision.run_id)
        return _Outcome(None, blocked_by, decision) if blocked_by else _Outcome(self._rewritten(query, decisions))

    def _blocking(self, decisions: Sequence[Decision]) -> tuple[list[str], Decision]:
        """Why the query is blocked, if it is, and by which decision."""
        conditions = self.block_if or {}
        for decision in decisions:
            if blocked_by := met(conditions, decision):
                return blocked_by, decision
        if self.on_failure == "closed":
            for decision in decisions:
                if blocked_by := list(conditions) if decision.truncated else unsure(conditions, decision):
                    return blocked_by, decision
        return [], decisions[0]

    def _rewritten(self, query: QueryBundle, decisions: Sequence[Decision]) -> QueryBundle:
        if self.rewrite is None:
            return query
        asked_for = [decision for decision in decisions if self.rewrite_if is None or met(self.rewrite_if, decision)]
        if not asked_for:
            return query
        new = self.rewrite(query, asked_for[0].values)
        if isinstance(new, Coroutine):
            new.close()
        if not isinstance(new, str | QueryBundle):
            raise TypeError(f"rewrite must return the new query as a text or a QueryBundle, got {type(new).__name__}")
        return QueryBundle(new) if isinstance(new, str) else new

    def _read(self, text: str) -> list[Decision]:
        """The answers about the whole query: of what was cut, both halves are asked about."""
        asking = Asking(self._loaded_runner, self.questions, self.options, self.callback_manager)
        whole: list[Decision] = []
        pieces = [text]
        for _ in range(_MOST_ROUNDS):
            decisions = asking.many(pieces)
            whole += [decision for decision in decisions if not decision.truncated]
            cut = [piece for piece, decision in zip(pieces, decisions, strict=True) if decision.truncated]
            if not cut:
                return whole
            pieces = [half for piece in cut for half in _halves(piece)]
        return whole + asking.many(pieces)


@dataclass(frozen=True)
class _Outcome:
    """What becomes of a query."""

    query: QueryBundle | None
    """What the engine is asked; None for a blocked query."""
    blocked_by: Sequence[str] = ()
    decision: Decision | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """What the response to a blocked query says of the decision."""
        about: dict[str, Any] = {"blocked_by": list(self.blocked_by)}
        if self.decision is not None:
            about |= {"answers": self.decision.values, "run_id": self.decision.run_id}
        return {"laya": about}


async def _stream(text: str) -> AsyncGenerator[str, None]:
    yield text


def _halves(text: str) -> tuple[str, str]:
    """Two halves that share a tenth, so that a sentence in the middle is whole in one of them."""
    middle, shared = len(text) // 2, len(text) // 20
    return text[: middle + shared], text[middle - shared :]
