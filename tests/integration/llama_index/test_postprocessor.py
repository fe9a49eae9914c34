"""LayaNodePostprocessor alone, in a query engine, and before LlamaIndex's observers."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span_handlers import SimpleSpanHandler
from pydantic import PrivateAttr, ValidationError

from laya_integrations.llama_index import CallOptions, LayaNodePostprocessor
from tests.integration.conftest import CHECKPOINTS, load_quietly

QUERY = "When are invoices sent?"
TEXTS = ["Invoices are sent monthly.", "The app crashes.", "Refunds take a week.", "Hello."]
GRADE = {
    "grade": {
        "type": "score",
        "instructions": "How well does the passage answer the query?",
        "criteria": ["not at all", "partly", "fully"],
    }
}


def test_a_node_without_text_is_not_asked_about(agent: Any) -> None:
    """It scores 0: a filter drops it, a reranking puts it last."""
    asked: list[Any] = []
    options = CallOptions(on_predict_start=[lambda ctx: asked.extend(ctx.states)])
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("", TEXTS[0], " \n")]
    reranked = LayaNodePostprocessor(runner=agent, options=options).postprocess_nodes(nodes, query_str=QUERY)
    assert [state["passage"] for state in asked] == [TEXTS[0]]
    assert [node.score == 0.0 for node in reranked] == [False, True, True]
    kept = LayaNodePostprocessor(runner=agent, mode="filter", threshold=0.01).postprocess_nodes(nodes, query_str=QUERY)
    assert [node.node.get_content() for node in kept] == [TEXTS[0]]


def make_nodes(*texts: str) -> list[NodeWithScore]:
    """Nodes with metadata and falling retrieval scores, the last without one."""
    nodes = [
        NodeWithScore(node=TextNode(text=text, id_=f"n{i}", metadata={"page": i}), score=0.9 - i / 10)
        for i, text in enumerate(texts or TEXTS)
    ]
    nodes[-1].score = None
    return nodes


class Nouls:
    """A hook that gives these probabilities in the model's place, and counts the calls."""

    def __init__(self, *probabilities: float, unsure: tuple[int, ...] = ()) -> None:
        self.probabilities, self.unsure, self.states = probabilities, unsure, []  # type: ignore[var-annotated]

    def on_predict_start(self, ctx: Any) -> None:
        """Answer."""
        self.states.append(ctx.states)
        answers: list[dict[str, Any]] = [{"type": "noul", "noul": p} for p in self.probabilities]
        for index in self.unsure:
            answers[index]["low_confidence"] = True
        ctx.skip([{"answers": {"relevant": answer}} for answer in answers])


def answering(*probabilities: float, unsure: tuple[int, ...] = ()) -> CallOptions:
    """Options under which the nodes have these probabilities."""
    return CallOptions(hooks=Nouls(*probabilities, unsure=unsure))


class Recorder(BaseEventHandler):
    """Keeps the rerank events."""

    _events: list[Any] = PrivateAttr(default_factory=list)

    def handle(self, event: Any, **kwargs: Any) -> None:
        """Keep one."""
        if isinstance(event, ReRankStartEvent | ReRankEndEvent):
            self._events.append(event)


@pytest.fixture
def events() -> Iterator[list[Any]]:
    """The rerank events of this test."""
    recorder = Recorder()
    root = get_dispatcher()
    root.add_event_handler(recorder)
    yield recorder._events
    root.event_handlers[:] = [handler for handler in root.event_handlers if handler is not recorder]


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    """The spans of this test."""
    handler = SimpleSpanHandler()
    root = get_dispatcher()
    root.add_span_handler(handler)
    yield handler
    root.span_handlers[:] = [other for other in root.span_handlers if other is not handler]


