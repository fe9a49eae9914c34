"""LayaGuardrail alone and in chains, on the way in and on the way out."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, convert_to_messages
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, ensure_config
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from laya_integrations import presets
from laya_integrations.langchain import (
    CallOptions,
    GuardrailError,
    GuardrailVerdict,
    LangChainHook,
    LayaGuardrail,
    LayaRunnable,
)
from laya_integrations.langchain._violations import violation_probability
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS
from tests.integration.langchain.langsmith_server import Traces

OPENAI_CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"what": "it"}'}}
GOOD, FINE, BAD = "The app crashes", "hi", "Refund the second fee"
URGENT = {"urgent": QUESTIONS["urgent"]}
THRESHOLD = 0.7


def make_guardrail(agent: Any, **fields: Any) -> LayaGuardrail:
    """A guardrail that BAD violates, and GOOD and FINE don't."""
    return LayaGuardrail(**{"runner": agent, "questions": URGENT, "thresholds": THRESHOLD, **fields})


class Failing:
    """A hook that makes laya fail, with the state in its message as a careless one would."""

    def on_predict_start(self, ctx: Any) -> None:
        if BAD in ctx.states:
            raise ConnectionError(f"no answer for {ctx.states}")


class Slow:
    """A hook that holds laya up until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()

    def on_predict_start(self, ctx: Any) -> None:
        self.reached.set()
        assert self.opened.wait(20)


@pytest.fixture
def slow() -> Any:
    """Holds laya up for as long as the test runs."""
    hook = Slow()
    yield hook
    hook.opened.set()


async def call(guardrail: Any, how: str, given: Any) -> Any:
    """The guardrail's output by one of its entry points."""
    match how:
        case "invoke":
            return guardrail.invoke(given)
        case "ainvoke":
            return await guardrail.ainvoke(given)
        case "batch":
            return guardrail.batch([given])[0]
        case "abatch":
            return (await guardrail.abatch([given]))[0]
        case "stream":
            (output,) = guardrail.stream(given)
        case _:
            (output,) = [chunk async for chunk in guardrail.astream(given)]
    return output


HOW = pytest.mark.parametrize("how", ["invoke", "ainvoke", "batch", "abatch", "stream", "astream"])


@HOW
async def test_what_violates_is_stopped(agent: Any, how: str) -> None:
    """By every entry point; the error has what was found and laya's id, and not the text."""
    guardrail = make_guardrail(agent)
    assert await call(guardrail, how, GOOD) is GOOD
    seen: list[str] = []
    agent_answer = agent.predict(BAD, URGENT)["answers"]["urgent"]
    with pytest.raises(GuardrailError) as raised:
        await call(guardrail.bind(on_predict_start=lambda ctx: seen.append(ctx.run_id)), how, BAD)
    (violation,) = raised.value.violations
    assert (violation.question, violation.threshold, violation.position) == ("urgent", THRESHOLD, None)
    assert violation.probability == violation_probability(agent_answer) >= THRESHOLD
    assert [raised.value.run_id] == seen and raised.value.failure is None
    assert BAD not in str(raised.value) and isinstance(raised.value, ValueError)


@HOW
async def test_messages_keep_their_types(agent: Any, how: str) -> None:
    """`filter` replaces the text of what violates, in place."""
    guardrail = make_guardrail(agent, action="filter", replacement="X")
    conversation = [
        SystemMessage(BAD),
        HumanMessage(GOOD, id="1"),
        AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}]),
        ToolMessage(BAD, tool_call_id="c", id="2"),
    ]
    judged = make_guardrail(agent).judge(conversation[2:3])
    assert not judged[0].flagged
    filtered = await call(guardrail, how, {"messages": conversation, "count": 3})
    *same, changed = filtered["messages"]
    assert same == conversation[:3] and filtered["count"] == 3
    assert changed == ToolMessage("X", tool_call_id="c", id="2")


