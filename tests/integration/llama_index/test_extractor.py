"""LayaMetadataExtractor writes typed answers into nodes, one laya call for all of them."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, ImageNode, NodeWithScore, TextNode
from pydantic import ValidationError

from laya.hooks import BaseHook
from laya_integrations.llama_index import CallOptions, LayaMetadataExtractor
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.llama_index.conftest import QUESTIONS

MOOD = {"type": "score", "instructions": "How angry is it?", "criteria": ["calm", "annoyed", "furious"]}
ALL = {**QUESTIONS, "mood": MOOD}
ENGLISH = str(CHECKPOINTS / "english")


class Calls(BaseHook):
    """The states of each laya call."""

    def __init__(self) -> None:
        self.states: list[list[Any]] = []

    def on_predict_start(self, ctx: Any) -> None:
        """Keep them."""
        self.states.append(list(ctx.states))


def nodes(*texts: str) -> list[TextNode]:
    """A node for each text."""
    return [TextNode(text=text) for text in texts]


def test_metadata_is_typed_and_in_order(agent: Any) -> None:
    """A label, true or false, a level: what `predict` answers about each text, in plain JSON types."""
    calls = Calls()
    extractor = LayaMetadataExtractor(runner=agent, questions=ALL, options=CallOptions(hooks=calls))
    texts = ["My invoice is wrong.", "The app crashes!", "Thank you."]
    found = extractor.extract(nodes(*texts))
    assert calls.states == [texts]
    for text, metadata in zip(texts, found, strict=True):
        answers = agent.predict(text, ALL)["answers"]
        assert metadata["department"] == answers["department"]["choice"]
        assert metadata["urgent"] is (answers["urgent"]["noul"] >= 0.5)
        assert type(metadata["mood"]) is int and 0 <= metadata["mood"] <= 2
    assert json.loads(json.dumps(found)) == found


def test_keys_may_have_a_prefix_and_confidences(agent: Any) -> None:
    """Confidences are the answers' probabilities, as floats."""
    extractor = LayaMetadataExtractor(runner=agent, questions=QUESTIONS, prefix="laya_", with_confidence=True)
    [metadata] = extractor.extract(nodes("a"))
    assert set(metadata) == {f"laya_{name}{end}" for name in QUESTIONS for end in ("", "_confidence")}
    assert type(metadata["laya_urgent_confidence"]) is float


def test_a_confidence_in_a_questions_place_is_refused() -> None:
    """One of the two answers would be lost."""
    questions = {"mood": MOOD, "mood_confidence": MOOD}
    with pytest.raises(ValueError, match="mood_confidence, which is a question too"):
        LayaMetadataExtractor(model=ENGLISH, questions=questions, with_confidence=True)


def test_an_answer_below_the_gate_writes_nothing(agent: Any) -> None:
    """A filter on the metadata finds no guess, and no None."""
    options = CallOptions(min_confidence={"noul:2": 1.0, "default": 0.0})
    [metadata] = LayaMetadataExtractor(runner=agent, questions=QUESTIONS, options=options).extract(nodes("a"))
    assert set(metadata) == {"department"}


def test_a_node_without_text_gets_nothing(agent: Any) -> None:
    """And no nodes ask nothing; a Document is read, which LlamaIndex's extractors pass over."""
    calls = Calls()
    extractor = LayaMetadataExtractor(runner=agent, questions=QUESTIONS, options=CallOptions(hooks=calls))
    found = extractor.extract([TextNode(text=" "), Document(text="a"), ImageNode(image_path="a.png")])
    assert [bool(metadata) for metadata in found] == [False, True, False]
    assert extractor.extract([]) == [] and calls.states == [["a"]]


def test_a_pipeline_writes_into_its_nodes(agent: Any) -> None:
    """The text, its template and the other metadata stay as they were."""
    extractor = LayaMetadataExtractor(runner=agent, questions=QUESTIONS)
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0), extractor])
    [node] = pipeline.run(documents=[Document(text="My invoice is wrong.", metadata={"file": "a.txt"})])
    assert set(node.metadata) == {"file", *QUESTIONS}
    assert node.get_content() == "My invoice is wrong." and "Excerpt" not in node.text_template