@pytest.mark.parametrize("runner", ["agent", "router"])
@pytest.mark.parametrize("questions", [None, GRADE])
async def test_reranking_orders_by_layas_answers(request: pytest.FixtureRequest, runner: str, questions: Any) -> None:
    """The scores are those of predict_batch for the same states, as floats, each on its own node."""
    fields = {"questions": questions} if questions else {}
    runner = request.getfixturevalue(runner)
    postprocessor = LayaNodePostprocessor(runner=runner, **fields)
    nodes = make_nodes()
    expected = {}
    for node in nodes:
        state = {"query": QUERY, "passage": node.node.get_content(MetadataMode.EMBED)}
        [answer] = runner.predict(state, postprocessor.questions)["answers"].values()
        expected[node.node_id] = answer["score"] / 2 if questions else answer["noul"]
    for found in (
        postprocessor.postprocess_nodes(nodes, query_str=QUERY),
        await postprocessor.apostprocess_nodes(nodes, QueryBundle(QUERY)),
    ):
        scores = [node.score for node in found]
        assert scores == sorted(scores, reverse=True) and all(type(score) is float for score in scores)
        assert {node.node_id: node.score for node in found} == pytest.approx(expected, abs=2e-4)
        json.dumps([node.to_dict() for node in found])


def test_one_call_asks_about_all_nodes(agent: Any) -> None:
    """The passage has the metadata that an embedding model reads."""
    hook = Nouls(0.1, 0.2, 0.3, 0.4)
    LayaNodePostprocessor(runner=agent, options=CallOptions(hooks=hook)).postprocess_nodes(make_nodes(), query_str="q")
    [states] = hook.states
    assert states[0] == {"query": "q", "passage": "page: 0\n\nInvoices are sent monthly."}
    assert [state["passage"][-len(text) :] for state, text in zip(states, TEXTS, strict=True)] == TEXTS


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({}, ["n1", "n3", "n0", "n2"]),
        ({"top_n": 2}, ["n1", "n3"]),
        ({"top_n": 9}, ["n1", "n3", "n0", "n2"]),
        ({"threshold": 0.5}, ["n1", "n3", "n0"]),
        ({"mode": "filter"}, ["n0", "n1", "n3"]),
        ({"mode": "filter", "top_n": 2}, ["n0", "n1"]),
        ({"mode": "filter", "threshold": 0.8}, ["n1", "n3"]),
        ({"mode": "filter", "threshold": 1.0}, []),
    ],
)
def test_what_comes_out_and_in_which_order(agent: Any, fields: dict[str, Any], ids: list[str]) -> None:
    """Equal scores keep the order of the retrieval."""
    postprocessor = LayaNodePostprocessor(runner=agent, options=answering(0.5, 0.8, 0.1, 0.8), **fields)
    found = postprocessor.postprocess_nodes(make_nodes(), query_str=QUERY)
    assert [node.node_id for node in found] == ids
    assert all(node.score == {"n0": 0.5, "n1": 0.8, "n2": 0.1, "n3": 0.8}[node.node_id] for node in found)


@pytest.mark.parametrize("keep", [False, True])
def test_the_nodes_that_went_in_stay_as_they_were(agent: Any, keep: bool) -> None:
    """Score, metadata and hash; what comes out reads the same to a model, with the old score beside it if wanted."""
    nodes = make_nodes()
    before = copy.deepcopy(nodes)
    hashes = [node.node.hash for node in nodes]
    found = LayaNodePostprocessor(runner=agent, keep_retrieval_score=keep).postprocess_nodes(nodes, query_str=QUERY)
    assert nodes == before and [node.node.hash for node in nodes] == hashes
    assert not {id(node) for node in nodes} & {id(node) for node in found}
    for node in found:
        [old] = [other for other in before if other.node_id == node.node_id]
        noted = {"retrieval_score": old.score} if keep and old.score is not None else {}
        assert node.node.metadata == {**old.node.metadata, **noted}
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert node.node.get_content(mode) == old.node.get_content(mode)


@pytest.mark.parametrize("mode", ["rerank", "filter"])
async def test_no_nodes_are_no_call(mode: Any, events: list[Any]) -> None:
    """Not even with a query missing; the events are paired all the same."""
    postprocessor = LayaNodePostprocessor(model="/no/such/checkpoint", mode=mode)
    assert postprocessor.postprocess_nodes([]) == []
    assert await postprocessor.apostprocess_nodes([], query_str=QUERY) == []
    assert [type(event) for event in events] == [ReRankStartEvent, ReRankEndEvent] * 2
    assert events[0].top_n == 0


