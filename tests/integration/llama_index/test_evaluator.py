"""LayaEvaluator judges by questions, one laya call for everything that is judged together."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BatchEvalRunner
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import ValidationError

from laya.hooks import BaseHook
from laya_integrations import presets
from laya_integrations.llama_index import CallOptions, LayaEvaluator
from tests.integration.conftest import CHECKPOINTS
from tests.integration.llama_index.conftest import QUESTIONS

MOOD = {"type": "score", "instructions": "How friendly is the response?", "criteria": ["rude", "neutral", "kind"]}


class Calls(BaseHook):
    """The states of each laya call."""

    def __init__(self) -> None:
        self.states: list[list[Any]] = []

    def on_predict_start(self, ctx: Any) -> None:
        """Keep them."""
        self.states.append(list(ctx.states))


def answering(*answers: dict[str, Any]) -> Any:
    """A start hook that answers a call with these, one a state."""
    return lambda ctx: ctx.skip([{"answers": answer} for answer in answers])


def test_faithfulness_judges_each_context(agent: Any) -> None:
    """One call, one state a context, the response first, so that a long context is what gets cut."""
    calls = Calls()
    evaluator = LayaEvaluator.faithfulness(runner=agent, options=CallOptions(hooks=calls))
    result = evaluator.evaluate(query="Weather?", response="It rains.", contexts=["Rain.", "Sun."])
    assert calls.states == [[{"answer": "It rains.", "context": "Rain."}, {"answer": "It rains.", "context": "Sun."}]]
    assert [list(state) for state in calls.states[0]] == [["answer", "context"]] * 2
    assert evaluator.questions == {"faithful": presets.faithfulness()["faithful"]}
    assert isinstance(result.score, float) and result.passing == (result.score >= 0.5)
    assert (result.query, result.response, result.contexts) == ("Weather?", "It rains.", ["Rain.", "Sun."])
    assert result.run_id is not None and result.confidence >= 0.5 and set(result.answers) == {"faithful"}


def test_the_best_context_counts() -> None:
    """A response is faithful where any context supports it."""

    class Knows:
        def predict(self, state: Any, questions: Any) -> Any:
            score = 0.9 if state["context"] == "Rain." else 0.1
            return {"answers": {"faithful": {"type": "noul", "noul": score, "answer_confidence": 0.9}}}

    result = LayaEvaluator.faithfulness(runner=Knows()).evaluate(response="It rains.", contexts=["Sun.", "Rain.", ""])
    assert (result.passing, result.score) == (True, 0.9)
    assert result.feedback == "faithful: True (score 0.90, by context 2 of 3)"


def test_a_response_without_contexts_is_not_faithful(agent: Any) -> None:
    """Retrieval that found nothing supports nothing, and laya isn't asked."""
    calls = Calls()
    result = LayaEvaluator.faithfulness(runner=agent, options=CallOptions(hooks=calls)).evaluate(
        response="a", contexts=[]
    )
    assert (result.passing, result.score, calls.states) == (False, 0.0, [])


def test_relevancy_judges_contexts_or_the_response(agent: Any) -> None:
    """Against the query, with the words of the question set."""
    calls = Calls()
    options = CallOptions(hooks=calls)
    LayaEvaluator.relevancy(agent, options=options).evaluate(query="q", contexts=["c"])
    LayaEvaluator.relevancy(agent, of="response", options=options).evaluate(query="q", response="r", contexts=["c"])
    assert calls.states == [[{"query": "q", "passage": "c"}], [{"query": "q", "passage": "r"}]]


def test_any_question_set_can_decide(agent: Any) -> None:
    """A score question as a part of its highest level, a choice by the labels that pass."""
    by_score = LayaEvaluator(runner=agent, questions={"mood": MOOD}).evaluate(response="Thank you!")
    answer = agent.predict({"response": "Thank you!"}, {"mood": MOOD})["answers"]["mood"]
    assert by_score.score == pytest.approx(answer["score"] / 2)
    by_choice = LayaEvaluator(runner=agent, questions=QUESTIONS, passing_labels=["technical"], threshold=0.0)
    result = by_choice.evaluate(query="It crashes.")
    answer = agent.predict({"query": "It crashes."}, QUESTIONS)["answers"]["department"]
    assert (result.score, result.passing) == (answer["probabilities"]["technical"], True)
    assert set(result.answers) == {"department", "urgent"}


def test_the_state_has_what_is_given(agent: Any) -> None:
    """Contexts come last, as one list, unless each is judged on its own."""
    calls = Calls()
    evaluator = LayaEvaluator(runner=agent, questions={"urgent": QUESTIONS["urgent"]}, options=CallOptions(hooks=calls))
    evaluator.evaluate(contexts=["a", "b"], query="q")
    evaluator.model_copy(update={"each_context": True}).evaluate(contexts=["a", "b"], query="q")
    assert calls.states == [
        [{"query": "q", "contexts": ["a", "b"]}],
        [{"query": "q", "contexts": "a"}, {"query": "q", "contexts": "b"}],
    ]


