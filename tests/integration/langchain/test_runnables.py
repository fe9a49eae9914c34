"""LayaRunnable as any other runnable."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any, Literal
from uuid import uuid4

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.decisions import Box, Choice, Noul, Score
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser, StrOutputParser
from langchain_core.prompt_values import StringPromptValue
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from pydantic import BaseModel

from laya_integrations.langchain import (
    AnswerParser,
    CallOptions,
    LayaDecisionModel,
    LayaGuardrail,
    LayaGuardrailMiddleware,
    LayaMessage,
    LayaRouter,
    LayaRunnable,
    LayaTool,
    LayaToolSelectorMiddleware,
)
from tests.integration.conftest import CHECKPOINTS, load_quietly
from tests.integration.langchain.conftest import QUESTIONS, Ticket

TEXT = "My invoice is wrong, I want my money back"
UNREADABLE = {"state": object()}


class Calls:
    """A hook that counts laya calls and the states of each."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_predict_start(self, ctx: Any) -> None:
        self.sizes.append(len(ctx.states))


class Failing:
    """A hook that fails the first calls."""

    def __init__(self, times: int) -> None:
        self.left = times

    def on_predict_start(self, ctx: Any) -> None:
        if self.left:
            self.left -= 1
            raise ConnectionError("not yet")


def test_a_message_carries_the_answers(agent: Any, runnable: LayaRunnable) -> None:
    """Content, usage, model name, run id and the whole result, as laya gave them."""
    expected = agent.predict(TEXT, QUESTIONS)
    message = runnable.invoke(TEXT)
    assert isinstance(message, LayaMessage)
    assert message.result["answers"] == expected["answers"]
    levels = expected["answers"]["frustration"]["probabilities"]
    assert json.loads(message.content) == {
        "department": expected["answers"]["department"]["choice"],
        "urgent": expected["answers"]["urgent"]["noul"] >= 0.5,
        "frustration": int(max(levels, key=levels.get)),
    }
    assert " " not in message.content
    tokens = expected["usage"]["input_tokens"]
    assert message.usage_metadata == {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    assert message.response_metadata["model_name"] == expected["model"]
    assert message.response_metadata["laya_run_id"] == message.run_id
    assert len(message.run_id) == 32


def test_an_answer_below_the_gate_is_null(agent: Any) -> None:
    """The content says null, the result keeps the answer."""
    message = LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(min_confidence=1.0)).invoke(TEXT)
    assert json.loads(message.content) == dict.fromkeys(QUESTIONS)
    assert message.result["answers"]["department"]["low_confidence"] is True


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (TEXT, TEXT),
        ({"subject": TEXT}, {"subject": TEXT}),
        ([HumanMessage(TEXT)], [{"role": "user", "content": TEXT}]),
        (HumanMessage(TEXT), {"role": "user", "content": TEXT}),
        (StringPromptValue(text=TEXT), TEXT),
    ],
)
def test_each_input_is_read_as_its_state(agent: Any, runnable: LayaRunnable, sent: Any, read: Any) -> None:
    """What LangChain passes between steps reaches laya as text, dict or list."""
    assert runnable.invoke(sent).result["answers"] == agent.predict(read, QUESTIONS)["answers"]


async def test_stock_parsers_read_the_message(runnable: LayaRunnable) -> None:
    """String, JSON and pydantic parsers of LangChain work, sync, async and streamed."""
    values = json.loads(runnable.invoke(TEXT).content)
    assert (runnable | JsonOutputParser()).invoke(TEXT) == values
    assert (runnable | StrOutputParser()).invoke(TEXT) == runnable.invoke(TEXT).content
    assert (runnable | PydanticOutputParser(pydantic_object=Ticket)).invoke(TEXT) == Ticket(**values)
    assert [*(runnable | JsonOutputParser()).stream(TEXT)][-1] == values
    assert await (runnable | JsonOutputParser()).ainvoke(TEXT) == values
    assert [item async for item in (runnable | AnswerParser(Ticket)).astream(TEXT)] == [Ticket(**values)]
    assert (runnable | JsonOutputParser()).batch([TEXT, TEXT]) == [values, values]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_usage_callback_sums_laya_tokens(runnable: LayaRunnable, asynchronous: bool) -> None:
    """`get_usage_metadata_callback` sees each call once, in invoke and in batch."""
    with get_usage_metadata_callback() as usage:
        if asynchronous:
            messages = [await runnable.ainvoke(TEXT), *await runnable.abatch([TEXT, "hi"])]
        else:
            messages = [runnable.invoke(TEXT), *runnable.batch([TEXT, "hi"])]
    total = sum(message.result["usage"]["input_tokens"] for message in messages)
    expected = {"input_tokens": total, "output_tokens": 0, "total_tokens": total}
    assert {name: dict(tokens) for name, tokens in usage.usage_metadata.items()} == {
        messages[0].response_metadata["model_name"]: expected
    }


