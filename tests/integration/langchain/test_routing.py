"""LayaRouter as a step, as a switch, and as a graph's conditional edge."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import ConfigurableField, RunnableGenerator, RunnableLambda
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from laya_integrations.langchain import CallOptions, LayaRouter, LayaRunnable, RouteOutcome
from laya_integrations.langchain._routes import QUESTION, RoutingRule
from laya_integrations.langchain.responses import LayaChoiceAnswer, LayaClassifierResponse
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces

TEXTS = ["My invoice is wrong, I want my money back", "The app crashes", "Thank you!", "hello", "Refund the second fee"]

DEPARTMENT = {key: QUESTIONS["department"][key] for key in ("instructions", "criteria")}


def branch(name: str) -> Any:
    """A branch that says who it is."""
    return RunnableLambda(lambda text: f"{name}: {text}", name=name)


ROUTES = {name: branch(name) for name in DEPARTMENT["criteria"]}


class Calls:
    """A hook that counts laya calls and the states of each."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.sizes.append(len(ctx.states))


def make_router(agent: Any, **fields: Any) -> LayaRouter:
    """A router by department."""
    return LayaRouter(runner=agent, **{**DEPARTMENT, **fields})


def labels(agent: Any) -> list[str]:
    """What laya says about TEXTS."""
    asked = {QUESTION: QUESTIONS["department"]}
    return [agent.predict(text, asked)["answers"][QUESTION]["choice"] for text in TEXTS]


@pytest.fixture
def said(agent: Any) -> list[str]:
    """What laya says about TEXTS: both labels occur."""
    found = labels(agent)
    assert set(found) == {"billing", "technical"}
    return found


async def test_the_label_comes_out(agent: Any, said: list[str]) -> None:
    """In every entry point it is laya's choice."""
    router = make_router(agent)
    assert [router.invoke(text) for text in TEXTS] == said
    assert [await router.ainvoke(text) for text in TEXTS] == said
    assert router.batch(TEXTS) == await router.abatch(TEXTS) == said
    assert [*router.stream(TEXTS[0])] == [chunk async for chunk in router.astream(TEXTS[0])] == said[:1]
    assert router.batch([]) == await router.abatch([]) == []


async def test_the_labels_branch_gets_the_input(agent: Any, said: list[str]) -> None:
    """Its output comes out, in order."""
    router = make_router(agent, routes=ROUTES)
    expected = [f"{label}: {text}" for label, text in zip(said, TEXTS, strict=True)]
    assert [router.invoke(text) for text in TEXTS] == [await router.ainvoke(text) for text in TEXTS] == expected
    assert router.batch(TEXTS) == await router.abatch(TEXTS) == expected
    assert router.batch(TEXTS, {"max_concurrency": 2}) == expected
    assert await router.abatch(TEXTS, {"max_concurrency": 2}) == expected
    assert [*router.stream(TEXTS[0])] == [chunk async for chunk in router.astream(TEXTS[0])] == expected[:1]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_outcome_says_what_was_decided(agent: Any, asynchronous: bool) -> None:
    """Label, confidence, probabilities, output and laya's result come out on demand."""
    expected = agent.predict(TEXTS[0], {QUESTION: QUESTIONS["department"]})
    answer = expected["answers"][QUESTION]
    for routes, output in ((None, None), (ROUTES, f"{answer['choice']}: {TEXTS[0]}")):
        router = make_router(agent, routes=routes, include_decision=True)
        if asynchronous:
            outcomes = [await router.ainvoke(TEXTS[0]), *await router.abatch([TEXTS[0]])]
            outcomes += [chunk async for chunk in router.astream(TEXTS[0])]
        else:
            outcomes = [router.invoke(TEXTS[0]), *router.batch([TEXTS[0]]), *router.stream(TEXTS[0])]
        assert len(outcomes) == 3
        for outcome in outcomes:
            assert isinstance(outcome, RouteOutcome)
            assert (outcome.label, outcome.output, outcome.fell_back) == (answer["choice"], output, False)
            assert outcome.confidence == answer["answer_confidence"] == max(outcome.probabilities.values())
            assert outcome.probabilities == answer["probabilities"]
            assert outcome.result["answers"] == expected["answers"] and outcome.result["usage"] == expected["usage"]