@pytest.mark.parametrize(
    "given",
    [{"amount": 40}, {"raw": b"text"}, {"note": "text", "raw": b"text"}, {"reader": GuardrailVerdict(flagged=True)}],
)
def test_what_has_no_text_to_replace_does_not_pass(agent: Any, given: Any) -> None:
    """`filter` can't clean it, also where laya could not read it."""
    strict = make_guardrail(agent, action="filter", thresholds=0.0001)
    with pytest.raises(TypeError, match=r"can't replace the text of a (dict|bytes|GuardrailVerdict)"):
        strict.invoke(given)
    assert strict.invoke({"note": "text", "amount": 40}) == {"note": "[removed]", "amount": 40}


def test_what_contains_itself_does_not_pass(agent: Any) -> None:
    """It can be neither read nor replaced, and the others of its batch come out."""
    endless: dict[str, Any] = {"type": "text"}
    endless["self"] = endless
    for given, failure in ((endless, "dict"), ([endless], "dict")):
        passed, refused = make_guardrail(agent, action="filter").batch([GOOD, given], return_exceptions=True)
        assert passed == GOOD and isinstance(refused, TypeError) and f"the text of a {failure}" in str(refused)
        passed, refused = make_guardrail(agent).batch([GOOD, given], return_exceptions=True)
        assert passed == GOOD and isinstance(refused, GuardrailError) and refused.failure is not None


def test_what_lies_beside_messages_is_left_alone(agent: Any) -> None:
    """A graph's state holds ids and results; they come back as they were, whatever they are."""
    guardrail = make_guardrail(agent, action="filter")
    rest = {"question": BAD, "role": "user", "content": BAD, "llm": object(), "user_id": "u_1"}
    given = {"messages": (HumanMessage(BAD),), **rest}
    assert guardrail.invoke(given) == {"messages": (HumanMessage("[removed]"),), **rest}
    untouched = {"messages": [HumanMessage(GOOD)], **rest}
    assert guardrail.invoke(untouched) is untouched


def test_a_record_with_a_type_is_no_message(agent: Any) -> None:
    """One that has more than a message has is judged, and keeps what isn't text."""
    guardrail = make_guardrail(agent, action="filter")
    records = [{"type": "system", "content": BAD, "level": "info"}, {"type": "tool", "content": BAD, "price": 3}]
    assert guardrail.invoke(records) == [
        {"type": "[removed]", "content": "[removed]", "level": "[removed]"},
        {"type": "[removed]", "content": "[removed]", "price": 3},
    ]


def test_a_tool_result_that_contains_itself_fails_alone(agent: Any) -> None:
    """The others of the batch are judged."""
    endless: dict[str, Any] = {}
    endless["self"] = endless
    given = [{"type": "tool_result", "content": endless}, {"type": "text", "text": GOOD}]
    passed, refused = make_guardrail(agent).batch([GOOD, given], return_exceptions=True)
    assert passed == GOOD and isinstance(refused, GuardrailError)


@pytest.mark.parametrize("kind", [HumanMessage, lambda content: ToolMessage(content, tool_call_id="1")])
@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": BAD}},
        {"type": "search_result", "content": [{"type": "text", "text": BAD}]},
        {"text": BAD},
        {"type": "not known", "words": [BAD]},
    ],
)
def test_a_text_in_any_block_is_judged_and_replaced(agent: Any, kind: Any, block: Any) -> None:
    """Not only in a text block."""
    with pytest.raises(GuardrailError):
        make_guardrail(agent).invoke([kind([block])])
    assert make_guardrail(agent, action="filter").invoke([kind([block])]) == [kind("[removed]")]


