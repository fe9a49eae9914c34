"""Rerank or filter retrieved nodes by a question that laya answers about each.

index.as_query_engine(node_postprocessors=[LayaNodePostprocessor(model="laya-mini", mode="rerank", top_n=3)])
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from pydantic import AfterValidator, Field

from laya_integrations import presets
from laya_integrations._questions import lower_questions
from laya_integrations.llama_index._arguments import listed_of
from laya_integrations.llama_index._asking import Asked, Asking, Asks, arun, run
from laya_integrations.llama_index._component import ComponentFields

RETRIEVAL_SCORE = "retrieval_score"
"""Metadata key of the score that a node came with."""

_dispatcher = get_dispatcher(__name__)
_logger = logging.getLogger(__name__)


def _default_question() -> dict[str, Any]:
    return {"relevant": presets.relevance()["relevant"]}


def _one_graded(questions: Any) -> Any:
    questions = lower_questions(questions)
    if len(questions) != 1:
        raise ValueError(f"questions must hold one question, which gives each node its score; got {len(questions)}")
    [(question_id, question)] = questions.items()
    kind = question.get("type")
    if kind not in ("noul", "score"):
        raise ValueError(
            f"question {question_id!r} must be a noul or a score, whose answers have an order; got {kind!r}"
        )
    if kind == "score" and len(question.get("criteria") or ()) < 2:
        raise ValueError(
            f"question {question_id!r} needs at least two levels in 'criteria'; one scores every node alike"
        )
    return questions


class LayaNodePostprocessor(ComponentFields, BaseNodePostprocessor):
    """Order nodes by how well they answer the query, or keep those that do.

    One laya call for all nodes. laya reads `{"query": ..., "passage": ...}`, the passage with the metadata that
    LlamaIndex shows to an embedding model. A node's new score lies in 0 to 1: P(true) of a noul, or the expected level
    of a score question divided by the highest level. The nodes that come out are new `NodeWithScore`s; those that
    went in, and their nodes, stay as they were. A node without a retrieval score is treated like any other; one
    without a text isn't asked about and scores 0. What is longer than the token budget is cut off at the end, so that
    a long passage is judged by how it begins.
    """

    mode: Literal["rerank", "filter"] = "rerank"
    """`rerank`: the best first. `filter`: only those of at least `threshold`, in the order of the retrieval."""
    questions: Annotated[Any, AfterValidator(_one_graded)] = Field(default_factory=_default_question)
    """One noul or score question about `query` and `passage`; by default the noul of `presets.relevance()`."""
    top_n: Annotated[int, Field(ge=1)] | None = None
    """Most nodes that come out: when reranking the best ones, when filtering the first ones."""
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Least score of a node that comes out, also when reranking; None means 0.5 when filtering, else 0."""
    keep_retrieval_score: bool = False
    """Whether a copy of the node comes out, with the old score in its metadata (if it had one), where neither an
    embedding model nor an LLM reads it."""
    on_failure: Literal["open", "closed"] = "closed"
    """Where laya can't be asked: `closed` raises; `open` lets the nodes through as they came, up to `top_n`, and logs
    it. Where an answer is below the options' `min_confidence`: `closed` drops the node, `open` keeps it."""

    @classmethod
    def class_name(cls) -> str:
        """The name in a component's dict."""
        return "LayaNodePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = _checked(nodes)
        found: list[NodeWithScore] = []
        with self._announced(nodes, query_bundle, found):
            found.extend(run(self._finding(nodes, query_bundle)))
        return found

    @_dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        nodes = _checked(nodes)
        found: list[NodeWithScore] = []
        with self._announced(nodes, query_bundle, found):
            found.extend(await arun(self._finding(nodes, query_bundle)))
        return found

    def _finding(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> Asks[list[NodeWithScore]]:
        if not nodes:
            return []
        query = _query(query_bundle)
        passages = [node.node.get_content(MetadataMode.EMBED) for node in nodes]
        asked = [index for index, passage in enumerate(passages) if passage.strip()]
        [question] = self.questions
        try:
            decisions = yield Asked(self._asking(), [{"query": query, "passage": passages[index]} for index in asked])
            answers = {index: decision.answer(question) for index, decision in zip(asked, decisions, strict=True)}
            scores = [_score(answers[index]) if index in answers else 0.0 for index in range(len(nodes))]
        except Exception as error:
            if self.on_failure == "closed":
                raise
            # The type alone: a message may quote a query or a passage.
            _logger.warning("laya could not be asked, so the nodes pass as they came: %s", type(error).__name__)
            return [NodeWithScore(node=node.node, score=node.score) for node in nodes][: self.top_n]
        kept = [index for index, score in enumerate(scores) if self._is_kept(score, answers.get(index, {}))]
        if self.mode == "rerank":
            kept.sort(key=lambda index: -scores[index])
        return [self._rescored(nodes[index], scores[index]) for index in kept[: self.top_n]]

    def _asking(self) -> Asking:
        return Asking(self._loaded_runner, self.questions, self.options, self.callback_manager)

    def _is_kept(self, score: float, answer: Mapping[str, Any]) -> bool:
        if answer.get("low_confidence"):
            return self.on_failure == "open"
        default = 0.5 if self.mode == "filter" else 0.0
        return score >= (default if self.threshold is None else self.threshold)

    def _rescored(self, node: NodeWithScore, score: float) -> NodeWithScore:
        keeps = self.keep_retrieval_score and node.score is not None
        return NodeWithScore(node=_noting(node.node, node.score) if keeps else node.node, score=score)

    @contextmanager
    def _announced(
        self, nodes: list[NodeWithScore], query: QueryBundle | None, found: list[NodeWithScore]
    ) -> Iterator[None]:
        """LlamaIndex's events around the work, which fills `found`; the end is sent on every path."""
        top_n = len(nodes) if self.top_n is None else self.top_n
        name = self.model or ("laya" if self.runner is None else type(self.runner).__name__)
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query.query_str if query else "",
            EventPayload.TOP_K: top_n,
        }
        _dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=name))
        try:
            with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
                yield
                event.on_end(payload={EventPayload.NODES: found})
        finally:
            _dispatcher.event(ReRankEndEvent(nodes=found))


def _checked(nodes: Any) -> list[NodeWithScore]:
    hint = "; NodeWithScore(node=...) holds a node without a score too"
    return listed_of(NodeWithScore, nodes, "nodes", "a NodeWithScore", hint)


def _query(query: QueryBundle | None) -> str:
    if query is None or not isinstance(query.query_str, str):
        raise ValueError("the nodes are judged by a query; pass query_str= or query_bundle=")
    return query.query_str


def _score(answer: Mapping[str, Any]) -> float:
    if answer.get("type") == "noul":
        return float(answer["noul"])
    return float(answer["score"]) / (len(answer["probabilities"]) - 1)


def _noting(node: BaseNode, score: float | None) -> BaseNode:
    """A copy with the score in its metadata, which reads the same to a model."""
    return node.model_copy(
        update={
            "metadata": {**node.metadata, RETRIEVAL_SCORE: score},
            "excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, RETRIEVAL_SCORE],
            "excluded_llm_metadata_keys": [*node.excluded_llm_metadata_keys, RETRIEVAL_SCORE],
        }
    )