def response(*, low_confidence: bool = False, **probabilities: float) -> LayaClassifierResponse:
    """A response with these probabilities."""
    label = max(probabilities, key=probabilities.__getitem__)
    answer = LayaChoiceAnswer(
        type="choice", choice=label, probabilities=probabilities, confidence=0.1, low_confidence=low_confidence
    )
    return LayaClassifierResponse(model="m", answers={QUESTION: answer})


@pytest.mark.parametrize(
    ("threshold", "margin", "probabilities", "taken"),
    [
        (0.0, 0.0, {"a": 0.6, "b": 0.4}, "a"),
        (0.6, 0.0, {"a": 0.6, "b": 0.4}, "a"),
        (0.61, 0.0, {"a": 0.6, "b": 0.4}, "other"),
        ({"a": 0.7}, 0.0, {"a": 0.6, "b": 0.4}, "other"),
        ({"a": 0.7}, 0.0, {"a": 0.4, "b": 0.6}, "b"),
        (0.0, 0.2, {"a": 0.6, "b": 0.4}, "a"),
        (0.0, 0.21, {"a": 0.6, "b": 0.4}, "other"),
        (0.0, 0.1, {"a": 0.4, "b": 0.35, "c": 0.25}, "other"),
        (0.5, 1.0, {"a": 1.0}, "a"),
    ],
)
def test_a_label_is_taken_where_it_is_sure_enough(
    threshold: Any, margin: float, probabilities: dict[str, float], taken: str
) -> None:
    """The threshold is on the probability, the margin on the lead over the second; both may be met exactly."""
    rule = RoutingRule(None, threshold, margin, "other")
    assert rule.take(response(**probabilities)).label == taken
    assert rule.take(response(low_confidence=True, **probabilities)).label == "other"


async def test_the_fallback_is_taken_where_no_label_is_sure(agent: Any) -> None:
    """It is a label, a label with a branch, or a branch."""
    assert make_router(agent, threshold=1.0, fallback=END).invoke("hi") == END
    routes = {**ROUTES, "person": branch("person")}
    assert make_router(agent, routes=routes, margin=1.0, fallback="person").batch(["a", "b"]) == [
        "person: a",
        "person: b",
    ]
    router = make_router(agent, routes=ROUTES, threshold=1.0, fallback=branch("nobody"), include_decision=True)
    outcome = await router.ainvoke("hi")
    assert (outcome.label, outcome.fell_back, outcome.output) == (None, True, "nobody: hi")
    assert 0.5 <= outcome.confidence < 1.0