def test_messages_in_every_form_pass_on_to_a_model(agent: Any) -> None:
    """Filtered, LangChain takes them as it took them before, and the developer's are left alone."""
    conversation: Any = [
        {"type": "system", "content": BAD},
        {"type": "human", "content": BAD},
        ("user", [{"type": "text", "text": BAD}]),
        {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
        {"role": "tool", "tool_call_id": "c", "content": BAD},
    ]
    strict = make_guardrail(agent, action="filter", thresholds=0.0001)
    messages = convert_to_messages(strict.invoke(conversation))
    assert [message.text for message in messages] == [BAD, *["[removed]"] * 4]
    assert [message.type for message in messages] == ["system", "human", "human", "ai", "tool"]
    assert [call["id"] for call in messages[3].tool_calls] == ["c"] and not messages[3].tool_calls[0]["args"]
    marked = make_guardrail(agent, action="annotate").invoke(conversation)
    assert marked == conversation


async def test_both_sides_of_a_chain_are_guarded(agent: Any) -> None:
    """A prompt's value passes to the model, and the model's message to the parser."""
    prompt = ChatPromptTemplate.from_messages([("system", BAD), ("user", "{text}")])
    for reply, text in ((GOOD, BAD), (BAD, GOOD), (GOOD, GOOD)):
        guardrail = make_guardrail(agent)
        chain = prompt | guardrail | FakeListChatModel(responses=[reply]) | guardrail | StrOutputParser()
        if reply is text:
            assert chain.invoke({"text": text}) == await chain.ainvoke({"text": text}) == reply
            assert "".join(chain.stream({"text": text})) == reply
            assert "".join([chunk async for chunk in chain.astream({"text": text})]) == reply
            assert chain.batch([{"text": text}] * 2) == [reply] * 2
            continue
        with pytest.raises(GuardrailError):
            chain.invoke({"text": text})
        with pytest.raises(GuardrailError):
            await chain.ainvoke({"text": text})
        streamed: list[str] = []
        with pytest.raises(GuardrailError):
            async for chunk in chain.astream({"text": text}):
                streamed.append(chunk)
        assert streamed == [], "no token may pass before it is judged"


async def test_events_show_the_guardrail(agent: Any) -> None:
    """astream_events has its run and laya's, and no chat model's."""
    events = [
        (event["event"], event["name"]) async for event in make_guardrail(agent).astream_events(GOOD, version="v2")
    ]
    assert events[0] == ("on_chain_start", "LayaGuardrail") and ("on_llm_end", "LayaDecisionModel") in events
    assert events[-1] == ("on_chain_end", "LayaGuardrail")
    assert not any("chat_model" in event for event, _ in events)


def test_annotations_mark_and_let_pass(agent: Any) -> None:
    """Each judged message carries its own verdict; text has no place for one."""
    guardrail = make_guardrail(agent, action="annotate")
    system, good, bad = guardrail.invoke([SystemMessage("x"), HumanMessage(GOOD), HumanMessage(BAD)])
    assert system.response_metadata == {} and (good.content, bad.content) == (GOOD, BAD)
    verdicts = [GuardrailVerdict(**message.response_metadata["laya_guardrail"]) for message in (good, bad)]
    assert [verdict.flagged for verdict in verdicts] == [False, True]
    assert verdicts[0].probabilities["urgent"] < THRESHOLD <= verdicts[1].probabilities["urgent"]
    assert guardrail.invoke(BAD) == BAD
    assert guardrail.invoke({"answer": BAD})["laya_guardrail"].keys() == GuardrailVerdict.model_fields.keys()


async def test_verdicts_can_be_had_alone(agent: Any) -> None:
    """`judge` raises for no violation, and answers in order in one laya call."""
    sizes: list[int] = []
    guardrail = make_guardrail(agent).with_config(tags=["t"]).bound
    verdicts = guardrail.judge([GOOD, HumanMessage(BAD)], on_predict_start=lambda ctx: sizes.append(len(ctx.states)))
    assert [verdict.flagged for verdict in verdicts] == [False, True] and sizes == [2]
    again = await guardrail.ajudge([GOOD, HumanMessage(BAD)])
    assert [v.probabilities for v in again] == [v.probabilities for v in verdicts]
    assert guardrail.judge([]) == []


def test_a_score_is_judged_by_its_mass(agent: Any) -> None:
    """Not by its expected level, which lies below the middle where half of the mass lies above it."""
    frustration = {"frustration": QUESTIONS["frustration"]}
    answer = agent.predict(GOOD, frustration)["answers"]["frustration"]
    upper = round(answer["probabilities"]["1"] + answer["probabilities"]["2"], 6)
    assert answer["score"] < 1 and upper > 0.5
    (verdict,) = LayaGuardrail(runner=agent, questions=frustration).judge([GOOD])
    assert verdict.flagged and verdict.probabilities == {"frustration": upper}


def test_a_choice_is_judged_by_the_labels_named(agent: Any) -> None:
    """And a noul by the side named."""
    questions = {"department": QUESTIONS["department"], **URGENT}
    guardrail = LayaGuardrail(
        runner=agent, questions=questions, violating={"department": ["technical"], "urgent": [False]}
    )
    answers = agent.predict(BAD, questions)["answers"]
    (verdict,) = guardrail.judge([BAD])
    assert verdict.probabilities == {
        "department": answers["department"]["probabilities"]["technical"],
        "urgent": pytest.approx(1 - answers["urgent"]["noul"]),
    }
    with pytest.raises(ValueError, match="name the labels"):
        LayaGuardrail(runner=agent, questions=questions)


def test_the_guard_preset_is_asked_by_default(agent: Any) -> None:
    """And no other question set needs more than its labels named."""
    (verdict,) = LayaGuardrail(runner=agent).judge([GOOD])
    assert verdict.probabilities.keys() == presets.guard().keys()
    LayaGuardrail(
        runner=agent, questions=presets.faithfulness(), violating={"faithful": [False], "verdict": ["contradicted"]}
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thresholds": 0.0}, "greater than 0"),
        ({"thresholds": {"urgent": 1.5}}, "less than or equal to 1"),
        ({"thresholds": {"other": 0.5}}, "thresholds names 'other'"),
        ({"timeout": 0}, "greater than 0"),
        ({"action": "stop"}, "raise"),
        ({"on_failure": "ajar"}, "closed"),
        ({"model": "also"}, "either runner= or model="),
        ({"unknown": 1}, "Extra inputs"),
    ],
)
def test_bad_fields_are_refused(agent: Any, fields: dict[str, Any], message: str) -> None:
    """When the guardrail is made."""
    with pytest.raises(ValueError, match=message):
        make_guardrail(agent, **fields)