def test_an_answer_below_the_gate_is_an_invalid_result(agent: Any) -> None:
    """It neither passes nor fails."""
    evaluator = LayaEvaluator.faithfulness(runner=agent, options=CallOptions(min_confidence=1.0))
    result = evaluator.evaluate(response="a", contexts=["b"])
    assert result.invalid_result and result.passing is None and result.score is None
    assert result.invalid_reason == "the answer to 'faithful' is below min_confidence"


def test_a_missing_answer_is_an_invalid_result(agent: Any) -> None:
    """A hook may have answered something else."""
    options = CallOptions(on_predict_start=answering({"other": {"type": "noul", "noul": 1.0}}))
    result = LayaEvaluator.faithfulness(runner=agent, options=options).evaluate(response="a", contexts=["b"])
    assert result.invalid_reason == "there is no answer to 'faithful'" and result.passing is None


def test_many_are_one_call(agent: Any) -> None:
    """In order, also where some have no contexts and others several."""
    calls = Calls()
    evaluator = LayaEvaluator.faithfulness(runner=agent, options=CallOptions(hooks=calls))
    many = evaluator.evaluate_many(responses=["a", "b", "c"], contexts=[["1", "2"], [], ["3"]])
    assert len(calls.states) == 1 and len(calls.states[0]) == 3
    assert [result.response for result in many] == ["a", "b", "c"] and many[1].score == 0.0
    for result in (many[0], many[2]):
        alone = evaluator.evaluate(response=result.response, contexts=result.contexts)
        assert result.score == pytest.approx(alone.score, abs=1e-3) and result.feedback == alone.feedback
    assert evaluator.evaluate_many() == []


async def test_the_asynchronous_calls_agree(agent: Any) -> None:
    """Inside a running loop the synchronous ones work too."""
    evaluator = LayaEvaluator.faithfulness(runner=agent)
    given = {"response": "It rains.", "contexts": ["Rain.", "Sun."]}
    found = [evaluator.evaluate(**given), await evaluator.aevaluate(**given)]
    found += await evaluator.aevaluate_many(responses=["It rains."], contexts=[["Rain.", "Sun."]])
    assert len({result.score for result in found}) == 1 and len({result.run_id for result in found}) == 3


# LlamaIndex's batch runner calls a function of its own that it has deprecated.
@pytest.mark.filterwarnings("ignore:asyncio_module:DeprecationWarning")
async def test_it_evaluates_response_objects_and_runs_in_batches(agent: Any) -> None:
    """What LlamaIndex's own evaluators are used for."""
    evaluator = LayaEvaluator.faithfulness(runner=agent)
    response = Response("It rains.", source_nodes=[NodeWithScore(node=TextNode(text="Rain."))])
    assert evaluator.evaluate_response(response=response).contexts == ["Rain."]
    runner = BatchEvalRunner({"faithful": evaluator}, workers=2)
    results = await runner.aevaluate_responses(queries=["a", "b"], responses=[response, response])
    assert [result.score for result in results["faithful"]] == [
        evaluator.evaluate_response(response=response).score
    ] * 2


def test_a_cut_state_is_said_in_the_feedback(agent: Any) -> None:
    """A judgement on a part of a context names that."""
    result = LayaEvaluator.faithfulness(runner=agent).evaluate(response="a", contexts=["many words " * 500])
    assert result.feedback.endswith("; the state was cut to the token budget")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"response": "a"}, "contexts is missing"),
        ({"contexts": ["a"]}, "response is missing"),
    ],
)
def test_a_missing_input_is_named(agent: Any, given: dict[str, Any], message: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ValueError, match=message):
        LayaEvaluator.faithfulness(runner=agent).evaluate(**given)


class Never:
    """A runner that isn't to be asked."""

    def predict(self, state: Any, questions: Any, **options: Any) -> Any:
        """Fail."""
        raise AssertionError("asked")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"response": "a", "contexts": "SECRET"}, r"^contexts must be a list, got str; put a single one into a list$"),
        ({"response": "a", "contexts": {"t": "SECRET"}}, "^contexts must be a list, got dict; "),
        ({"response": "a", "contexts": 3}, "^contexts must be a list, got int; "),
        ({"response": "a", "contexts": [{"t": "SECRET"}]}, r"^contexts\[0\] must be a text, got dict$"),
        ({"response": "a", "contexts": ["x", None]}, r"^contexts\[1\] must be a text, got NoneType$"),
        ({"response": "a", "contexts": [TextNode(text="SECRET")]}, r"^contexts\[0\] must be a text, got TextNode$"),
        ({"response": ["SECRET"], "contexts": ["x"]}, "^response must be a text, got list$"),
        ({"query": 3, "response": "a", "contexts": ["x"]}, "^query must be a text, got int$"),
    ],
)
async def test_an_input_of_another_type_is_named(given: dict[str, Any], message: str) -> None:
    """By its place, without its text, before anything is asked."""
    evaluator = LayaEvaluator.faithfulness(runner=Never())
    with pytest.raises(TypeError, match=message):
        evaluator.evaluate(**given)
    with pytest.raises(TypeError, match=message):
        await evaluator.aevaluate(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"responses": "ab", "contexts": [["c"], ["d"]]}, "^responses must be a list, got str; "),
        ({"responses": ["a", "b"], "contexts": "cd"}, "^contexts must be a list, got str; "),
        ({"responses": ["a", "b"], "contexts": [["c"], "SECRET"]}, r"^contexts\[1\] must be a list, got str; "),
        ({"responses": ["a"], "contexts": [["c", 4]]}, r"^contexts\[0\]\[1\] must be a text, got int$"),
        ({"responses": ["a", b"SECRET"], "contexts": [["c"], []]}, r"^responses\[1\] must be a text, got bytes$"),
    ],
)
def test_among_many_the_entry_is_named(given: dict[str, Any], message: str) -> None:
    """A text in place of a list isn't read letter by letter."""
    with pytest.raises(TypeError, match=message):
        LayaEvaluator.faithfulness(runner=Never()).evaluate_many(**given)