def test_layas_gate_counts_too(agent: Any) -> None:
    """An answer below min_confidence needs a fallback, which the error says."""
    assert make_router(agent, fallback="person").bind(min_confidence=1.0).invoke("hi") == "person"
    gated = make_router(agent, options=CallOptions(min_confidence=1.0))
    with pytest.raises(ValueError, match="give fallback="):
        gated.invoke("hi")
    assert all(isinstance(error, ValueError) for error in gated.batch(["a", "b"], return_exceptions=True))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": 0.5}, "need fallback="),
        ({"margin": 0.5}, "need fallback="),
        ({"threshold": {"sales": 0.5}, "fallback": "x"}, "'sales', which criteria lacks"),
        ({"threshold": 1.5, "fallback": "x"}, "less than or equal to 1"),
        ({"threshold": {"billing": -1}, "fallback": "x"}, "greater than or equal to 0"),
        ({"routes": {"billing": print}}, "lacks a branch for 'technical'"),
        ({"routes": ROUTES, "fallback": "person"}, "lacks a branch for 'person'"),
        ({"routes": {**ROUTES, "sales": print}}, "'sales', which is no label"),
        ({"fallback": print}, "must be a label"),
        ({"criteria": {}}, "at least 1 item"),
        ({"model": "x"}, "got both"),
    ],
)
def test_parts_that_do_not_fit_are_refused(agent: Any, fields: dict[str, Any], message: str) -> None:
    """When the router is made, naming the part."""
    with pytest.raises(ValueError, match=message):
        LayaRouter(**{"runner": agent, **DEPARTMENT, **fields})


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_is_one_laya_call_and_one_batch_a_branch(agent: Any, said: list[str], asynchronous: bool) -> None:
    """Decisions share their passes, and so do a branch's inputs."""
    decided, read = Calls(), Calls()
    urgent = {"urgent": QUESTIONS["urgent"]}
    reader = LayaRunnable(agent, questions=urgent, options=CallOptions(hooks=read))
    router = make_router(agent, routes={"billing": reader, "technical": branch("technical")})
    if asynchronous:
        outputs = await router.abatch(TEXTS, hooks=decided)
    else:
        outputs = router.batch(TEXTS, hooks=decided)
    assert decided.sizes == [len(TEXTS)] and read.sizes == [said.count("billing")]
    for text, label, output in zip(TEXTS, said, outputs, strict=True):
        expected = f"technical: {text}" if label == "technical" else reader.invoke(text)
        assert output == expected if label == "technical" else output.content == expected.content


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failed_item_leaves_the_others_alone(
    agent: Any, said: list[str], traces: Traces, asynchronous: bool
) -> None:
    """With `return_exceptions` an unreadable state and a failing branch each have their own error."""

    def fails(text: str) -> str:
        raise ConnectionError("no network")

    router = make_router(agent, routes={"billing": fails, "technical": branch("technical")})
    inputs = [*TEXTS, {"state": object()}]
    if asynchronous:
        outputs = await router.abatch(inputs, return_exceptions=True)
    else:
        outputs = router.batch(inputs, return_exceptions=True)
    for text, label, output in zip(TEXTS, said, outputs, strict=False):
        assert output == f"technical: {text}" if label == "technical" else isinstance(output, ConnectionError)
    assert isinstance(outputs[-1], TypeError)
    runs = traces.named("LayaRouter")
    assert len(runs) == len(inputs) and all(run.closed for run in runs)
    assert sum(run.error is not None for run in runs) == said.count("billing") + 1
    with pytest.raises(ConnectionError):
        router.batch(TEXTS)
    with pytest.raises(ConnectionError):
        await router.abatch(TEXTS)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("place", ["decision", "branch"])
async def test_a_cancelled_call_closes_its_runs(agent: Any, traces: Traces, place: str, many: bool) -> None:
    """Wherever it waits; cancellation is no item's error, so `return_exceptions` lets it through."""
    entered, opened = threading.Event(), threading.Event()

    class Gate:
        def on_predict_start(self, ctx: Any) -> None:
            entered.set()
            assert opened.wait(20)

    options: dict[str, Any] = {"hooks": Gate()} if place == "decision" else {}
    reader = LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(hooks=Gate()))
    router = make_router(agent, routes=dict.fromkeys(DEPARTMENT["criteria"], reader))
    call = router.abatch(TEXTS, return_exceptions=True, **options) if many else router.ainvoke(TEXTS[0], **options)
    task = asyncio.ensure_future(call)
    await asyncio.to_thread(entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    runs = traces.runs()
    opened.set()
    assert len(runs) == (2 if place == "decision" else 3) * (len(TEXTS) if many else 1)
    assert all(run.closed for run in runs)
    assert all("Cancelled" in run.error for run in traces.named("LayaRouter"))


async def test_a_branch_is_streamed(agent: Any) -> None:
    """Its chunks arrive one by one."""

    def words(inputs: Any) -> Any:
        for text in inputs:
            yield from text.split()

    async def awords(inputs: Any) -> Any:
        async for text in inputs:
            for word in text.split():
                yield word

    streamed = RunnableGenerator(words, awords)
    router = make_router(agent, routes={"billing": streamed, "technical": streamed})
    assert [*router.stream("a b c")] == [chunk async for chunk in router.astream("a b c")] == ["a", "b", "c"]
    events = [event["event"] async for event in router.astream_events("a b", version="v2")]
    assert "on_llm_start" in events and not any("chat_model" in event for event in events)


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "batch", "abatch", "stream", "astream"])
async def test_decision_and_branch_lie_under_the_router(agent: Any, said: list[str], traces: Traces, how: str) -> None:
    """Three closed runs an input, with the tokens on the decision alone and the branch tagged by its label."""
    router = make_router(agent, routes=ROUTES).with_config(tags=["mine"])
    match how:
        case "invoke" | "ainvoke":
            texts = TEXTS[:1]
            await router.ainvoke(texts[0]) if how == "ainvoke" else router.invoke(texts[0])
        case "batch" | "abatch":
            texts = TEXTS
            await router.abatch(texts) if how == "abatch" else router.batch(texts)
        case _:
            texts = TEXTS[:1]
            [chunk async for chunk in router.astream(texts[0])] if how == "astream" else [*router.stream(texts[0])]
    runs = {run.id: run for run in traces.runs()}
    assert len(runs) == 3 * len(texts) and all(run.closed and run.error is None for run in runs.values())
    routed = {run.id: run for run in traces.named("LayaRouter")}
    assert len(routed) == len(texts) and all(run.parent_id is None for run in routed.values())
    decisions = traces.named("LayaDecisionModel")
    assert {run.parent_id for run in decisions} == routed.keys()
    assert all(run.run_type == "llm" and run.usage and run.metadata["laya_run_id"] for run in decisions)
    assert [run.name for run in runs.values() if run.usage] == ["LayaDecisionModel"] * len(texts)
    followed = [run for run in runs.values() if run.name in ROUTES]
    assert {run.parent_id for run in followed} == routed.keys()
    for run in followed:
        assert {f"branch:{run.name}", "mine"} <= set(run.fields["tags"])
        assert run.name == said[TEXTS.index(run.inputs["input"])]


