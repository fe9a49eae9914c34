"""Every class works with whatever has laya's `predict`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode

from laya_integrations.llama_index import (
    LayaEvaluator,
    LayaMetadataExtractor,
    LayaMultiSelector,
    LayaNodePostprocessor,
    LayaQueryGuard,
    LayaSingleSelector,
    LayaTool,
    LayaToolSpec,
)
from tests.integration.llama_index.conftest import QUESTIONS


class Echo(CustomQueryEngine):
    """Answers with the query."""

    def custom_query(self, query_str: str) -> str:
        """The query."""
        return query_str


TEXTS = ["Invoices.", "", "Bugs, \U0001f41b", "x" * 20_000]


def rerank(runner: Any) -> Any:
    """The order of nodes."""
    nodes = [NodeWithScore(node=TextNode(text=text, id_=text)) for text in TEXTS]
    return [node.node_id for node in LayaNodePostprocessor(runner=runner).postprocess_nodes(nodes, query_str="q")]


USES: list[Callable[[Any], Any]] = [
    lambda runner: LayaSingleSelector(runner=runner).select(["a", "b"], "q").inds,
    lambda runner: LayaMultiSelector(runner=runner, threshold=0.0).select(["a", "b"], "q").inds,
    lambda runner: [found.ind for found in LayaSingleSelector(runner=runner).select_many(["a", "b"], ["q", "r"])],
    rerank,
    lambda runner: LayaEvaluator.faithfulness(runner=runner).evaluate(response="r", contexts=TEXTS[:2]).answers,
    lambda runner: LayaMetadataExtractor(runner=runner, questions=QUESTIONS).extract([TextNode(text=t) for t in TEXTS]),
    lambda runner: LayaTool(runner=runner, questions=QUESTIONS, name="n", description="d").call(state="a").content,
    lambda runner: str(LayaQueryGuard(runner=runner, query_engine=Echo()).query("a")),
]
"""What each class makes of a runner."""


class PredictOnly:
    """A runner without batches, hooks and options."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def predict(self, state: Any, questions: Any) -> Any:
        """What the other runner says."""
        return self._runner.predict(state, questions)


def test_an_object_with_predict_alone_answers_as_its_agent(agent: Any) -> None:
    """One call for each state, and nothing else asked of it."""
    assert [use(PredictOnly(agent)) for use in USES] == [use(agent) for use in USES]


class Silent:
    """A runner whose results have no answers."""

    def predict(self, state: Any, questions: Any, **options: Any) -> Any:
        """A result without them."""
        return {"answers": {}, "run_id": "run"}


@pytest.mark.parametrize(("use", "asked"), [(USES[0], "select"), (USES[1], "select_0"), (rerank, "relevant")])
def test_a_result_without_an_answer_is_an_error(use: Callable[[Any], Any], asked: str) -> None:
    """It names the question and where to look."""
    with pytest.raises(ValueError, match=f"^{no_answer(asked)}$"):
        use(Silent())


async def test_without_answers_there_are_no_labels_and_no_output() -> None:
    """The same error, which a tool gives to the agent's model and a tool spec to LlamaIndex."""
    said = no_answer("department")
    extractor = LayaMetadataExtractor(runner=Silent(), questions=QUESTIONS)
    with pytest.raises(ValueError, match=f"^{said}$"):
        extractor.extract([TextNode(text="a")])
    described: dict[str, Any] = {"runner": Silent(), "questions": QUESTIONS, "name": "n", "description": "d"}
    tool = LayaTool(**described)
    for output in (tool.call(state="a"), await tool.acall(state="a")):
        assert output.is_error and output.content == f"n could not decide: ValueError: {said}"
    spec = LayaToolSpec(**described)
    with pytest.raises(ValueError, match=f"^{said}$"):
        spec.decide("a")
    with pytest.raises(ValueError, match=f"^{said}$"):
        await spec.adecide("a")


def no_answer(question: str) -> str:
    """What is said where a result has no answer to a question."""
    return f"the runner's result has no answer to '{question}'; check the runner and its hooks"


def test_a_fake_runner_will_do() -> None:
    """For tests of a program, without a model: it gives the same answers each time."""
    fakes = pytest.importorskip("laya.testing")
    found = [use(fakes.FakeRunner()) for use in USES]
    assert all(found) and sorted(found[3]) == sorted(TEXTS) and found == [use(fakes.FakeRunner()) for use in USES]