def test_a_copy_is_checked_as_a_new_guardrail_is(agent: Any) -> None:
    """A misspelt field would leave the copy as lax as the first, without a word."""
    guardrail = make_guardrail(agent)
    strict = guardrail.model_copy(update={"action": "filter"})
    assert strict.invoke(BAD) == "[removed]" and strict.runner is agent and strict.thresholds == THRESHOLD
    assert strict.model_fields_set == {"runner", "questions", "thresholds", "action"}
    assert guardrail.model_copy() == guardrail and guardrail.action == "raise"
    for update, message in (
        ({"threshold": 0.01}, "Extra inputs"),
        ({"thresholds": 1.5}, "less than or equal to 1"),
        ({"thresholds": {"other": 0.5}}, "thresholds names 'other'"),
    ):
        with pytest.raises(ValueError, match=message):
            guardrail.model_copy(update=update)


def test_an_unknown_option_is_refused_also_where_it_fails_open(agent: Any) -> None:
    """A typo is no failure of laya's."""
    with pytest.raises(TypeError, match="unknown call option 'max_length'"):
        make_guardrail(agent, on_failure="open").invoke(GOOD, max_length=3)


@HOW
@pytest.mark.parametrize("action", ["raise", "filter", "annotate"])
async def test_a_failure_counts_as_a_violation(agent: Any, how: str, action: str) -> None:
    """Where the guardrail fails closed; the error names the failure's type and has it as its cause."""
    guardrail = make_guardrail(agent, action=action, options=CallOptions(hooks=Failing()))
    assert (await call(guardrail, how, [HumanMessage(GOOD)]))[0].content == GOOD
    match action:
        case "raise":
            with pytest.raises(GuardrailError, match=r"could not judge the input \(ConnectionError\)") as raised:
                await call(guardrail, how, BAD)
            assert raised.value.failure == "ConnectionError" and raised.value.violations == ()
            assert isinstance(raised.value.__cause__, ConnectionError) and BAD not in str(raised.value)
        case "filter":
            assert await call(guardrail, how, BAD) == "[removed]"
        case _:
            note = (await call(guardrail, how, HumanMessage(BAD))).response_metadata["laya_guardrail"]
            assert note["flagged"] and note["failure"] == "ConnectionError"


