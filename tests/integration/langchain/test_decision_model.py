"""LayaDecisionModel as LangChain's decision model."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AutoModeMiddleware, ModelChoice, ModelRouterMiddleware
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.decisions import (
    BaseDecisionModel,
    Box,
    Choice,
    ChoiceAnswer,
    ClassifierResponse,
    Noul,
    NoulCriteria,
    Score,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import Field

from laya_integrations.langchain import CallOptions, LayaClassifierResponse, LayaDecisionModel
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces
from tests.integration.langchain.scripted import ScriptedModel

TEXT = "My invoice is wrong, I want my money back"

TYPED = {
    "department": Choice(
        instructions="Which team should handle this message?",
        criteria={"billing": "invoices, refunds", "technical": "bugs, outages"},
    ),
    "urgent": Noul(instructions="Does this need an answer today?"),
    "frustration": Score(instructions="How frustrated is the customer?", criteria=["calm", "annoyed", "furious"]),
}
"""QUESTIONS as LangChain's objects."""

BOX = {"where": Box(instructions="Where is the cat?")}


class Calls:
    """A hook that counts laya calls and the states of each."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.sizes.append(len(ctx.states))


@pytest.fixture
def classifier(agent: Any) -> LayaDecisionModel:
    """The agent behind LangChain's interface."""
    return LayaDecisionModel(runner=agent)


def request(state: Any = TEXT, questions: Any = TYPED) -> Any:
    """A request."""
    return {"state": state, "questions": questions}


def test_a_response_carries_layas_answers(agent: Any, classifier: LayaDecisionModel) -> None:
    """Answers, tokens, model and run id are laya's, in LangChain's types."""
    assert isinstance(classifier, BaseDecisionModel)
    expected = agent.predict(TEXT, QUESTIONS)
    response = classifier.invoke(request())
    assert isinstance(response, LayaClassifierResponse) and isinstance(response, ClassifierResponse)
    assert response.result["answers"] == expected["answers"]
    assert response.choices["department"].probabilities == expected["answers"]["department"]["probabilities"]
    assert response.nouls["urgent"].noul == expected["answers"]["urgent"]["noul"]
    assert response.scores["frustration"].legend == {0: "calm", 1: "annoyed", 2: "furious"}
    tokens = expected["usage"]["input_tokens"]
    assert response.usage == {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    assert (response.model, response.batch_index) == (expected["model"], None)
    assert response.request_id is not None
    assert response.result.get("run_id", response.request_id) == response.request_id


def test_a_response_carries_what_laya_adds(agent: Any, router: Any) -> None:
    """Confidence, action, gate, truncation and routing have fields."""
    response = (
        LayaDecisionModel(runner=router)
        .bind(min_confidence=1.0, max_len=64, head_max_len=40)
        .invoke(request(TEXT * 50))
    )
    assert response.truncated and response.truncated_questions == list(TYPED)
    assert response.routing is not None and response.routing["model"] == "english"
    for question_id, answer in response.answers.items():
        said = response.result["answers"][question_id]
        assert (answer.answer_confidence, answer.action) == (said["answer_confidence"], said["action"])
        assert (answer.low_confidence, answer.abstention_threshold) == (True, 1.0)
    assert response.answers["urgent"].confidence == response.result["answers"]["urgent"]["confidence"]
    assert "result" not in response.model_dump() and "result=" not in repr(response)
    assert LayaClassifierResponse.model_validate_json(response.model_dump_json()).answers == response.answers


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (HumanMessage(TEXT), {"role": "user", "content": TEXT}),
        ([HumanMessage(TEXT), "then"], [{"role": "user", "content": TEXT}, "then"]),
        (
            {"turns": {"last": [AIMessage("hi")]}, "call": {"args": {"n": 1}}},
            {"turns": {"last": [{"role": "assistant", "content": "hi"}]}, "call": {"args": {"n": 1}}},
        ),
    ],
)
async def test_messages_anywhere_in_the_state_are_read(
    agent: Any, classifier: LayaDecisionModel, sent: Any, read: Any
) -> None:
    """They reach laya as role and content, in every entry point."""
    expected = agent.predict(read, QUESTIONS)["answers"]
    responses = [
        classifier.invoke(request(sent)),
        await classifier.ainvoke(request(sent)),
        *classifier.batch([request(sent)]),
        *await classifier.abatch([request(sent)]),
        *classifier.stream(request(sent)),
        classifier._classify(sent, TYPED),
        await classifier._aclassify(sent, TYPED),
    ]
    assert [response.result["answers"] for response in responses] == [expected] * 7


