"""laya's run id and tokens on the spans that OpenInference's instrumentors make of its calls."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openinference.instrumentation.langchain")
pytest.importorskip("openinference.instrumentation.llama_index")

from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from llama_index.core.tools import ToolMetadata
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import laya
from laya_integrations.langchain import LangChainHook, LayaRunnable
from laya_integrations.llama_index import CallOptions, LayaSingleSelector

QUESTIONS: dict[str, Any] = {"urgent": {"type": "noul", "instructions": "Does this need an answer today?"}}


@pytest.fixture(scope="module")
def agent(checkpoints: Path) -> Any:
    """An agent; its checkpoint has a temperature that loading replaces with a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return laya.load(str(checkpoints / "english"), device="cpu")


class Exported:
    """What both instrumentors export."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def of(self, name: str) -> list[ReadableSpan]:
        """The finished spans of one name."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def exported() -> Iterator[Exported]:
    """Both frameworks instrumented for one test."""
    found = Exported()
    instrumentors = [LangChainInstrumentor(), LlamaIndexInstrumentor()]
    for instrumentor in instrumentors:
        instrumentor.instrument(tracer_provider=found.tracers)
    yield found
    for instrumentor in instrumentors:
        instrumentor.uninstrument()
    found.tracers.shutdown()


def seen(span: ReadableSpan) -> tuple[Any, Any, Any]:
    """A span's run id and the tokens read and in total."""
    attributes = span.attributes or {}
    return (
        attributes.get("laya.run_id"),
        attributes.get("llm.token_count.prompt"),
        attributes.get("llm.token_count.total"),
    )


def test_a_runnables_span_has_its_run_id_and_tokens(agent: Any, exported: Exported) -> None:
    """Alone and in a batch, each on its own span, and the tokens on no other one."""
    runnable = LayaRunnable(agent, questions=QUESTIONS)
    chain = RunnableLambda(str.strip) | runnable
    messages = [chain.invoke(" My invoice is wrong. "), *chain.batch([" A crash. ", " Where is my parcel? "])]
    tokens = [message.usage_metadata["input_tokens"] for message in messages]
    expected = {(message.run_id, count, count) for message, count in zip(messages, tokens, strict=True)}
    assert {seen(span) for span in exported.of("LayaRunnable")} == expected
    assert {seen(span) for span in exported.of("RunnableSequence")} == {(None, None, None)}


def test_a_failed_calls_span_has_the_run_id(agent: Any, exported: Exported) -> None:
    """A decision that failed can be looked for, too."""
    found: list[str] = []

    def refuse(ctx: laya.PredictContext) -> None:
        found.append(ctx.run_id)
        raise ValueError("refused")

    runnable = LayaRunnable(agent, questions=QUESTIONS).bind(on_predict_start=refuse)
    with pytest.raises(ValueError, match="refused"):
        runnable.invoke("My invoice is wrong.")
    [span] = exported.of("LayaRunnable")
    assert seen(span) == (found[0], None, None)


def test_a_bare_calls_span_has_its_run_id_and_tokens(agent: Any, exported: Exported) -> None:
    """LangChainHook's run says the same as a runnable's."""
    step = RunnableLambda(lambda text: agent.predict(text, QUESTIONS, hooks=LangChainHook()))
    result = step.invoke("My invoice is wrong.")
    count = result["usage"]["input_tokens"]
    assert [seen(span) for span in exported.of("laya.predict")] == [(result["run_id"], count, count)]


def test_a_llama_index_span_has_its_run_id(agent: Any, exported: Exported) -> None:
    """It is on the call's own span, and not on the selector's around it."""
    choices = [ToolMetadata(name=name, description=name) for name in ("billing", "technical")]
    selected = LayaSingleSelector(runner=agent).select(choices, "My invoice is wrong.")
    [span] = exported.of("LayaAgent.predict")
    assert seen(span)[0] == selected.selections[0].run_id
    assert {seen(span)[0] for span in exported.exporter.get_finished_spans()} == {None, seen(span)[0]}


def test_a_llama_index_span_says_which_checkpoint_answered(agent: Any, router: Any, exported: Exported) -> None:
    """Of a Router's calls also why, each on its own span; a call that fails says it too."""
    selector = LayaSingleSelector(runner=router)
    selector.select_many(["invoices", "bugs"], ["My invoice is wrong, please help me.", "Где моя посылка?"])
    routed = [span.attributes or {} for span in exported.of("LayaRouter.predict")]
    chosen = {attributes["llm.model_name"]: attributes for attributes in routed}
    assert chosen.keys() == {"english", "multilingual"}
    for name, attributes in chosen.items():
        assert attributes["laya.routing.model"] == name
    assert "cyrillic" in str(chosen["multilingual"]["laya.routing.reason"])

    def refuse(ctx: laya.PredictContext) -> None:
        raise ValueError("refused")

    failing = LayaSingleSelector(runner=agent, options=CallOptions(on_predict_start=refuse))
    with pytest.raises(ValueError, match="refused"):
        failing.select(["invoices", "bugs"], "My invoice is wrong.")
    [span] = exported.of("LayaAgent.predict")
    assert (span.attributes or {})["llm.model_name"] == agent.model_id
    assert not any("routing" in name for name in span.attributes or {})


def test_a_span_that_refuses_attributes_fails_no_call(
    agent: Any, exported: Exported, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What goes wrong in tracing is logged, and the answer is given."""

    def broken(self: Any, run_id: Any) -> Any:
        raise RuntimeError("no spans today")

    monkeypatch.setattr(LangChainInstrumentor, "get_span", broken)
    with caplog.at_level(logging.WARNING, "laya_integrations"):
        assert LayaRunnable(agent, questions=QUESTIONS).invoke("My invoice is wrong.").result["answers"]
    assert "could not be completed" in caplog.text


def test_without_an_instrumentor_at_work_nothing_is_looked_up(agent: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """OpenInference prints a line when it is asked for a span and isn't at work."""
    observed: Any = {"callbacks": [RunCollectorCallbackHandler()]}
    RunnableLambda(lambda text: agent.predict(text, QUESTIONS, hooks=LangChainHook())).invoke("A crash.", observed)
    LayaRunnable(agent, questions=QUESTIONS).invoke("A crash.", observed)
    assert capsys.readouterr().out == ""