@pytest.mark.parametrize("query", [None, QueryBundle(None)])  # type: ignore[arg-type]
def test_nodes_without_a_query_are_refused(agent: Any, query: Any) -> None:
    """The message says what to pass, before laya is asked."""
    with pytest.raises(ValueError, match="query_str="):
        LayaNodePostprocessor(runner=agent).postprocess_nodes(make_nodes(), query)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([TextNode(text="secret")], r"^nodes\[0\] must be a NodeWithScore, got TextNode; NodeWithScore\(node="),
        ([*make_nodes(), "secret"], r"^nodes\[4\] must be a NodeWithScore, got str; "),
        (make_nodes()[0], "^nodes must be a list, got NodeWithScore; put a single one into a list$"),
        (None, "^nodes must be a list, got NoneType; "),
    ],
)
async def test_what_is_no_list_of_scored_nodes_is_named(nodes: Any, said: str, events: list[Any]) -> None:
    """Also where laya's failures would let nodes through; nothing is loaded or announced."""
    postprocessor = LayaNodePostprocessor(model="/no/such/checkpoint", on_failure="open")
    with pytest.raises(TypeError, match=said):
        postprocessor.postprocess_nodes(nodes, query_str=QUERY)
    with pytest.raises(TypeError, match=said):
        await postprocessor.apostprocess_nodes(nodes, query_str=QUERY)
    assert events == []


class Failing:
    """A runner that can't."""

    def predict(self, state: Any, questions: Any, **options: Any) -> Any:
        """Fail, and say on what."""
        raise RuntimeError(f"out of memory at {state}")


class Short:
    """A runner that loses a result."""

    def predict(self, state: Any, questions: Any, **options: Any) -> Any:
        """Answer nothing."""
        return {"answers": {}}

    def predict_batch(self, states: Any, questions: Any, **options: Any) -> Any:
        """Lose the last one."""
        return [{"answers": {"relevant": {"type": "noul", "noul": 0.5}}} for _ in states[1:]]


@pytest.mark.parametrize("runner", [Failing(), Short()])
async def test_a_failure_is_open_or_closed(
    runner: Any, caplog: pytest.LogCaptureFixture, events: list[Any], spans: SimpleSpanHandler
) -> None:
    """Closed raises; open lets the nodes pass in their order and logs it; both end what they began."""
    caplog.set_level(logging.WARNING)
    nodes = make_nodes()
    with pytest.raises(RuntimeError):
        LayaNodePostprocessor(runner=runner, top_n=2).postprocess_nodes(nodes, query_str=QUERY)
    assert events[-1].nodes == [] and caplog.text == ""
    opened = LayaNodePostprocessor(runner=runner, top_n=2, on_failure="open")
    for found in (
        opened.postprocess_nodes(nodes, query_str=QUERY),
        await opened.apostprocess_nodes(nodes, query_str=QUERY),
    ):
        assert found == nodes[:2] and found[0] is not nodes[0]
    assert "RuntimeError" in caplog.text
    assert not any(text in caplog.text for text in (QUERY, TEXTS[0]))
    assert [type(event) for event in events] == [ReRankStartEvent, ReRankEndEvent] * 3
    assert spans.open_spans == {}


@pytest.mark.parametrize(("on_failure", "ids"), [("closed", ["n1"]), ("open", ["n0", "n1"])])
def test_an_answer_below_the_gate_is_open_or_closed(agent: Any, on_failure: Any, ids: list[str]) -> None:
    """laya's `min_confidence` says which answers count as unsure."""
    options = answering(0.4, 0.8, 0.1, 0.2, unsure=(0,))
    postprocessor = LayaNodePostprocessor(runner=agent, mode="filter", on_failure=on_failure, options=options)
    found = postprocessor.postprocess_nodes(make_nodes(), query_str=QUERY)
    assert [node.node_id for node in found] == ids


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"top_n": 0}, "greater than or equal to 1"),
        ({"threshold": 2}, "less than or equal to 1"),
        ({"mode": "sort"}, "'rerank' or 'filter'"),
        ({"on_failure": "ajar"}, "'open' or 'closed'"),
        ({"questions": {}}, "one question"),
        ({"questions": {**GRADE, "b": GRADE["grade"]}}, "one question"),
        ({"questions": {"a": {"type": "choice", "instructions": "?", "criteria": ["x", "y"]}}}, "noul or a score"),
        ({"questions": {"a": {"type": "score", "instructions": "?", "criteria": ["x"]}}}, "two levels"),
        ({"model": "a", "runner": Failing()}, "both"),
        ({"topn": 1}, "Extra inputs"),
    ],
)
def test_a_bad_field_is_refused_when_it_is_given(fields: dict[str, Any], said: str) -> None:
    """Not at the first query."""
    with pytest.raises(ValidationError, match=said):
        LayaNodePostprocessor(**fields)


