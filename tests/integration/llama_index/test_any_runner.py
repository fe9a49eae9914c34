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


def test_a_fake_runner_will_do() -> None:
    """For tests of a program, without a model: it gives the same answers each time."""
    fakes = pytest.importorskip("laya.testing")
    found = [use(fakes.FakeRunner()) for use in USES]
    assert all(found) and sorted(found[3]) == sorted(TEXTS) and found == [use(fakes.FakeRunner()) for use in USES]
