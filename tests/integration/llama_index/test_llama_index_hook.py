"""LlamaIndexHook turns laya's calls into spans, events and callback events, once each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler, TokenCountingHandler
from llama_index.core.callbacks.base import global_stack_trace, global_stack_trace_ids
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import instrument_tags
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import active_span_id

import laya
from laya.hooks import BaseHook, add_default_hook, clear_default_hooks, default_hooks
from laya_integrations._options import CallOptions
from laya_integrations.llama_index import LlamaIndexHook
from laya_integrations.llama_index.hook import _open, traced_decisions
from tests.integration.llama_index.conftest import QUESTIONS
from tests.integration.llama_index.recorder import Recording, name_of, recording

dispatcher = get_dispatcher("tests.laya")


@pytest.fixture
def installed() -> Iterator[LlamaIndexHook]:
    """The hook, for every call in the process."""
    yield LlamaIndexHook().install()
    LlamaIndexHook.uninstall()


@dispatcher.span
def ask(runner: Any, state: Any, **options: Any) -> Any:
    """A function of the user's, which LlamaIndex shows as a span."""
    return runner.predict(state, QUESTIONS, **options)


@dispatcher.span
async def aask(runner: Any, state: Any) -> Any:
    """The same, asynchronous."""
    return await asyncio.to_thread(runner.predict, state, QUESTIONS)