def test_every_form_of_question_is_taken(classifier: LayaDecisionModel) -> None:
    """laya's own dicts ask the same as LangChain's objects."""
    assert classifier.invoke(request(questions=QUESTIONS)).answers == classifier.invoke(request()).answers


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_is_one_laya_call_a_question_set(classifier: LayaDecisionModel, asynchronous: bool) -> None:
    """Equal questions share a call, also as separate objects; outputs keep their places."""
    one = {"urgent": TYPED["urgent"]}
    other = {"urgent": Noul(instructions="Is this about money?")}
    sets = [TYPED, one, dict(TYPED), other, one, QUESTIONS]
    requests = [request(f"{TEXT} {index}", questions) for index, questions in enumerate(sets)]
    calls = Calls()
    if asynchronous:
        responses = await classifier.abatch(requests, hooks=calls)
    else:
        responses = classifier.batch(requests, hooks=calls)
    assert sorted(calls.sizes) == [1, 2, 3]
    assert [response.answers for response in responses] == [classifier.invoke(item).answers for item in requests]
    assert [response.batch_index for response in responses] == [0, 0, 1, 0, 1, 2]
    assert classifier.batch([]) == [] and await classifier.abatch([]) == []


def test_the_order_of_options_tells_questions_apart(classifier: LayaDecisionModel) -> None:
    """Equal dicts in another order are other questions, as the network reads them."""
    criteria = QUESTIONS["department"]["criteria"]
    turned = {"department": {**QUESTIONS["department"], "criteria": dict(reversed(criteria.items()))}}
    calls = Calls()
    plain = {"department": QUESTIONS["department"]}
    responses = classifier.batch([request(questions=plain), request(questions=turned)], hooks=calls)
    assert calls.sizes == [1, 1] and plain == turned
    assert [list(response.choices["department"].probabilities) for response in responses] == [
        list(criteria),
        list(reversed(criteria)),
    ]


async def test_max_concurrency_bounds_a_laya_call(classifier: LayaDecisionModel) -> None:
    """Seven requests, three at a time, are three laya calls."""
    calls = Calls()
    requests = [request(f"state {index}") for index in range(7)]
    classifier.batch(requests, {"max_concurrency": 3}, hooks=calls)
    await classifier.abatch(requests, {"max_concurrency": 3}, hooks=calls)
    assert calls.sizes == [3, 3, 1] * 2
    with pytest.raises(ValueError, match="same length"):
        classifier.batch(requests, [{}])


