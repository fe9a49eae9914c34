"""laya_evaluator with the real LangSmith client, against a server on loopback."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import fmean
from typing import Any
from uuid import uuid4

import pytest
from langsmith import Client
from langsmith.schemas import Example, Run

from laya_integrations.langchain import CallOptions, LayaEvaluator, laya_evaluator
from laya_integrations.presets import faithfulness, relevance
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import LangSmithServer, Traces

DATASET = uuid4()
QUERIES = ["Where is my invoice?", "Why does it crash?", "Thanks!"]


class Sizes:
    """Counts laya calls and the states of each."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.sizes.append(len(ctx.states))


@pytest.fixture
def server() -> Iterator[LangSmithServer]:
    """A LangSmith server."""
    with LangSmithServer() as server:
        yield server


@pytest.fixture
def client(server: LangSmithServer) -> Iterator[Client]:
    """The real client of it."""
    client = Client(api_url=server.url, api_key="x")
    yield client
    client.flush()
    client.cleanup()


def examples() -> list[Example]:
    """A dataset of three queries."""
    fields = {"dataset_id": DATASET, "created_at": datetime.now(UTC)}
    return [Example(id=uuid4(), inputs={"query": query}, outputs={"expected": "x"}, **fields) for query in QUERIES]


def answer(inputs: dict[str, Any]) -> dict[str, Any]:
    """The application that is evaluated."""
    return {"passage": f"{inputs['query']} Somebody will answer."}


def state_of_row(query: str) -> dict[str, Any]:
    """What the evaluator asks about by default."""
    return {"query": query, **answer({"query": query}), "reference": {"expected": "x"}}


def run_of(outputs: dict[str, Any] | None, inputs: dict[str, Any] | None = None) -> Run:
    """A run as the client hands it over."""
    now = datetime.now(UTC)
    fields = {"id": uuid4(), "trace_id": uuid4(), "name": "Target", "run_type": "chain", "start_time": now}
    return Run(inputs=inputs or {}, outputs=outputs, **fields)


def test_each_question_is_feedback_on_each_run(agent: Any, server: LangSmithServer, client: Client) -> None:
    """Probability of yes, level from 0 to 1, label; linked to the evaluator's run, which has the tokens."""
    judge = laya_evaluator(QUESTIONS, runner=agent)
    results = client.evaluate(answer, data=examples(), evaluators=[judge], max_concurrency=2)
    rows = {row["example"].inputs["query"]: row["evaluation_results"]["results"] for row in results}
    for query in QUERIES:
        expected = agent.predict(state_of_row(query), QUESTIONS)["answers"]
        department, urgent, frustration = rows[query]
        assert (department.key, department.score, department.value) == (
            "department",
            None,
            expected["department"]["choice"],
        )
        assert (urgent.key, urgent.score) == ("urgent", expected["urgent"]["noul"])
        assert frustration.score == expected["frustration"]["score"] / 2
        assert frustration.value in ("calm", "annoyed", "furious")
    traces = Traces(client, server)
    judged = {run.id: run for run in traces.named("laya_evaluator")}
    assert len(judged) == 3 and all(run.closed and run.usage and run.run_type == "llm" for run in judged.values())
    feedback = server.feedback()
    assert len(feedback) == 9 and {item["key"] for item in feedback} == set(QUESTIONS)
    assert {item["run_id"] for item in feedback} == {run.id for run in traces.runs()} - set(judged)
    sources = [item["feedback_source"]["metadata"] for item in feedback]
    assert {str(source["__run"]["run_id"]) for source in sources} == set(judged)
    assert {source["laya_run_id"] for source in sources} == {r.metadata["laya_run_id"] for r in judged.values()}


async def test_it_works_in_aevaluate(agent: Any, server: LangSmithServer, client: Client) -> None:
    """The async client awaits it."""

    async def target(inputs: dict[str, Any]) -> dict[str, Any]:
        return answer(inputs)

    judge = laya_evaluator(relevance(), runner=agent, prefix="laya_")
    results = await client.aevaluate(target, data=examples(), evaluators=[judge])
    rows = [row["evaluation_results"]["results"] async for row in results]
    assert [[result.key for result in row] for row in rows] == [["laya_relevant", "laya_grade"]] * 3