def test_the_config_reaches_the_branch(agent: Any) -> None:
    """Metadata, tags and configurable values are those of the caller."""
    seen: list[Any] = []

    def reads(text: str, config: Any) -> str:
        seen.append((config["metadata"]["team"], config["configurable"]["thread_id"], "t" in config["tags"]))
        return text

    router = make_router(agent, routes=dict.fromkeys(DEPARTMENT["criteria"], reads))
    config = {"metadata": {"team": "a"}, "tags": ["t"], "configurable": {"thread_id": "1"}, "run_name": "mine"}
    router.invoke("hi", config)
    router.batch(["hi", "there"], config)
    assert seen == [("a", "1", True)] * 3


def test_branches_keep_their_configurable_fields(agent: Any) -> None:
    """The router reports what a config may set in them."""
    reader = LayaRunnable(agent, questions=QUESTIONS).configurable_fields(options=ConfigurableField(id="reading"))
    router = make_router(agent, routes={"billing": reader, "technical": branch("technical")})
    assert [spec.id for spec in router.config_specs] == ["reading"]


class Inbox(TypedDict):
    """A graph's state."""

    messages: Annotated[list[AnyMessage], add_messages]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_it_is_a_conditional_edge(agent: Any, traces: Traces, asynchronous: bool) -> None:
    """The graph goes where laya points, the decision is in its trace, and no classifier JSON is streamed."""
    graph = StateGraph(Inbox)
    for name in DEPARTMENT["criteria"]:
        graph.add_node(name, lambda state, name=name: {"messages": [HumanMessage(f"{name} answers", id="answer")]})
        graph.add_edge(name, END)
    graph.add_conditional_edges(START, make_router(agent), [*DEPARTMENT["criteria"]])
    app = graph.compile()
    asked: Any = {"messages": [HumanMessage(TEXTS[0], id="asked")]}
    if asynchronous:
        streamed = [message async for message, _ in app.astream(asked, stream_mode="messages")]
        answered = await app.ainvoke(asked)
    else:
        streamed = [message for message, _ in app.stream(asked, stream_mode="messages")]
        answered = app.invoke(asked)
    state = {"messages": [{"role": "user", "content": TEXTS[0]}]}
    label = agent.predict(state, {QUESTION: QUESTIONS["department"]})["answers"][QUESTION]["choice"]
    assert [message.text for message in answered["messages"]] == [TEXTS[0], f"{label} answers"]
    assert [message.text for message in streamed] == [f"{label} answers"]
    assert traces.parents()["LayaDecisionModel"] == {"LayaRouter"}
    assert all(run.closed and run.error is None for run in traces.runs())
    assert sum(run.usage is not None for run in traces.runs()) == 2