BAD_REQUESTS = [
    (request(questions=BOX), "'where' is a Box"),
    (request(questions={}), "questions is empty"),
    ({"state": TEXT}, "lacks 'questions'"),
    ({"questions": TYPED}, "lacks 'state'"),
    (TEXT, "got str"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_REQUESTS)
async def test_a_bad_request_is_refused_inside_its_run(
    classifier: LayaDecisionModel, traces: Traces, bad: Any, message: str
) -> None:
    """The error says what to give, and the trace shows it."""
    with pytest.raises((TypeError, ValueError), match=message):
        classifier.invoke(bad)
    with pytest.raises((TypeError, ValueError), match=message):
        await classifier.ainvoke(bad)
    runs = traces.runs()
    assert len(runs) == 2 and all(run.closed and message in run.error and run.usage is None for run in runs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_bad_requests_leave_the_others_of_a_batch_alone(
    classifier: LayaDecisionModel, traces: Traces, asynchronous: bool
) -> None:
    """With `return_exceptions` each has its own error; the good ones still share one laya call."""
    calls = Calls()
    bad = [item for item, _ in BAD_REQUESTS]
    requests = [request("a"), *bad, request(object()), request("b")]
    if asynchronous:
        outputs = await classifier.abatch(requests, return_exceptions=True, hooks=calls)
    else:
        outputs = classifier.batch(requests, return_exceptions=True, hooks=calls)
    assert [isinstance(output, Exception) for output in outputs] == [False, *[True] * 6, False]
    assert "is a Box" in str(outputs[1]) and isinstance(outputs[6], TypeError)
    assert calls.sizes[0] == 3
    runs = traces.runs()
    assert len(runs) == 8 and all(run.closed for run in runs)
    assert sum(run.error is not None for run in runs) == 6


def test_an_unknown_option_is_refused_by_name(classifier: LayaDecisionModel) -> None:
    """A misspelt option is no silent default."""
    with pytest.raises(TypeError, match="min_confidense"):
        classifier.bind(min_confidense=0.5).invoke(request())


def test_a_decision_model_takes_a_runner_or_a_model(agent: Any) -> None:
    """Both, or a stray field, is refused when it is made."""
    with pytest.raises(ValueError, match="got both"):
        LayaDecisionModel(runner=agent, model="x")
    with pytest.raises(ValueError, match="temperature"):
        LayaDecisionModel(runner=agent, temperature=0)


def test_the_runner_is_in_no_copy(agent: Any, classifier: LayaDecisionModel) -> None:
    """repr, dump and pickle leave it out; with model= a pickle works in another process."""
    assert "runner" not in repr(classifier) and "runner" not in classifier.model_dump()
    assert copy.deepcopy(classifier).runner is agent
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(classifier)).invoke(request())
    named = LayaDecisionModel(model=str(CHECKPOINTS / "english"))
    copied = pickle.loads(pickle.dumps(named))
    assert load_quietly(lambda: copied.invoke(request())).answers == classifier.invoke(request()).answers
    assert pickle.loads(pickle.dumps(copied.invoke(request()))).answers == classifier.invoke(request()).answers


def test_its_fields_are_configurable(classifier: LayaDecisionModel) -> None:
    """A config may replace the options of a call."""
    configurable = classifier.configurable_fields(options=ConfigurableField(id="options"))
    gated = {"configurable": {"options": CallOptions(min_confidence=1.0)}}
    assert configurable.invoke(request(), gated).answers["urgent"].low_confidence
    assert not configurable.invoke(request()).answers["urgent"].low_confidence


def test_schemas_describe_a_request(classifier: LayaDecisionModel) -> None:
    """They work alone and in a chain, and know no Box."""
    chain = classifier | RunnableLambda(lambda response: response.model)
    for runnable in (classifier, chain):
        schema = runnable.get_input_jsonschema()
        assert schema["required"] == ["state", "questions"] and "Box" not in schema["$defs"]
    assert "routing" in classifier.get_output_jsonschema()["properties"]
    assert chain.invoke(request()) == classifier.invoke(request()).model


async def test_it_is_a_tool(classifier: LayaDecisionModel) -> None:
    """A model may supply state and questions as JSON."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain calls as_tool a beta.
        asked = classifier.as_tool(name="decide", description="Decide.")
    given = {"state": TEXT, "questions": {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}}
    expected = classifier.invoke(given).answers
    assert asked.invoke(given).answers == (await asked.ainvoke(given)).answers == expected


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_each_request_is_one_llm_run(classifier: LayaDecisionModel, traces: Traces, asynchronous: bool) -> None:
    """One call and a batch of eight are nine closed runs, each with its own tokens and laya's run id."""
    requests = [request(f"{TEXT} {index}") for index in range(8)]
    with get_usage_metadata_callback() as usage:
        if asynchronous:
            responses = [await classifier.ainvoke(requests[0]), *await classifier.abatch(requests)]
        else:
            responses = [classifier.invoke(requests[0]), *classifier.batch(requests)]
    runs = traces.runs()
    assert len(runs) == 9
    for run in runs:
        assert (run.name, run.run_type, run.parent_id) == ("LayaDecisionModel", "llm", None)
        assert run.closed and run.error is None and set(run.inputs) == {"state", "questions"}
        assert (run.metadata["ls_provider"], run.metadata["ls_model_name"]) == ("laya", responses[0].model)
    by_call = {(run.metadata["laya_run_id"], run.metadata.get("laya_batch_index")): run.usage for run in runs}
    assert by_call == {(response.request_id, response.batch_index): response.usage for response in responses}
    total = sum(response.result["usage"]["input_tokens"] for response in responses)
    expected = {"input_tokens": total, "output_tokens": 0, "total_tokens": total}
    assert traces.usage() == expected
    assert {name: dict(tokens) for name, tokens in usage.usage_metadata.items()} == {responses[0].model: expected}


def test_each_request_keeps_its_own_config(classifier: LayaDecisionModel, traces: Traces) -> None:
    """Grouping by questions mixes up no config."""
    one = {"urgent": TYPED["urgent"]}
    requests = [request("a"), request("b", one), request("c")]
    classifier.batch(requests, [{"run_name": name} for name in "abc"])
    assert {run.name: run.inputs["state"] for run in traces.runs()} == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_it_drives_the_model_router_middleware(
    classifier: LayaDecisionModel, traces: Traces, asynchronous: bool
) -> None:
    """LangChain's middleware picks the model of laya's label, and the answer survives a checkpoint."""
    models = {name: ModelChoice(Echo(prefix=name), criteria) for name, criteria in MODELS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain calls this middleware a beta.
        router = ModelRouterMiddleware(choices=models, instructions="Which model fits?", classifier=classifier)
    graph = create_agent(Echo(prefix="default"), middleware=[router], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    asked = {"messages": [HumanMessage(TEXT)]}
    answered = await graph.ainvoke(asked, config) if asynchronous else graph.invoke(asked, config)
    question = {"type": "choice", "instructions": "Which model fits?", "criteria": MODELS}
    label = classifier.invoke(request(HumanMessage(TEXT), {"q": question})).choices["q"].choice
    assert answered["messages"][-1].text == f"{label} heard {TEXT}"
    stored = graph.get_state(config).values["model_route"]
    assert isinstance(stored, ChoiceAnswer) and stored.choice == label
    run = next(run for run in traces.named("LayaDecisionModel") if run.parent_id)
    assert traces.parents()["LayaDecisionModel"] == {"ModelRouterMiddleware.before_agent", None} and run.usage


def test_a_strict_checkpointer_reads_answers_back(classifier: LayaDecisionModel) -> None:
    """Where it is told of their class, which is not LangChain's own."""
    answer = classifier.invoke(request(TEXT)).choices["department"]
    kind = ("laya_integrations.langchain.responses", type(answer).__name__)
    for allowed, expected in (([kind], answer), ([], answer.model_dump())):
        serializer = JsonPlusSerializer(allowed_msgpack_modules=allowed)
        assert serializer.loads_typed(serializer.dumps_typed(answer)) == expected


MODELS = {"fast": "simple tasks", "strong": "tasks that need much thought"}


class Echo(ScriptedModel):
    """Say who answers, and repeat the message."""

    prefix: str
    tool: str = ""
    args: dict[str, Any] = Field(default_factory=dict)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        messages = [*messages, ToolMessage("", tool_call_id="1")]
        result = super()._generate(messages)
        result.generations[0].message.content = f"{self.prefix} heard {messages[-2].text}"
        return result


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_it_drives_the_auto_mode_middleware(
    classifier: LayaDecisionModel, traces: Traces, asynchronous: bool
) -> None:
    """LangChain's middleware blocks a call that laya finds risky, and lets the others through."""
    asked = {"messages": [HumanMessage("Please tidy up")]}
    blocked = []
    for question in ("Is this risky?", "Is this harmless chat?", "Does a person ask this?", "Is it billing?"):
        criteria = NoulCriteria(true="yes", false="no")
        guard = AutoModeMiddleware(tools=[delete_file], instructions=question, criteria=criteria, classifier=classifier)
        model = ScriptedModel(tool="delete_file", args={"path": "a.txt"})
        graph = create_agent(model, tools=[delete_file], middleware=[guard])
        answered = await graph.ainvoke(asked) if asynchronous else graph.invoke(asked)
        message = answered["messages"][-2]
        blocked.append(message.status == "error")
        assert ("was blocked" if blocked[-1] else "a.txt is deleted") in message.text
    runs = traces.named("LayaDecisionModel")
    noul = [run.outputs["output"]["answers"]["is_risky"]["noul"] for run in runs]
    assert [value >= 0.5 for value in noul] == blocked
    assert len(runs) == 4 and all(run.closed and run.usage and run.parent_id for run in runs)
    assert [m["type"] for m in runs[0].inputs["state"]["messages"]] == ["human", "ai"]


def test_no_message_of_it_is_streamed(classifier: LayaDecisionModel) -> None:
    """With stream_mode="messages" a graph shows the chat model's message only."""
    models = {name: ModelChoice(Echo(prefix=name), criteria) for name, criteria in MODELS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain calls this middleware a beta.
        router = ModelRouterMiddleware(choices=models, instructions="Which model fits?", classifier=classifier)
    graph = create_agent(Echo(prefix="default"), middleware=[router])
    streamed = [message for message, _ in graph.stream({"messages": [HumanMessage("hi")]}, stream_mode="messages")]
    assert streamed and all("heard hi" in message.text for message in streamed)