def test_an_own_usage_handler_gets_the_run_id(runnable: LayaRunnable) -> None:
    """A subclass may ask for what LangChain itself always sends."""

    class PerRun(UsageMetadataCallbackHandler):
        def on_llm_end(self, response: Any, *, run_id: Any, parent_run_id: Any, **kwargs: Any) -> None:
            super().on_llm_end(response, **kwargs)
            self.ids = run_id, parent_run_id

    usage, run_id = PerRun(), uuid4()
    runnable.invoke(TEXT, {"callbacks": [usage], "run_id": run_id})
    assert usage.ids == (run_id, None) and usage.usage_metadata


async def test_a_batch_is_one_laya_call(runnable: LayaRunnable) -> None:
    """All items share their passes, and come back in order."""
    states = [f"{index} times" * (index + 1) for index in range(5)]
    calls = Calls()
    messages = runnable.batch(states, hooks=calls)
    assert calls.sizes == [5]
    singles = [runnable.invoke(state) for state in states]
    assert [m.content for m in messages] == [m.content for m in singles]
    assert [m.usage_metadata for m in messages] == [m.usage_metadata for m in singles]
    calls = Calls()
    assert [m.content for m in await runnable.abatch(states, hooks=calls)] == [m.content for m in messages]
    assert calls.sizes == [5]
    assert runnable.batch([]) == [] and await runnable.abatch([]) == []


async def test_max_concurrency_bounds_a_laya_call(runnable: LayaRunnable) -> None:
    """A batch of seven with three at a time is three laya calls."""
    states = [f"state {index}" for index in range(7)]
    calls = Calls()
    messages = runnable.batch(states, {"max_concurrency": 3}, hooks=calls)
    await runnable.abatch(states, [{"max_concurrency": 3}] * 7, hooks=calls)
    assert calls.sizes == [3, 3, 1] * 2
    assert [m.content for m in messages] == [m.content for m in runnable.batch(states)]
    assert [m.response_metadata["laya_batch_index"] for m in messages] == [0, 1, 2, 0, 1, 2, 0]


async def test_a_config_list_of_another_length_is_refused(runnable: LayaRunnable) -> None:
    """Nothing is asked."""
    with pytest.raises(ValueError, match="same length"):
        runnable.batch(["a", "b"], [{}])
    with pytest.raises(ValueError, match="same length"):
        await runnable.abatch(["a", "b"], [{}])


async def test_a_negative_max_concurrency_is_refused(runnable: LayaRunnable) -> None:
    """An empty list would look like an answer."""
    with pytest.raises(ValueError, match="max_concurrency"):
        runnable.batch(["a", "b"], {"max_concurrency": -1})
    with pytest.raises(ValueError, match="max_concurrency"):
        await runnable.abatch(["a", "b"], {"max_concurrency": -1})


async def test_a_model_that_fails_to_load_is_each_items_error(runnable: LayaRunnable) -> None:
    """So `return_exceptions` returns it and a fallback answers."""
    broken = LayaRunnable(model=str(CHECKPOINTS / "absent"), questions=QUESTIONS)
    for outputs in (
        broken.batch([TEXT, "hi"], return_exceptions=True),
        await broken.abatch([TEXT, "hi"], return_exceptions=True),
    ):
        assert [isinstance(output, FileNotFoundError) for output in outputs] == [True, True]
    chain = broken.with_fallbacks([runnable])
    assert [m.content for m in chain.batch([TEXT, "hi"])] == [m.content for m in runnable.batch([TEXT, "hi"])]