def test_a_missing_entry_is_named() -> None:
    """With its index."""
    with pytest.raises(ValueError, match=r"needs response, contexts; responses\[1\] is missing"):
        LayaEvaluator.faithfulness(runner=Never()).evaluate_many(responses=["a", None], contexts=[["c"], ["d"]])


def test_contexts_may_come_from_anywhere(agent: Any) -> None:
    """The result has them as a list."""
    result = LayaEvaluator.faithfulness(runner=agent).evaluate(response="a", contexts=(text for text in "bc"))
    assert result.contexts == ["b", "c"]


def test_nothing_to_evaluate_is_an_error(agent: Any) -> None:
    """Where any input will do, one is needed."""
    with pytest.raises(ValueError, match="nothing to evaluate"):
        LayaEvaluator(runner=agent, questions={"mood": MOOD}).evaluate()


def test_lists_of_different_lengths_are_refused(agent: Any) -> None:
    """They could not be told apart."""
    with pytest.raises(ValueError, match="2 responses, 1 contexts"):
        LayaEvaluator.faithfulness(runner=agent).evaluate_many(responses=["a", "b"], contexts=[["c"]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"questions": {}}, "at least one question"),
        ({"questions": QUESTIONS}, "some of billing, technical, got None"),
        ({"questions": QUESTIONS, "passing_labels": ["sales"]}, "some of billing, technical, got"),
        ({"questions": {"mood": MOOD}, "passing_labels": ["kind"]}, "left out, for this is no choice"),
        ({"questions": {"mood": MOOD}, "deciding": "other"}, "the questions are mood"),
        ({"questions": {"mood": MOOD}, "threshold": 1.5}, "less than or equal to 1"),
        ({"questions": {"mood": MOOD}, "limit": 1}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_decide_is_refused(fields: dict[str, Any], message: str) -> None:
    """When the evaluator is made."""
    with pytest.raises(ValidationError, match=message):
        LayaEvaluator(**fields)


def test_labels_and_ids_may_be_numbers(agent: Any) -> None:
    """Passing labels are named as the question has them, and a dict keeps them so."""
    stars = {"type": "choice", "instructions": "How many stars?", "criteria": [1, 2, 3, "none"]}
    fields: dict[str, Any] = {"questions": {5: stars}, "passing_labels": [2, 3]}
    evaluator = LayaEvaluator(runner=agent, **fields)
    found = evaluator.evaluate(response="It rains.")
    [answer] = agent.predict({"response": "It rains."}, {5: stars})["answers"].values()
    assert found.score == pytest.approx(answer["probabilities"][2] + answer["probabilities"][3], abs=1e-3)
    assert found.answers == {5: answer["choice"]}
    with pytest.raises(ValidationError, match="some of 1, 2, 3, none"):
        LayaEvaluator(runner=agent, questions={5: stars}, passing_labels=["2"])
    named = LayaEvaluator(model=str(CHECKPOINTS / "english"), **fields)
    read = LayaEvaluator.from_json(named.to_json())
    assert read == named and read.passing_labels == [2, 3] and read.deciding == 5


def test_it_can_be_written_and_read(agent: Any) -> None:
    """As JSON and as a pickle; the runner stays behind, the model's name goes along."""
    evaluator = LayaEvaluator.faithfulness(model=str(CHECKPOINTS / "english"), threshold=0.3)
    assert LayaEvaluator.from_dict(json.loads(json.dumps(evaluator.to_dict()))) == evaluator
    assert pickle.loads(pickle.dumps(evaluator)) == evaluator
    assert LayaEvaluator.class_name() == evaluator.to_dict()["class_name"] == "LayaEvaluator"
    left = pickle.loads(pickle.dumps(LayaEvaluator.faithfulness(runner=agent)))
    with pytest.raises(RuntimeError, match="unpickled without its runner"):
        left.evaluate(response="a", contexts=["b"])