def test_a_dict_and_a_pickle_keep_all_but_the_runner(agent: Any) -> None:
    """Reading them never ends with another runner than the one that was left out."""
    named = LayaNodePostprocessor(model=str(CHECKPOINTS / "english"), top_n=2, options=CallOptions(max_len=100))
    data = json.loads(named.to_json())
    assert data["class_name"] == LayaNodePostprocessor.class_name() == "LayaNodePostprocessor"
    read = LayaNodePostprocessor.from_dict(data)
    assert read.to_dict() == named.to_dict() and read.options == named.options
    for copied in (read, pickle.loads(pickle.dumps(named))):
        assert load_quietly(lambda copied=copied: copied.postprocess_nodes(make_nodes(), query_str=QUERY))
    given = LayaNodePostprocessor(runner=agent, top_n=2)
    assert "runner" not in repr(given) and json.loads(given.to_json())["top_n"] == 2
    with pytest.raises(ValueError, match="from_dict\\(data, runner="):
        LayaNodePostprocessor.from_dict(given.to_dict())
    assert LayaNodePostprocessor.from_dict(given.to_dict(), runner=agent).runner is agent
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(given)).postprocess_nodes(make_nodes(), query_str=QUERY)


def test_a_pickle_does_not_try_the_runner(caplog: pytest.LogCaptureFixture) -> None:
    """LlamaIndex would pickle every field to see whether it can, gigabytes of weights too."""

    class Heavy(Failing):
        def __reduce__(self) -> Any:
            raise AssertionError("pickled")

    handled = LayaNodePostprocessor(runner=Heavy(), callback_manager=CallbackManager([LlamaDebugHandler()]))
    pickle.dumps(handled)
    assert caplog.text == ""
    assert copy.deepcopy(handled).runner is handled.runner


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_query_engine_traces_the_reranking(
    agent: Any, events: list[Any], spans: SimpleSpanHandler, asynchronous: bool
) -> None:
    """The span lies under the query's, the events in it, and the callback manager is the engine's."""
    index = VectorStoreIndex.from_documents(
        [Document(text=text, id_=text) for text in TEXTS], embed_model=MockEmbedding(4)
    )
    debug = LlamaDebugHandler(print_trace_on_end=False)
    postprocessor = LayaNodePostprocessor(runner=agent, top_n=2)
    engine = index.as_query_engine(
        llm=MockLLM(callback_manager=CallbackManager([debug])),
        node_postprocessors=[postprocessor],
        similarity_top_k=4,
        embed_model=MockEmbedding(4),
    )
    engine.callback_manager = postprocessor.callback_manager = CallbackManager([debug])
    response = await engine.aquery(QUERY) if asynchronous else engine.query(QUERY)
    assert len(response.source_nodes) == 2
    start, end = events
    assert (start.top_n, start.model_name, len(start.nodes), len(end.nodes)) == (2, "Agent", 4, 2)
    method = "_apostprocess_nodes" if asynchronous else "_postprocess_nodes"
    [span] = [span for span in spans.completed_spans if f"LayaNodePostprocessor.{method}" in span.id_]
    assert start.span_id == end.span_id == span.id_
    parents = {other.id_: other.parent_id for other in spans.completed_spans}
    assert "RetrieverQueryEngine._" in parents[span.id_] and spans.open_spans == {}
    [(begun, ended)] = debug.get_event_pairs(CBEventType.RERANKING)
    assert begun.payload is not None and begun.payload[EventPayload.TOP_K] == 2
    assert ended.payload is not None and len(ended.payload[EventPayload.NODES]) == 2