def test_metadata_is_not_read_unless_asked_for(agent: Any) -> None:
    """What one extractor wrote does not sway the next."""
    calls = Calls()
    extractor = LayaMetadataExtractor(runner=agent, questions=QUESTIONS, options=CallOptions(hooks=calls))
    extractor.extract([TextNode(text="a", metadata={"mood": "furious"})])
    assert calls.states == [["a"]]


def test_nodes_can_be_left_as_they_are(agent: Any) -> None:
    """With `in_place` off the pipeline gets copies."""
    given = nodes("a")
    processed = LayaMetadataExtractor(runner=agent, questions=QUESTIONS, in_place=False)(given)
    assert given[0].metadata == {} and set(processed[0].metadata) == set(QUESTIONS)
    assert isinstance(NodeWithScore(node=processed[0]).node, TextNode)


def test_a_cached_run_asks_nothing(agent: Any) -> None:
    """The cache knows the same questions on the same texts again, also for an extractor made anew."""
    calls = Calls()
    cache = IngestionCache()
    with agent.hooks_installed(calls):
        for _ in range(2):
            extractor = LayaMetadataExtractor(runner=agent, questions=QUESTIONS)
            [node] = IngestionPipeline(transformations=[extractor], cache=cache).run(documents=[Document(text="a")])
    assert len(calls.states) == 1 and set(node.metadata) == set(QUESTIONS)


def test_whatever_changes_the_answers_changes_the_cache_key(agent: Any) -> None:
    """Questions, options, prefix, the model's name and a runner's own name."""
    base = {"questions": QUESTIONS, "model": ENGLISH}
    variants = [
        base,
        {**base, "questions": ALL},
        {**base, "options": CallOptions(min_confidence=0.5)},
        {**base, "prefix": "x"},
        {**base, "model": str(CHECKPOINTS / "bert")},
        {"questions": QUESTIONS, "runner": agent},
        {"questions": QUESTIONS},
        {"questions": QUESTIONS, "cache_key": "my router"},
    ]
    given = nodes("a")
    keys = [get_transformation_hash(given, LayaMetadataExtractor(**variant)) for variant in variants]
    assert len(set(keys)) == len(keys)
    assert keys == [get_transformation_hash(given, LayaMetadataExtractor(**variant)) for variant in variants]
    assert ENGLISH in str(LayaMetadataExtractor(questions=QUESTIONS, runner=agent).to_dict())


def test_the_cache_never_serves_another_runners_labels(agent: Any) -> None:
    """An extractor that is read with a new runner, or copied with one, is known by that one's name."""

    class Other:
        model_id = "other"

        def predict(self, state: Any, questions: Any, **options: Any) -> Any:
            answers = {name: {"type": "noul", "noul": 1.0, "answer_confidence": 1.0} for name in questions}
            return {"answers": answers, "run_id": "run"}

    extractor = LayaMetadataExtractor(runner=agent, questions={"urgent": QUESTIONS["urgent"]})
    key = get_transformation_hash(nodes("a"), extractor)
    read = LayaMetadataExtractor.from_dict(extractor.to_dict(), runner=Other())
    for given in (read, extractor.model_copy(update={"runner": Other()})):
        made = LayaMetadataExtractor(runner=Other(), questions={"urgent": QUESTIONS["urgent"]})
        assert get_transformation_hash(nodes("a"), given) == get_transformation_hash(nodes("a"), made) != key
    named = LayaMetadataExtractor.from_dict(extractor.to_dict(), model=ENGLISH)
    assert named.cache_key == "" and named.to_dict()["model"] == ENGLISH
    own = LayaMetadataExtractor(runner=agent, questions=QUESTIONS, cache_key="mine")
    assert LayaMetadataExtractor.from_dict(own.to_dict(), runner=Other()).cache_key == "mine"