async def test_failed_items_are_returned_in_place(runnable: LayaRunnable) -> None:
    """`return_exceptions` gives each failed item's own error, the others' answers."""
    states = ["a", UNREADABLE, "b", None]
    for outputs in (
        runnable.batch(states, return_exceptions=True),
        await runnable.abatch(states, return_exceptions=True),
    ):
        assert [isinstance(output, TypeError) for output in outputs] == [False, True, False, True]
        assert outputs[2].content == runnable.invoke("b").content
    (only,) = runnable.batch([UNREADABLE], return_exceptions=True)
    assert isinstance(only, TypeError)


def test_ctrl_c_is_no_item_error(runnable: LayaRunnable) -> None:
    """An interruption ends the batch even with `return_exceptions`."""

    def interrupt(ctx: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runnable.batch(["a", "b"], return_exceptions=True, on_predict_start=interrupt)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_retried_batch_keeps_its_order(agent: Any, failures: int) -> None:
    """Items that failed first come back in their place."""
    options = CallOptions(hooks=Failing(failures))
    runnable = LayaRunnable(agent, questions=QUESTIONS, options=options)
    states = [f"state number {index}" for index in range(4)]
    retried = runnable.with_retry(stop_after_attempt=3, wait_exponential_jitter=False).batch(states)
    assert [m.usage_metadata for m in retried] == [m.usage_metadata for m in runnable.batch(states)]
    assert [m.result["answers"] for m in retried] == [m.result["answers"] for m in runnable.batch(states)]


def test_a_fallback_answers_for_a_failing_runner(agent: Any, runnable: LayaRunnable) -> None:
    """`with_fallbacks` works for one and for many."""
    failing = LayaRunnable(agent, questions=QUESTIONS, options=CallOptions(hooks=Failing(100)))
    chain = failing.with_fallbacks([runnable])
    assert chain.invoke(TEXT).content == runnable.invoke(TEXT).content
    assert [m.content for m in chain.batch([TEXT, "hi"])] == [m.content for m in runnable.batch([TEXT, "hi"])]


def test_a_call_may_override_options_and_questions(runnable: LayaRunnable) -> None:
    """`bind` and keywords reach laya; an unknown one is refused by name."""
    assert json.loads(runnable.bind(min_confidence=1.0).invoke(TEXT).content) == dict.fromkeys(QUESTIONS)
    one = {"urgent": QUESTIONS["urgent"]}
    assert list(json.loads(runnable.bind(questions=one).invoke(TEXT).content)) == ["urgent"]
    assert list(json.loads(runnable.invoke(TEXT).content)) == list(QUESTIONS)
    with pytest.raises(TypeError, match="min_confidense"):
        runnable.invoke(TEXT, min_confidense=1.0)
    short = runnable.batch([TEXT * 50], max_len=64, head_max_len=40)[0]
    assert short.result["usage"]["truncated"] is True


def test_options_are_configurable(runnable: LayaRunnable) -> None:
    """A config may replace the options of a call."""
    configurable = runnable.configurable_fields(options=ConfigurableField(id="options"))
    gated = {"configurable": {"options": CallOptions(min_confidence=1.0)}}
    assert json.loads(configurable.invoke(TEXT, gated).content) == dict.fromkeys(QUESTIONS)
    assert configurable.invoke(TEXT).content == runnable.invoke(TEXT).content


async def test_events_show_one_llm_run(runnable: LayaRunnable) -> None:
    """`astream_events` reports a start, the chunk and an end, and no chat-model event."""
    chain = runnable | RunnableLambda(lambda message: message.content)
    events = [event async for event in chain.astream_events(TEXT, version="v2")]
    own = [event["event"] for event in events if event["name"] == "LayaRunnable"]
    assert own[0] == "on_llm_start" and own[-1] == "on_llm_end" and own.count("on_llm_end") == 1
    assert not any("chat_model" in event["event"] for event in events)


def test_other_tracers_see_the_usage_too(runnable: LayaRunnable) -> None:
    """Any tracer that keeps runs gets laya's id and tokens, not only LangSmith's."""
    collector = RunCollectorCallbackHandler()
    message = runnable.invoke(TEXT, {"callbacks": [collector]})
    (run,) = collector.traced_runs
    assert run.extra["metadata"]["usage_metadata"] == message.usage_metadata
    assert run.extra["metadata"]["laya_run_id"] == message.run_id


def test_a_failing_tracer_never_fails_the_call(runnable: LayaRunnable) -> None:
    """What can't be booked is logged."""

    class Broken(RunCollectorCallbackHandler):
        @property
        def run_map(self) -> Any:
            raise OSError("no space")

        @run_map.setter
        def run_map(self, value: Any) -> None: ...

    assert runnable.invoke(TEXT, {"callbacks": [Broken()]}).usage_metadata


def test_nothing_of_a_call_stays_on_the_runnable(runnable: LayaRunnable) -> None:
    """Calls leave the object as it was."""
    before = copy.copy(runnable.__dict__)
    runnable.invoke(TEXT)
    runnable.batch([TEXT, "hi"])
    assert runnable.__dict__ == before and runnable.__pydantic_private__ in (None, {})


def test_the_runner_is_in_no_copy(agent: Any, runnable: LayaRunnable) -> None:
    """repr, dump and pickle leave it out; a deep copy shares it."""
    assert "runner" not in repr(runnable) and "runner" not in runnable.model_dump()
    assert copy.deepcopy(runnable).runner is agent
    with pytest.raises(RuntimeError, match="model="):
        pickle.loads(pickle.dumps(runnable)).invoke(TEXT)


def test_a_pickled_chain_loads_its_model(runnable: LayaRunnable) -> None:
    """With model= the chain can be sent to another process."""
    chain = LayaRunnable(model=str(CHECKPOINTS / "english"), questions=QUESTIONS) | AnswerParser(Ticket)
    copied = pickle.loads(pickle.dumps(chain))
    assert load_quietly(lambda: copied.invoke(TEXT)) == (runnable | AnswerParser(Ticket)).invoke(TEXT)


async def test_a_model_is_loaded_once(agent: Any) -> None:
    """Each runnable of one model shares its runner."""
    first, second = (LayaRunnable(model=str(CHECKPOINTS / "english"), questions=QUESTIONS) for _ in range(2))
    message = load_quietly(lambda: first.invoke(TEXT))
    assert (await second.ainvoke(TEXT)).result["answers"] == message.result["answers"]
    assert first._loaded_runner() is second._loaded_runner()


def test_langchain_questions_are_lowered(agent: Any) -> None:
    """`langchain_core.decisions` questions give the same answers as dicts."""
    questions = {
        "department": Choice(
            instructions=QUESTIONS["department"]["instructions"],
            criteria=QUESTIONS["department"]["criteria"],
        ),
        "urgent": Noul(instructions=QUESTIONS["urgent"]["instructions"]),
        "frustration": Score(
            instructions=QUESTIONS["frustration"]["instructions"],
            criteria=QUESTIONS["frustration"]["criteria"],
        ),
    }
    runnable = LayaRunnable(agent, questions=questions)
    assert runnable.questions == QUESTIONS
    assert runnable.invoke(TEXT).result["answers"] == agent.predict(TEXT, QUESTIONS)["answers"]


def test_a_plain_question_dict_stays_the_same_object(agent: Any) -> None:
    """Hooks may rely on the caller's own dict."""
    assert LayaRunnable(agent, questions=QUESTIONS).questions is QUESTIONS


def test_a_box_is_refused(agent: Any) -> None:
    """laya reads text, so a question about an image is an error at once."""
    with pytest.raises(ValueError, match="'where' is a Box"):
        LayaRunnable(agent, questions={"where": Box(instructions="the cat")})


def test_a_pydantic_model_is_a_question_set(agent: Any) -> None:
    """A model class asks a question for each field, and the parser gives it back."""
    pytest.importorskip("laya.questions")
    from pydantic import Field

    class Form(BaseModel):
        department: Literal["billing", "technical"] = Field(description="Which team?")
        urgency: int = Field(ge=1, le=5, description="How urgent is it?")

    form = (LayaRunnable(agent, questions=Form) | AnswerParser(Form)).invoke(TEXT)
    assert isinstance(form, Form) and 1 <= form.urgency <= 5


@pytest.mark.parametrize(
    ("fields", "error", "named"),
    [
        ({"runner": object()}, TypeError, "predict"),
        ({"model": "x"}, ValueError, "either runner= or model="),
        ({"options": {"max_length": 3}}, ValueError, "max_length"),
        ({"threshold": 1}, ValueError, "threshold"),
        ({"questions": 3}, TypeError, "questions"),
        ({"questions": {"a": 3}}, TypeError, "question 'a'"),
        ({"questions": {}}, ValueError, "questions is empty"),
    ],
)
def test_a_bad_field_is_refused(agent: Any, fields: dict[str, Any], error: type, named: str) -> None:
    """Before anything is asked, and by name."""
    with pytest.raises(error, match=named):
        LayaRunnable(**{"runner": agent, "questions": QUESTIONS, **fields})


def test_no_questions_are_refused_for_one_call_too(runnable: LayaRunnable) -> None:
    """Nothing would be asked, and the message would hold no answer."""
    with pytest.raises(ValueError, match="questions is empty"):
        runnable.invoke(TEXT, questions={})


@pytest.mark.parametrize(
    ("wrap", "where"),
    [
        (lambda function: function, "'parameters'"),
        (lambda function: {"type": "function", "function": function}, r"\['function'\]\['param"),
    ],
)
def test_the_schema_of_a_function_is_no_question(agent: Any, wrap: Any, where: str) -> None:
    """Its parameters are what can be asked."""
    pytest.importorskip("laya.questions")
    urgent = {"urgent": {"type": "boolean", "description": "Urgent?"}}
    schema = {"name": "triage", "description": "d", "parameters": {"type": "object", "properties": urgent}}
    with pytest.raises(TypeError, match=f"the schema of a function, .* pass its {where}"):
        LayaRunnable(agent, questions=wrap(schema))
    assert LayaRunnable(agent, questions=schema["parameters"]).questions.keys() == {"urgent"}


@pytest.mark.parametrize(
    "kind",
    [LayaDecisionModel, LayaGuardrail, LayaGuardrailMiddleware, LayaRouter, LayaTool, LayaToolSelectorMiddleware],
)
def test_a_runner_without_its_name_is_told_it(agent: Any, kind: Any) -> None:
    """Where a runner alone says nothing of what is asked."""
    with pytest.raises(TypeError, match=f"takes its arguments by name; write {kind.__name__}\\(runner="):
        kind(agent)


def test_a_class_is_no_runner(agent: Any) -> None:
    """The class in place of its instance is named."""
    with pytest.raises(TypeError, match="the class"):
        LayaRunnable(type(agent), questions=QUESTIONS)


def test_the_schemas_are_json(runnable: LayaRunnable) -> None:
    """Inputs, outputs and the graph can be shown."""
    kinds = [option["type"] for option in runnable.get_input_jsonschema()["anyOf"]]
    assert kinds == ["string", "object", "array"]
    assert "result" in runnable.get_output_jsonschema()["properties"]
    assert "LayaRunnable" in (runnable | AnswerParser(Ticket)).get_graph().draw_mermaid()


def test_a_payload_for_a_whole_batch_answers_each_state(agent: Any) -> None:
    """A hook may skip the call with one result; its tokens count once."""

    def skip(ctx: Any) -> None:
        answers = {"urgent": {"type": "noul", "noul": 0.9}}
        ctx.skip([{"model": "cache", "answers": answers, "usage": {"input_tokens": 7, "output_tokens": 0}}])

    runnable = LayaRunnable(agent, questions={"urgent": QUESTIONS["urgent"]})
    first, second = runnable.batch(["a", "b"], on_predict_start=skip)
    assert first.content == second.content == '{"urgent":true}'
    assert first.usage_metadata is not None and first.usage_metadata["input_tokens"] == 7
    assert second.usage_metadata is None


def test_an_option_that_chooses_a_checkpoint_needs_a_router(agent: Any) -> None:
    """The error says what to leave out."""
    runnable = LayaRunnable(agent, questions=QUESTIONS)
    with pytest.raises(TypeError, match=r"'model' chooses among a Router's checkpoints, and this runner, .*, is one"):
        runnable.bind(model="english").invoke("hello")


def test_a_message_is_what_its_fields_make(agent: Any) -> None:
    """It is copied from an empty one: equal to one that is made anew, and sharing nothing with another."""
    runnable = LayaRunnable(agent, questions=QUESTIONS)
    first, second = runnable.invoke("hello"), runnable.invoke("hello")
    given = {name: getattr(first, name) for name in first.model_fields_set}
    assert first == LayaMessage(**given) and first.model_fields_set == LayaMessage(**given).model_fields_set
    assert type(first).model_validate(first.model_dump()) == first
    for name, value in first:
        assert not isinstance(value, list | dict) or value is not getattr(second, name), name