def test_a_call_is_one_span_under_the_callers(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """Start event, end event, exit, all on one span, whose parent is the active one."""
    ask(agent, "My invoice is wrong.")
    [span] = recorded.laya_spans
    assert recorded.path(span) == ["ask", "LayaAgent.predict"]
    [start], [end] = recorded.starts, recorded.ends
    assert start.span_id == end.span_id == span.id_
    assert isinstance(start, LLMChatStartEvent) and isinstance(end, LLMChatEndEvent)
    assert (start.class_name(), end.class_name()) == ("LayaPredictStartEvent", "LayaPredictEndEvent")
    assert recorded.open_spans == {}


def test_a_span_id_reads_as_those_of_llama_index(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """Letters, one dot, letters, a dash: what consumers split it by."""
    agent.predict("a", QUESTIONS)
    [span] = recorded.laya_spans
    assert re.fullmatch(r"[A-Za-z]+\.[a-z]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", span.id_)


def test_the_run_id_is_on_the_span_and_its_events(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """The tag joins the user's own, which stay, and LlamaIndex's name for its runs is left alone."""
    with instrument_tags({"tenant": "a"}):
        result = agent.predict("a", QUESTIONS)
    [span], [start], [end] = recorded.laya_spans, recorded.starts, recorded.ends
    expected = {"tenant": "a", "laya.run_id": end.response.raw["id"]}
    assert span.tags == start.tags == end.tags == expected
    assert result.get("run_id", expected["laya.run_id"]) == expected["laya.run_id"]


def test_usage_has_both_namings(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """Observers of either read laya's numbers; the model and the bare answers are there too."""
    result = agent.predict("My invoice is wrong.", QUESTIONS)
    [end] = recorded.ends
    read, written = (result["usage"][name] for name in ("input_tokens", "output_tokens"))
    assert end.response.raw["usage"] == {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
    }
    assert read > 0
    assert end.response.raw["model"] == result["model"]
    assert end.response.raw["answers"] == [result["answers"]]
    assert end.response.message.content.startswith('{"department":"')


def test_a_batch_is_one_call_with_its_tokens_summed(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """One message holds all states, so that a large batch stays within a span's attributes."""
    results = agent.predict_batch(["a", "b", {"c": 1}], QUESTIONS)
    assert len(recorded.laya_spans) == 1
    [start], [end] = recorded.starts, recorded.ends
    assert [message.content for message in start.messages] == ['["a","b",{"c":1}]']
    expected = sum(result["usage"]["input_tokens"] for result in results)
    assert end.response.raw["usage"]["total_tokens"] == expected
    assert len(end.response.raw["answers"]) == 3


def test_a_call_shows_once_however_often_it_is_hooked(
    agent: Any, recorded: Recording, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """The process, the runner, the call and an adapter class may all have the hook."""
    with agent.hooks_installed(LlamaIndexHook()):
        decision = traced_decisions(agent, QUESTIONS, CallOptions(hooks=LlamaIndexHook())).one("a")
    assert len(recorded.laya_spans) == len(recorded.starts) == len(recorded.ends) == 1
    assert counter.total_llm_token_count == decision.result["usage"]["input_tokens"]


def test_a_router_and_its_agent_show_once(agent: Any, recorded: Recording, counter: TokenCountingHandler) -> None:
    """A hook on both would show the agent's tokens twice."""
    router = laya.Router(default="english", hooks=LlamaIndexHook())
    router.attach("english", agent)
    with agent.hooks_installed(LlamaIndexHook()):
        result = router.predict("a", QUESTIONS)
        assert [name_of(span) for span in recorded.laya_spans] == ["LayaRouter.predict"]
        assert counter.total_llm_token_count == result["usage"]["input_tokens"]
        assert recorded.ends[0].response.raw["routing"]["model"] == "english"
        agent.predict("a", QUESTIONS)
    assert [name_of(span) for span in recorded.laya_spans] == ["LayaRouter.predict", "LayaAgent.predict"]


@pytest.fixture
def hooked(agent: Any) -> Iterator[Any]:
    """The agent, hooked twice: each of its hooks hears of what it does for a Router."""
    with agent.hooks_installed(LlamaIndexHook()), agent.hooks_installed(LlamaIndexHook()):
        yield agent


def router_of(agent: Any, **options: Any) -> Any:
    """A hooked Router that asks the agent."""
    router = laya.Router(default="english", hooks=LlamaIndexHook(), **options)
    router.attach("english", agent)
    return router


TIMES = pytest.mark.parametrize("timing", [{}, {"hooks_timeout": 30.0}], ids=["untimed", "timed"])


@TIMES
def test_a_router_and_its_agent_show_once_in_any_thread(
    hooked: Any, recorded: Recording, counter: TokenCountingHandler, timing: dict[str, Any]
) -> None:
    """With a timeout each hook has a thread of its own; a long state reaches the agent as its windows."""
    router = router_of(hooked, **timing)
    request = {"state": "b", "questions": QUESTIONS}
    results = [router.predict("a", QUESTIONS), router.predict_long("many words " * 300, QUESTIONS)]
    results += router.predict_batch([request, {**request, "max_len": 64}, request, {**request, "state": {"c": 1}}])
    assert results[1]["usage"]["windows"] > 1
    assert [name_of(span) for span in recorded.laya_spans] == ["LayaRouter.predict"] * 6
    assert counter.total_llm_token_count == sum(result["usage"]["input_tokens"] for result in results)


@TIMES
@pytest.mark.parametrize("event", ["on_predict_start", "on_predict_end"])
def test_what_a_hook_asks_during_a_routers_call_is_a_call_of_its_own(
    hooked: Any, recorded: Recording, counter: TokenCountingHandler, timing: dict[str, Any], event: str
) -> None:
    """Though it asks the same agent the same questions; at the end even about the same state."""
    asked: list[Any] = []

    def ask_again(ctx: Any) -> None:
        state = "something else" if event == "on_predict_start" else ctx.states[0]
        asked.append(ctx.agent.predict(state, ctx.questions))

    asked.append(router_of(hooked, **timing).predict("a", QUESTIONS, **{event: ask_again}))
    assert len(asked) == 2
    assert sorted(name_of(span) for span in recorded.laya_spans) == ["LayaAgent.predict", "LayaRouter.predict"]
    assert counter.total_llm_token_count == sum(result["usage"]["input_tokens"] for result in asked)


def test_an_agent_that_only_a_process_wide_hook_shows_is_shown_in_a_hook(
    agent: Any, recorded: Recording, installed: LlamaIndexHook
) -> None:
    """Such a hook may never hear of what the agent does for the Router."""
    router = laya.Router(default="english")
    router.attach("english", agent)
    router.predict("a", QUESTIONS, on_predict_start=lambda ctx: ctx.agent.predict("something else", QUESTIONS))
    assert sorted(name_of(span) for span in recorded.laya_spans) == ["LayaAgent.predict", "LayaRouter.predict"]


def test_a_routers_call_whose_end_was_not_heard_hides_nothing(agent: Any, recorded: Recording) -> None:
    """An earlier hook's failing end keeps it from this one; the agent's next calls show all the same."""

    def fail(ctx: Any) -> None:
        raise RuntimeError("no end")

    router = laya.Router(default="english", on_predict_end=fail)
    router.attach("english", agent)
    with pytest.raises(RuntimeError, match="no end") as kept:
        router.predict("a", QUESTIONS, hooks=LlamaIndexHook())
    agent.predict("a", QUESTIONS, hooks=LlamaIndexHook())
    assert kept.value is not None
    assert [name_of(span) for span in recorded.laya_spans] == ["LayaAgent.predict"]


def test_a_routers_batch_is_a_call_for_each_request(
    router: Any, recorded: Recording, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """They overlap, and still each lies under the caller's span, not under a sibling."""

    @dispatcher.span
    def ask_all() -> Any:
        return router.predict_batch([{"state": state, "questions": QUESTIONS} for state in ("a", "b", "это русский")])

    results = ask_all()
    assert [recorded.path(span) for span in recorded.laya_spans] == [["ask_all", "LayaRouter.predict"]] * 3
    assert counter.total_llm_token_count == sum(result["usage"]["input_tokens"] for result in results)
    assert recorded.open_spans == {} and active_span_id.get() is None


def test_a_failed_call_drops_its_span(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """The drop comes with its event and the error, and there is no end event."""
    with pytest.raises(TypeError):
        ask(agent, None)
    assert sorted(name_of(span) for span in recorded.span_handler.dropped_spans) == ["LayaAgent.predict", "ask"]
    dropped = [event for event in recorded.events if event.class_name() == "SpanDropEvent"]
    assert dropped[0].span_id == recorded.laya_spans[0].id_ and dropped[0].tags["laya.run_id"]
    assert recorded.ends == [] and recorded.open_spans == {}


def test_an_interrupted_call_drops_its_span(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """Ctrl-C is no Exception, and ends the span all the same."""

    def interrupt(ctx: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.predict("a", QUESTIONS, on_predict_start=interrupt)
    assert len(recorded.span_handler.dropped_spans) == 1 and recorded.open_spans == {}


def test_another_hooks_failing_end_leaves_no_span_open(agent: Any, recorded: Recording) -> None:
    """Hooks after a failing one hear of no end; the span ends with the call's context."""

    class FailsAtTheEnd(BaseHook):
        def on_predict_end(self, ctx: Any) -> None:
            raise RuntimeError("no end")

    before = len(_open)
    try:
        agent.predict("a", QUESTIONS, hooks=[FailsAtTheEnd(), LlamaIndexHook()])
    except RuntimeError as error:
        error.__traceback__ = None
    assert recorded.open_spans == {} and len(recorded.span_handler.dropped_spans) == 1
    assert len(_open) == before


def test_installing_twice_is_once(recorded: Recording, agent: Any) -> None:
    """Whichever object comes second, and other hooks keep their places."""
    other = BaseHook()
    add_default_hook(other)
    try:
        first = LlamaIndexHook().install()
        first.install()
        LlamaIndexHook().install()
        assert default_hooks() == [other, first] and LlamaIndexHook.is_installed()
        assert LlamaIndexHook.uninstall() and not LlamaIndexHook.is_installed()
        assert not LlamaIndexHook.uninstall()
        assert default_hooks() == [other]
    finally:
        clear_default_hooks()
    agent.predict("a", QUESTIONS)
    assert recorded.events == []


def test_a_runners_hook_shows_that_runners_calls(agent: Any, recorded: Recording) -> None:
    """Added and removed by laya's own API."""
    hook = LlamaIndexHook()
    agent.add_hook(hook)
    agent.predict("a", QUESTIONS)
    assert agent.remove_hook(hook)
    agent.predict("b", QUESTIONS)
    assert len(recorded.laya_spans) == 1


def test_nothing_is_done_while_nobody_listens(agent: Any, installed: LlamaIndexHook) -> None:
    """No call is opened, and an adapter class adds no hook."""
    opened: list[int] = []
    options = CallOptions()
    agent.predict("a", QUESTIONS, on_predict_start=lambda ctx: opened.append(len(_open)))
    assert opened == [0]
    assert traced_decisions(agent, QUESTIONS, options).options is options
    with recording():
        assert traced_decisions(agent, QUESTIONS, options).options is not options
        agent.predict("a", QUESTIONS, on_predict_start=lambda ctx: opened.append(len(_open)))
    assert opened == [0, 1]


def test_a_runner_without_hooks_is_asked_as_it_is(agent: Any, recorded: Recording) -> None:
    """Anything with laya's `predict` may be a runner."""

    class Plain:
        def predict(self, state: Any, questions: Any) -> Any:
            return agent.predict(state, questions)

    decision = traced_decisions(Plain(), QUESTIONS, CallOptions()).one("a")
    assert set(decision.values) == set(QUESTIONS) and recorded.laya_spans == []


def test_the_parent_is_right_under_threads(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """A thread that runs in the caller's context has the caller's span as its parent; another has none."""

    @dispatcher.span
    def fan_out() -> None:
        with ThreadPoolExecutor(4) as pool:
            works = [pool.submit(copy_context().run, agent.predict, str(i), QUESTIONS) for i in range(8)]
            works.append(pool.submit(agent.predict, "bare", QUESTIONS))
            [work.result() for work in works]

    fan_out()
    paths = sorted(recorded.path(span) for span in recorded.laya_spans)
    assert paths == [["LayaAgent.predict"], *[["fan_out", "LayaAgent.predict"]] * 8]
    assert recorded.open_spans == {}


async def test_the_parent_is_right_under_asyncio(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """Each of many tasks has its own."""
    await asyncio.gather(*(aask(agent, str(i)) for i in range(8)))
    assert [recorded.path(span) for span in recorded.laya_spans] == [["aask", "LayaAgent.predict"]] * 8
    assert len({span.parent_id for span in recorded.laya_spans}) == 8 and recorded.open_spans == {}


async def test_the_parent_is_right_in_a_workflow(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """A call in a step lies under that step."""

    class Triage(Workflow):
        @step
        async def decide(self, event: StartEvent) -> StopEvent:
            return StopEvent(result=await asyncio.to_thread(agent.predict, event.text, QUESTIONS))

    result = await Triage().run(text="My invoice is wrong.")
    assert result["usage"]["input_tokens"] > 0
    [span] = recorded.laya_spans
    assert recorded.path(span)[-2:] == ["Triage.decide", "LayaAgent.predict"]
    assert recorded.open_spans == {}


def test_a_timed_hook_pairs_start_and_end(
    agent: Any, recorded: Recording, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """With a timeout each event runs in a thread of its own."""
    result = ask(agent, "a", hooks_timeout=30.0)
    assert recorded.path(recorded.laya_spans[0]) == ["ask", "LayaAgent.predict"]
    assert recorded.open_spans == {} and counter.total_llm_token_count == result["usage"]["input_tokens"]


def test_a_failing_handler_fails_no_call(agent: Any, installed: LlamaIndexHook) -> None:
    """LlamaIndex hides what a span or event handler raises; a callback handler's failure is logged here."""

    class Fails(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            raise RuntimeError("no")

    handler = TokenCountingHandler(tokenizer=str.split, token_budget=0)
    before = Settings.callback_manager
    root = get_dispatcher()
    root.add_event_handler(fails := Fails())
    Settings.callback_manager = CallbackManager([handler])
    try:
        result = agent.predict("a", QUESTIONS)
        agent.predict("a", QUESTIONS)
    finally:
        Settings.callback_manager = before
        root.event_handlers = [other for other in root.event_handlers if other is not fails]
    assert handler.total_llm_token_count == 2 * result["usage"]["input_tokens"]


def test_token_counting_handler_has_layas_numbers(
    agent: Any, router: Any, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """Exactly: nothing of the prompt, or of the answers, is counted by LlamaIndex's own tokenizer."""
    results = [agent.predict("My invoice is wrong.", QUESTIONS), router.predict({"text": "Hi"}, QUESTIONS)]
    results += agent.predict_batch(["a b c", "d"], QUESTIONS)
    assert counter.prompt_llm_token_count == sum(result["usage"]["input_tokens"] for result in results)
    assert counter.completion_llm_token_count == sum(result["usage"]["output_tokens"] for result in results)
    assert [event.prompt for event in counter.llm_token_counts] == [
        "My invoice is wrong.",
        '{"text":"Hi"}',
        '["a b c","d"]',
    ]


def test_a_skipped_call_counts_what_its_payload_reports(
    agent: Any, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """Nothing, where a hook answered from a cache: a zero is not taken for an unknown number."""
    answers = {"urgent": {"type": "noul", "noul": 0.9}}

    def answer(ctx: Any) -> None:
        ctx.skip([{"answers": answers}])

    agent.predict("many words in this state", QUESTIONS, on_predict_start=answer)
    assert counter.total_llm_token_count == 0 and len(counter.llm_token_counts) == 1


def test_written_tokens_are_counted_once(
    agent: Any, installed: LlamaIndexHook, counter: TokenCountingHandler, recorded: Recording
) -> None:
    """Where a result reports output tokens, the answers' text is shown and the report counted."""
    answers = {"urgent": {"type": "noul", "noul": 0.9}}

    def answer(ctx: Any) -> None:
        ctx.skip([{"answers": answers, "usage": {"input_tokens": 7, "output_tokens": 2}}])

    agent.predict("a", QUESTIONS, on_predict_start=answer)
    assert (counter.prompt_llm_token_count, counter.completion_llm_token_count) == (7, 2)
    assert counter.llm_token_counts[0].completion == '{"urgent":true}'
    assert recorded.ends[0].response.raw["usage"]["total_tokens"] == 9


def test_the_callback_manager_is_looked_up_when_called(agent: Any, installed: LlamaIndexHook) -> None:
    """A manager set after the hook was installed hears of the calls."""
    before = Settings.callback_manager
    handlers = [TokenCountingHandler(tokenizer=str.split) for _ in range(2)]
    try:
        for handler in handlers:
            Settings.callback_manager = CallbackManager([handler])
            agent.predict("a", QUESTIONS)
    finally:
        Settings.callback_manager = before
    assert [len(handler.llm_token_counts) for handler in handlers] == [1, 1]


def test_a_components_own_manager_hears_too(
    agent: Any, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """The process-wide hook tells the shared handlers, the component's hook its own, and nobody twice."""
    own = TokenCountingHandler(tokenizer=str.split)
    traced_decisions(agent, QUESTIONS, CallOptions(), CallbackManager([own])).one("a")
    traced_decisions(agent, QUESTIONS, CallOptions(), Settings.callback_manager).one("a")
    assert (len(own.llm_token_counts), len(counter.llm_token_counts)) == (1, 2)


def test_callback_traces_are_closed_and_nothing_leaks(agent: Any, installed: LlamaIndexHook) -> None:
    """A failed call ends its event and its trace; the caller's stacks are as they were."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    before = Settings.callback_manager
    Settings.callback_manager = CallbackManager([debug])
    stacks = (list(global_stack_trace.get()), list(global_stack_trace_ids.get()))
    try:
        agent.predict("a", QUESTIONS)
        with pytest.raises(TypeError):
            agent.predict(None, QUESTIONS)
    finally:
        Settings.callback_manager = before
    pairs = debug.get_event_pairs(CBEventType.LLM)
    assert [len(pair) for pair in pairs] == [2, 2] and debug._cur_trace_id == "laya"
    assert isinstance(pairs[1][1].payload["exception"], TypeError)
    assert (global_stack_trace.get(), global_stack_trace_ids.get()) == stacks


def test_states_of_any_shape_are_shown(agent: Any, recorded: Recording, installed: LlamaIndexHook) -> None:
    """A conversation is shown as JSON, as laya reads it."""
    agent.predict([{"role": "user", "content": "Grüße"}], QUESTIONS)
    assert recorded.starts[0].messages[0].content == '[{"role":"user","content":"Grüße"}]'


def test_what_cannot_be_shown_is_closed_all_the_same(
    agent: Any, recorded: Recording, installed: LlamaIndexHook, counter: TokenCountingHandler
) -> None:
    """A state that is no JSON is named by its type; results that a hook made unreadable end the span."""
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises((TypeError, ValueError)):
        agent.predict(circle, QUESTIONS)
    assert recorded.starts[0].messages[0].content == "<dict>"

    def spoil(ctx: Any) -> None:
        ctx.results = [object()]

    with pytest.raises(Exception):  # noqa: B017 - what laya says of it is laya's affair
        agent.predict("a", QUESTIONS, on_predict_start=spoil)["answers"]
    assert recorded.open_spans == {} and len(recorded.laya_spans) == 2
    assert len(counter.llm_token_counts) == 2