def test_a_summary_is_one_laya_call(agent: Any, server: LangSmithServer, client: Client) -> None:
    """Means over all runs, and shares of a choice's labels."""
    sizes = Sizes()
    judge = laya_evaluator(QUESTIONS, runner=agent, options=CallOptions(hooks=sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client warns of how it sends a summary's feedback itself
        results = client.evaluate(answer, data=examples(), summary_evaluators=[judge.summary])
    assert sizes.sizes == [3]
    found = {result.key: result for result in results._summary_results["results"]}
    expected = [agent.predict(state_of_row(query), QUESTIONS)["answers"] for query in QUERIES]
    assert found["urgent"].score == pytest.approx(fmean(answers["urgent"]["noul"] for answers in expected))
    assert sum(found["department"].value.values()) == pytest.approx(1)
    client.flush()
    assert {item["key"] for item in server.feedback()} == set(QUESTIONS)


def test_the_default_questions_are_about_faithfulness(agent: Any) -> None:
    """They read the answer beside its context."""
    judge = laya_evaluator(runner=agent)
    assert judge.feedback_keys == list(faithfulness())
    outputs = {"answer": "Blue.", "context": "The sky is blue."}
    row = judge.evaluate_run(run_of(outputs, inputs={"question": "What colour?"}))
    expected = agent.predict({"question": "What colour?", **outputs}, faithfulness())["answers"]
    assert row["results"][0].score == expected["faithful"]["noul"]


async def test_runs_can_be_scored_in_one_call(agent: Any) -> None:
    """In order, sync and async, with or without examples."""
    sizes = Sizes()
    judge = laya_evaluator(relevance(), runner=agent, options=CallOptions(hooks=sizes))
    runs = [run_of({"passage": "a"}), run_of(None)]
    found = judge.evaluate_runs(runs, [*examples()[:1], None])
    again = await judge.aevaluate_runs(runs, [*examples()[:1], None])
    assert sizes.sizes == [2, 2]
    singles = [judge.evaluate_run(runs[0], examples()[0]), await judge.aevaluate_run(runs[1], None)]
    expected = [pytest.approx([result.score for result in row["results"]], abs=2e-4) for row in singles]
    for rows in (found, again):
        assert [[result.score for result in row["results"]] for row in rows] == expected
    with pytest.raises(ValueError):
        judge.evaluate_runs(runs, [None])


def test_an_answer_below_the_gate_has_no_score(agent: Any) -> None:
    """So it counts in no mean."""
    judge = laya_evaluator(QUESTIONS, runner=agent, options=CallOptions(min_confidence=1.0))
    row = judge.evaluate_run(run_of({"passage": "a"}))
    assert [(result.score, result.value) for result in row["results"]] == [(None, None)] * 3
    assert all(result.comment == "below min_confidence" for result in row["results"])
    summary = judge.summary([run_of({"passage": "a"})], [None])
    assert [(result.score, result.value) for result in summary["results"]] == [(None, None)] * 3


async def test_a_failed_run_has_no_score(agent: Any) -> None:
    """What it was asked is no answer that could be judged; the other runs keep their places."""
    sizes = Sizes()
    judge = laya_evaluator(relevance(), runner=agent, options=CallOptions(hooks=sizes))
    failed, fine = run_of(None, inputs={"query": "a"}), run_of({"passage": "b"})
    failed.error = "RuntimeError('no')"
    rows = [judge.evaluate_run(failed, None), await judge.aevaluate_run(failed, None)]
    assert sizes.sizes == []
    first, second, third = judge.evaluate_runs([fine, failed, fine], [None] * 3)
    assert sizes.sizes == [2] and first == third and first["results"][0].score is not None
    for row in (*rows, second):
        assert [(result.key, result.score, result.comment) for result in row["results"]] == [
            (key, None, "the run failed") for key in judge.feedback_keys
        ]


def test_the_state_can_be_read_otherwise(agent: Any) -> None:
    """By a function; where inputs and outputs share a field, they stay apart by themselves."""
    states: list[Any] = []
    options = CallOptions(on_predict_start=lambda ctx: states.extend(ctx.states))
    laya_evaluator(relevance(), runner=agent, options=options).evaluate_run(run_of({"a": 1}, inputs={"a": 2}))
    chosen = laya_evaluator(relevance(), runner=agent, options=options, read=lambda i, o, r: o["text"])
    chosen.evaluate_run(run_of({"text": "only this"}))
    assert states == [{"inputs": {"a": 2}, "outputs": {"a": 1}}, "only this"]


def test_a_model_may_be_named(agent: Any) -> None:
    """In place of a runner; naming both, or what is none, is refused at once."""
    judge = laya_evaluator(QUESTIONS, model=str(CHECKPOINTS / "english"))
    assert isinstance(judge, LayaEvaluator)
    assert load_quietly(lambda: judge.evaluate_run(run_of({"passage": "a"})))["results"]
    with pytest.raises(ValueError, match="either runner= or model="):
        laya_evaluator(runner=agent, model="x")
    with pytest.raises(TypeError, match="predict"):
        laya_evaluator(runner=object())


def test_a_failure_is_the_clients_error_feedback(server: LangSmithServer, client: Client) -> None:
    """The experiment goes on; each question's feedback says what went wrong."""
    judge = laya_evaluator(QUESTIONS, model="/nowhere/checkpoint")
    results = client.evaluate(answer, data=examples(), evaluators=[judge])
    rows = [row["evaluation_results"]["results"] for row in results]
    assert all(
        result.extra == {"error": True} and "/nowhere/checkpoint" in result.comment for row in rows for result in row
    )
    assert [[result.key for result in row] for row in rows] == [list(QUESTIONS)] * 3


def test_each_run_needs_an_example(agent: Any) -> None:
    """Or None in its place; another number of them is refused before anything is asked."""
    judge = laya_evaluator(QUESTIONS, runner=agent)
    with pytest.raises(ValueError, match="examples has 1 entries for 0 runs; give one, or None, for each"):
        judge.evaluate_runs([], [None])