def test_a_node_that_holds_a_router_streams_no_classifier_json(agent: Any) -> None:
    """Also where the node has the name of the decision's run."""
    graph = StateGraph(Inbox)
    said = {name: RunnableLambda(lambda state: {"messages": [HumanMessage("done", id="d")]}) for name in ROUTES}
    graph.add_node("LayaDecisionModel", make_router(agent, routes=said))
    graph.add_edge(START, "LayaDecisionModel")
    asked: Any = {"messages": [HumanMessage(TEXTS[0], id="asked")]}
    streamed = [message for message, _ in graph.compile().stream(asked, stream_mode="messages")]
    assert [message.text for message in streamed] == ["done"]


def test_the_router_keeps_nothing_of_a_call(agent: Any) -> None:
    """Its fields are as before, and the runner is in no repr, dump or pickle."""
    router = make_router(agent)
    before = dict(router.__dict__)
    router.invoke("hi")
    router.batch(["a", "b"])
    assert router.__dict__ == before and not router.__pydantic_private__
    assert "runner" not in repr(router) and "runner" not in router.model_dump()
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(router)).invoke("hi")
    named = LayaRouter(model=str(CHECKPOINTS / "english"), **DEPARTMENT)
    assert load_quietly(lambda: pickle.loads(pickle.dumps(named)).invoke("hi")) == router.invoke("hi")


def test_schemas_say_what_goes_in_and_comes_out(agent: Any) -> None:
    """Text, object or array in; a label or an outcome out."""
    router = make_router(agent)
    assert [kind["type"] for kind in router.get_input_jsonschema()["anyOf"]] == ["string", "object", "array"]
    assert router.get_output_jsonschema()["type"] == "string"
    outcome = make_router(agent, include_decision=True).get_output_jsonschema()
    assert {"label", "confidence", "probabilities", "output", "result"} <= outcome["properties"].keys()


def test_a_router_picks_the_checkpoint_of_each_input(router: Any) -> None:
    """With laya's Router the outcome says which checkpoint decided."""
    routed = make_router(router, include_decision=True)
    outcomes = routed.batch(["My invoice is wrong, please help", "नमस्ते दोस्तों, मदद चाहिए"])
    assert [outcome.result["routing"]["model"] for outcome in outcomes] == ["english", "multilingual"]


@pytest.mark.parametrize("include_decision", [False, True])
def test_an_interrupted_branch_interrupts_the_batch(agent: Any, include_decision: bool) -> None:
    """Ctrl-C is no output, and the router's runs end with it."""

    def interrupted(text: str) -> str:
        raise KeyboardInterrupt

    steps = RunnableLambda(interrupted) | RunnableLambda(str)
    router = make_router(agent, routes=dict.fromkeys(ROUTES, steps), include_decision=include_decision)
    collector = RunCollectorCallbackHandler()
    with pytest.raises(KeyboardInterrupt):
        router.batch(TEXTS[:2], {"max_concurrency": 2, "callbacks": [collector]}, return_exceptions=True)
    runs = [run for run in collector.traced_runs if run.name == "LayaRouter"]
    assert len(runs) == 2 and all(run.error for run in runs)


class NoAnswer:
    """A hook that takes the answers about one text away."""

    def on_predict_end(self, ctx: Any) -> None:
        for state, result in zip(ctx.states, ctx.results, strict=True):
            if state == TEXTS[1]:
                result["answers"] = {"other": {"type": "noul", "noul": 0.5}}


def test_a_result_without_the_answer_is_that_items_error(agent: Any, said: list[str]) -> None:
    """The others of its batch are routed."""
    router = make_router(agent, options=CallOptions(hooks=NoAnswer()))
    first, second = router.batch(TEXTS[:2], return_exceptions=True)
    assert first == said[0]
    assert isinstance(second, ValueError) and "the result has no choice 'route'" in str(second)
    with pytest.raises(ValueError, match="check the runner, or the hook that answered"):
        router.invoke(TEXTS[1])