@HOW
async def test_a_failure_may_pass(agent: Any, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where the guardrail fails open; the log says so without the text."""
    guardrail = make_guardrail(agent, on_failure="open", options=CallOptions(hooks=Failing()))
    with caplog.at_level(logging.WARNING):
        assert await call(guardrail, how, BAD) == BAD
    assert "let 1 unjudged parts pass (ConnectionError)" in caplog.text and BAD not in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failed_item_leaves_the_others_alone(agent: Any, traces: Traces, asynchronous: bool) -> None:
    """With `return_exceptions` each item has its own output or error, and every run is closed."""
    guardrail = make_guardrail(agent, options=CallOptions(hooks=Failing()))
    inputs: list[Any] = [GOOD, BAD, FINE, {"state": object()}]
    if asynchronous:
        outputs = await guardrail.abatch(inputs, return_exceptions=True)
    else:
        outputs = guardrail.batch(inputs, return_exceptions=True)
    assert outputs[0] == GOOD and outputs[2] == FINE
    assert outputs[1].failure == "ConnectionError" and outputs[3].failure in ("StateError", "TypeError")
    runs = traces.runs()
    assert len(runs) == 8 and all(run.closed for run in runs)
    assert [run.error is not None for run in traces.named("LayaGuardrail")] == [False, True, False, True]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_is_one_laya_call(agent: Any, traces: Traces, asynchronous: bool) -> None:
    """Its parts share passes, lie under their own input's run with its own config, and count their tokens once."""
    sizes: list[int] = []
    guardrail = make_guardrail(agent, action="filter").bind(on_predict_start=lambda ctx: sizes.append(len(ctx.states)))
    inputs = [GOOD, [HumanMessage(FINE), HumanMessage(BAD)], BAD]
    configs: Any = [{"tags": [f"item{place}"]} for place in range(3)]
    usage = UsageMetadataCallbackHandler()
    for config in configs:
        config["callbacks"] = [usage]
    outputs = await guardrail.abatch(inputs, configs) if asynchronous else guardrail.batch(inputs, configs)
    assert outputs == [GOOD, [HumanMessage(FINE), HumanMessage("[removed]")], "[removed]"]
    assert sizes == [4]
    guards = {run.id: run for run in traces.named("LayaGuardrail")}
    answers = traces.named("LayaDecisionModel")
    assert len(guards) == 3 and len(answers) == 4 == len(traces.runs()) - 3
    assert all(run.closed and run.error is None for run in traces.runs())
    assert all(set(guards[run.parent_id].fields["tags"]) == set(run.fields["tags"]) for run in answers)
    assert sorted(run.fields["tags"] for run in answers) == [["item0"], ["item1"], ["item1"], ["item2"]]
    assert all(run.run_type == "llm" and run.usage and run.metadata["laya_run_id"] for run in answers)
    assert [run.name for run in traces.runs() if run.usage] == ["LayaDecisionModel"] * 4
    (counted,) = usage.usage_metadata.values()
    expected = sum(agent.predict(text, URGENT)["usage"]["input_tokens"] for text in (GOOD, FINE, BAD, BAD))
    assert counted["input_tokens"] == expected == traces.usage()["input_tokens"]


def test_handlers_of_the_config_see_the_guardrail(agent: Any) -> None:
    """Also those of a config that another runnable passes on."""

    class Handler(BaseCallbackHandler):
        def __init__(self) -> None:
            self.names: list[str] = []

        def on_chain_start(self, serialized: Any, inputs: Any, *, name: str, **kwargs: Any) -> None:
            self.names.append(name)

    def outer(text: str) -> Any:
        return guardrail.invoke(text)

    handler = Handler()
    guardrail = make_guardrail(agent)
    RunnableLambda(outer).invoke(GOOD, {"callbacks": [handler]})
    assert handler.names == ["outer", "LayaGuardrail", "LayaDecisionModel"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_late_answer_is_a_failure(agent: Any, slow: Slow, traces: Traces, asynchronous: bool) -> None:
    """The call returns in time, and its runs are closed by then."""
    guardrail = make_guardrail(agent, timeout=0.2, options=CallOptions(hooks=slow))
    asked = time.monotonic()
    with pytest.raises(GuardrailError) as raised:
        if asynchronous:
            await guardrail.ainvoke([HumanMessage(GOOD), HumanMessage(FINE)])
        else:
            guardrail.invoke([HumanMessage(GOOD), HumanMessage(FINE)])
    assert raised.value.failure == "TimeoutError" and time.monotonic() - asked < 15
    runs = traces.runs()
    assert len(runs) == 3 and all(run.closed and run.error for run in runs)


def test_a_timeouts_thread_sees_the_callers_context(agent: Any, traces: Traces) -> None:
    """Hooks under `hooks_timeout` too: they read the config's tags, and what they run lies in the same trace."""
    tags: list[list[str]] = []
    inner = RunnableLambda(lambda text: text, name="inner")

    class Nested:
        def on_predict_start(self, ctx: Any) -> None:
            tags.append(ensure_config()["tags"])
            inner.invoke("x")

    options = CallOptions(hooks=Nested(), hooks_timeout=20.0)
    guardrail = make_guardrail(agent, timeout=20.0, options=options)
    guardrail.invoke(GOOD, {"tags": ["mine"]})
    assert tags == [["mine"]] and traces.parents()["inner"] == {"LayaGuardrail"}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("timeout", [None, 20.0])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_hook_opens_no_second_run(
    agent: Any, traces: Traces, timeout: float | None, named: bool, asynchronous: bool
) -> None:
    """A LangChainHook sees that the guardrail's runs stand for the call."""
    who = {"runner": None, "model": str(CHECKPOINTS / "english")} if named else {}
    guardrail = load_quietly(lambda: make_guardrail(agent, timeout=timeout, **who))
    load_quietly(lambda: guardrail.judge([GOOD]))
    before = len(traces.runs())
    hook = LangChainHook().install()
    try:
        given = [HumanMessage(GOOD), HumanMessage(FINE)]
        await guardrail.ainvoke(given) if asynchronous else guardrail.invoke(given)
    finally:
        hook.uninstall()
    assert [run.name for run in traces.runs()[before:]] == ["LayaGuardrail", "LayaDecisionModel", "LayaDecisionModel"]


async def test_a_cancelled_call_closes_its_runs(agent: Any, slow: Slow, traces: Traces) -> None:
    """A cancellation is no failure to fail open on."""
    guardrail = make_guardrail(agent, on_failure="open", options=CallOptions(hooks=slow))
    task = asyncio.ensure_future(guardrail.ainvoke(GOOD))
    assert await asyncio.to_thread(slow.reached.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    slow.opened.set()  # else the event loop waits for its executor
    assert len(traces.runs()) == 2 and all(run.closed for run in traces.runs())


def test_retried_batches_keep_their_order(agent: Any) -> None:
    """Items that fail at first come out in their own places."""
    failed: set[str] = set()

    class Flaky:
        def on_predict_start(self, ctx: Any) -> None:
            new = {text for text in ctx.states if text != GOOD} - failed
            failed.update(new)
            if new:
                raise ConnectionError("try again")

    guardrail = make_guardrail(agent, options=CallOptions(hooks=Flaky()))
    retried = guardrail.with_retry(retry_if_exception_type=(GuardrailError,), wait_exponential_jitter=False)
    texts = [FINE, GOOD, "Please wait", GOOD]
    passed = make_guardrail(agent, action="annotate").judge(texts)
    assert not any(verdict.flagged for verdict in passed), "the texts must be harmless"
    assert retried.batch(texts) == texts


def test_a_refusal_can_stand_in(agent: Any) -> None:
    """`with_fallbacks` makes an answer of an error."""
    guarded = make_guardrail(agent).with_fallbacks([RunnableLambda(lambda _: "I can't help with that.")])
    assert guarded.invoke(BAD) == "I can't help with that." and guarded.invoke(GOOD) == GOOD


def test_the_runner_is_in_no_copy(agent: Any) -> None:
    """repr, dump and pickle leave it out; with model= a pickle works in another process."""
    guardrail = make_guardrail(agent)
    assert "runner" not in repr(guardrail) and "runner" not in guardrail.model_dump()
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(guardrail)).invoke(GOOD)
    named = make_guardrail(None, model=str(CHECKPOINTS / "english"), action="filter")
    copied = pickle.loads(pickle.dumps(named))
    assert load_quietly(lambda: copied.invoke(BAD)) == "[removed]"


def test_schemas_and_the_graph_can_be_drawn(agent: Any) -> None:
    """In a chain as well."""
    chain = ChatPromptTemplate.from_template("{text}") | make_guardrail(agent)
    assert "text" in chain.get_input_jsonschema()["properties"]
    assert make_guardrail(agent).get_input_jsonschema()["anyOf"]
    assert "LayaGuardrail" in chain.get_graph().draw_mermaid()


def in_a_function(guardrail: LayaGuardrail) -> Callable[[Any], Any]:
    """A node that calls the guardrail without passing its config on."""

    def node(state: Any) -> Any:
        return guardrail.invoke(state)

    return node


@pytest.mark.parametrize("kind", ["node", "function"])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_graph_streams_no_classifier_json(agent: Any, kind: str, asynchronous: bool) -> None:
    """As a node of a graph the guardrail replaces messages by id, and streams nothing of its own."""
    guardrail = make_guardrail(agent, action="filter")
    graph = StateGraph(MessagesState)
    # Named as the run below, which is what a stream would take for the node's.
    graph.add_node("LayaDecisionModel", guardrail if kind == "node" else in_a_function(guardrail))
    graph.add_edge(START, "LayaDecisionModel")
    app = graph.compile()
    asked: Any = {"messages": [HumanMessage(BAD, id="1"), HumanMessage(GOOD, id="2")]}
    if asynchronous:
        streamed = [message async for message, _ in app.astream(asked, stream_mode="messages")]
    else:
        streamed = [message for message, _ in app.stream(asked, stream_mode="messages")]
    assert streamed == []
    assert [message.text for message in app.invoke(asked)["messages"]] == ["[removed]", GOOD]


@pytest.mark.parametrize("timeout", [None, 20.0])
def test_an_interrupt_in_a_hook_is_no_failure(agent: Any, timeout: float | None) -> None:
    """The graph pauses, and goes on when resumed."""

    class Approval:
        def on_predict_start(self, ctx: Any) -> None:
            interrupt("May I?")

    guardrail = make_guardrail(agent, timeout=timeout, options=CallOptions(hooks=Approval(), hooks_raise=True))
    graph = StateGraph(MessagesState)
    graph.add_node("guard", in_a_function(guardrail))
    graph.add_edge(START, "guard")
    app = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    paused = app.invoke({"messages": [HumanMessage(GOOD)]}, thread)
    assert [pause.value for pause in paused["__interrupt__"]] == ["May I?"]
    assert app.invoke(Command(resume=True), thread)["messages"][0].text == GOOD


def test_an_interrupt_is_about_all_that_is_judged(agent: Any) -> None:
    """A person sees every text of the call once, and the answer goes with what was shown."""
    asked: list[list[Any]] = []
    approved: list[list[Any]] = []

    class Approval:
        def on_predict_start(self, ctx: Any) -> None:
            asked.append(list(ctx.states))
            interrupt(list(ctx.states))
            approved.append(list(ctx.states))

    guardrail = make_guardrail(agent, options=CallOptions(hooks=Approval(), hooks_raise=True))
    graph = StateGraph(MessagesState)
    graph.add_node("guard", in_a_function(guardrail))
    graph.add_edge(START, "guard")
    app = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    paused = app.invoke({"messages": [HumanMessage(GOOD), HumanMessage("hello")]}, thread)
    assert asked == [[GOOD, "hello"]] == [pause.value for pause in paused["__interrupt__"]]
    app.invoke(Command(resume=True), thread)
    assert approved == [[GOOD, "hello"]]


@pytest.mark.parametrize("timeout", [None, 20.0])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_interrupt_is_no_items_error(agent: Any, timeout: float | None, asynchronous: bool) -> None:
    """With `return_exceptions` too: a graph that is to pause must not read it as an output."""

    class Approval:
        def on_predict_start(self, ctx: Any) -> None:
            raise GraphInterrupt

    guardrail = make_guardrail(agent, timeout=timeout, options=CallOptions(hooks=Approval(), hooks_raise=True))
    for runnable in (guardrail, LayaRunnable(agent, questions=URGENT, options=guardrail.options)):
        with pytest.raises(GraphInterrupt):
            if asynchronous:
                await runnable.abatch([GOOD, FINE], return_exceptions=True)
            else:
                runnable.batch([GOOD, FINE], return_exceptions=True)


@pytest.mark.parametrize("items", [GOOD, {"messages": [GOOD]}, HumanMessage(GOOD), None])
async def test_one_item_is_no_list_of_items(agent: Any, items: Any) -> None:
    """A text would be judged letter by letter, and a dict by its keys."""
    guardrail = make_guardrail(agent)
    with pytest.raises(TypeError, match=f"judge takes a list of items, got {type(items).__name__}"):
        guardrail.judge(items)
    with pytest.raises(TypeError, match="put a single item into a list"):
        await guardrail.ajudge(items)


@pytest.mark.parametrize(("on_failure", "outcome"), [("closed", "stopped 2"), ("open", "let 2")])
def test_a_failure_is_logged(agent: Any, caplog: pytest.LogCaptureFixture, on_failure: Any, outcome: str) -> None:
    """By the error's type alone: who runs a guardrail that stops everything must learn of it."""
    guardrail = make_guardrail(None, model="/no/such/checkpoint", action="filter", on_failure=on_failure)
    guardrail.invoke([GOOD, BAD])
    assert outcome in caplog.text and "Error" in caplog.text
    assert GOOD not in caplog.text


def test_a_filtered_answer_keeps_no_result(agent: Any) -> None:
    """What comes after reads nothing of it from elsewhere."""
    message = LayaRunnable(agent, questions=QUESTIONS).invoke(BAD)
    found = make_guardrail(agent, action="filter", thresholds=0.0001).invoke([message])
    assert found[0].text == "[removed]" and found[0].result == {}
    assert message.result