async def test_it_works_inside_a_running_loop(agent: Any) -> None:
    """Synchronous and asynchronous pipelines alike; neither complains of nested loops."""
    extractor = LayaMetadataExtractor(runner=agent, questions=QUESTIONS)
    pipeline = IngestionPipeline(transformations=[extractor], disable_cache=True)
    found = [pipeline.run(documents=[Document(text="a")]), await pipeline.arun(documents=[Document(text="a")])]
    found += await asyncio.gather(*(pipeline.arun(documents=[Document(text="a")]) for _ in range(4)))
    assert len(found) == 6 and all(run[0].metadata == found[0][0].metadata for run in found)
    assert set(found[0][0].metadata) == set(QUESTIONS)


def test_a_failure_keeps_its_type_and_message(agent: Any) -> None:
    """LlamaIndex's own extractors turn each RuntimeError into "Detected nested async"."""

    def fail(ctx: Any) -> None:
        raise RuntimeError("out of memory")

    extractor = LayaMetadataExtractor(
        runner=agent, questions=QUESTIONS, options=CallOptions(on_predict_start=fail), max_retries=1, retry_backoff=0.0
    )
    with pytest.raises(RuntimeError, match="out of memory"):
        extractor(nodes("a"))
    [node] = extractor.model_copy(update={"raise_on_error": False})(nodes("a"))
    assert node.metadata == {}


def test_an_extractor_can_be_written_and_read(agent: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As JSON and as a pickle, without a word in the log about what can't be pickled."""
    extractor = LayaMetadataExtractor(model=ENGLISH, questions=ALL, prefix="x_")
    assert LayaMetadataExtractor.from_dict(json.loads(json.dumps(extractor.to_dict()))) == extractor
    assert pickle.loads(pickle.dumps(extractor)) == extractor
    left = pickle.loads(pickle.dumps(LayaMetadataExtractor(runner=agent, questions=ALL)))
    with pytest.raises(RuntimeError, match="unpickled without its runner; make it with model="):
        left(nodes("a"))
    assert caplog.records == []


def test_numbers_stay_numbers_in_json() -> None:
    """Ids and labels; the node's metadata would have texts in their place."""
    stars = {"type": "choice", "instructions": "How many stars?", "criteria": {1: "bad", 2: None}}
    extractor = LayaMetadataExtractor(model=ENGLISH, questions={7: stars, "x": {**stars, "criteria": [3, 2.5]}})
    for read in (
        LayaMetadataExtractor.from_json(extractor.to_json()),
        LayaMetadataExtractor.from_dict(extractor.to_dict()),
    ):
        assert read.questions == extractor.questions and list(read.questions) == [7, "x"]
        assert [type(label) for label in read.questions[7]["criteria"]] == [int, int]
        assert read.to_json() == extractor.to_json()
    plain = LayaMetadataExtractor(model=ENGLISH, questions=ALL)
    assert plain.to_dict()["questions"] == ALL


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pipelines_worker_loads_the_model() -> None:
    """Another process writes what this one would; one batch, so that only one of the workers loads what it needs."""
    extractor = LayaMetadataExtractor(model=ENGLISH, questions=QUESTIONS)
    pipeline = IngestionPipeline(transformations=[extractor], disable_cache=True)
    documents = [Document(text="My invoice is wrong.")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "ignore")
        [node] = pipeline.run(documents=documents, num_workers=2)
    assert node.metadata == load_quietly(lambda: extractor.extract(documents))[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "^nodes must be a list, got NoneType; put a single one into a list$"),
        (TextNode(text="secret"), "^nodes must be a list, got TextNode; "),
        ([TextNode(text="a"), "secret"], r"^nodes\[1\] must be a node, got str$"),
    ],
)
async def test_what_is_no_list_of_nodes_is_named(given: Any, said: str) -> None:
    """Before anything is loaded."""
    extractor = LayaMetadataExtractor(model="/no/such/checkpoint", questions=QUESTIONS)
    with pytest.raises(TypeError, match=said):
        extractor.extract(given)
    with pytest.raises(TypeError, match=said):
        await extractor.aextract(given)


def test_no_questions_are_refused() -> None:
    """When the extractor is made."""
    with pytest.raises(ValidationError, match="at least one question"):
        LayaMetadataExtractor(questions={})
