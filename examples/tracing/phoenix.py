"""An agent, a query and a plain call of laya's, traced into an Arize Phoenix on this machine.

python examples/tracing/phoenix.py [CHECKPOINT] [--keep] [--port 6006]

It needs `pip install 'laya-integrations[all,phoenix]' langchain`, and Phoenix, which wants an environment of its own:
python -m venv phoenix && phoenix/bin/pip install arize-phoenix, then LAYA_PHOENIX=phoenix/bin/phoenix in front of the
line above. Without --keep, Phoenix ends with this program.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import laya

NEEDS = "pip install 'laya-integrations[all,phoenix]' langchain"

try:
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import CustomQueryEngine, RouterQueryEngine
    from llama_index.core.tools import QueryEngineTool
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from laya_integrations.langchain import LangChainHook, LayaTool
    from laya_integrations.llama_index import LayaSingleSelector, LlamaIndexHook
    from laya_integrations.opentelemetry import OTelHook
except ImportError as error:
    sys.exit(f"{error}. This example needs: {NEEDS}")

PROJECT = "laya"

QUESTIONS = {
    "department": {
        "type": "choice",
        "instructions": "Which team should handle this message?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "urgent": {"type": "noul", "instructions": "Does this need an answer today?"},
}
MESSAGE = "My invoice is wrong and I need it today."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", default=os.environ.get("LAYA_MODEL", "laya-mini"))
    parser.add_argument("--keep", action="store_true", help="leave Phoenix running until Ctrl-C")
    parser.add_argument("--port", type=int, default=6006, help="of Phoenix on 127.0.0.1")
    given = parser.parse_args()
    # Whoever ends this program ends Phoenix with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with phoenix(given.port) as url:
        trace(url, laya.load(given.model))
        print_traces(url)
        print(f"\nLook at {url}/redirects/projects/{PROJECT}", flush=True)
        if given.keep:
            wait_for_interrupt()


def trace(url: str, runner) -> None:
    """One trace for each way into Phoenix: one way for each call, or its tokens would count twice."""
    tracers = TracerProvider(resource=Resource.create({"openinference.project.name": PROJECT}))
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    LangChainInstrumentor().instrument(tracer_provider=tracers)
    LlamaIndexInstrumentor().instrument(tracer_provider=tracers)
    try:
        run_langchain_agent(runner)
        run_llama_index_query(runner)
        run_plain_call(runner, tracers)
    finally:
        LlamaIndexInstrumentor().uninstrument()
        LangChainInstrumentor().uninstrument()
        tracers.shutdown()  # sends what is left


class ScriptedModel(GenericFakeChatModel):
    """In your code: `init_chat_model("...")`."""

    def bind_tools(self, tools, **kwargs):
        return self


def run_langchain_agent(runner) -> None:
    """LayaTool traces itself; the other tool calls laya by itself, which LangChainHook makes visible."""
    triage = LayaTool(
        runner=runner, questions=QUESTIONS, name="triage", description="Find the team and the urgency of a message."
    )

    @tool
    def is_complaint(text: str) -> bool:
        """Tell whether a customer complains."""
        question = {"complaint": {"type": "noul", "instructions": "Does the customer complain?"}}
        return runner.predict(text, question, hooks=LangChainHook())["answers"]["complaint"]["noul"] > 0.5

    calls = [
        {"name": "triage", "args": {"state": MESSAGE}, "id": "1"},
        {"name": "is_complaint", "args": {"text": MESSAGE}, "id": "2"},
    ]
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("I forwarded your message.")]))
    agent = create_agent(model, tools=[triage, is_complaint], name="support-agent")
    agent.invoke({"messages": [("user", MESSAGE)]})


def run_llama_index_query(runner) -> None:
    """LayaSingleSelector traces itself; the engine that it picks calls laya by itself, seen by LlamaIndexHook."""

    class Desk(CustomQueryEngine):
        team: str

        def custom_query(self, query_str: str) -> str:
            answers = runner.predict(query_str, QUESTIONS, hooks=LlamaIndexHook())["answers"]
            return f"{self.team} answers {'today' if answers['urgent']['noul'] > 0.5 else 'this week'}."

    topics = {"billing": "invoices, refunds", "technical": "bugs, outages", "shipping": "parcels"}
    desks = [
        QueryEngineTool.from_defaults(Desk(team=team), name=team, description=topic) for team, topic in topics.items()
    ]
    selector = LayaSingleSelector.from_defaults(runner=runner)
    RouterQueryEngine(selector=selector, query_engine_tools=desks, llm=MockLLM()).query(MESSAGE)


def run_plain_call(runner, tracers) -> None:
    """No framework: OTelHook, here with the texts, under the span of the request."""
    with tracers.get_tracer("shop").start_as_current_span("POST /tickets"):
        runner.predict(MESSAGE, QUESTIONS, hooks=OTelHook(tracers, capture_content=True))


def print_traces(url: str) -> None:
    """Read back what Phoenix has: spans, laya's run ids, tokens."""
    spans = read_spans(url)
    known = {span["context"]["span_id"] for span in spans}

    def show(parent, depth):
        for span in spans:
            above = span["parent_id"] if span["parent_id"] in known else None
            if above == parent:
                print("  " * depth + describe(span))
                show(span["context"]["span_id"], depth + 1)

    show(None, 0)


def describe(span) -> str:
    attributes = span["attributes"]
    run_id = attributes.get("laya.run_id")
    tokens = attributes.get("llm.token_count.prompt", attributes.get("gen_ai.usage.input_tokens"))
    return f"{span['name']} ({span['span_kind']})" + (f"  run {run_id}  {tokens} tokens" if run_id else "")


def read_spans(url: str, seconds: float = 30.0) -> list[dict]:
    """The project's spans by their start, once Phoenix has stored all three traces."""
    deadline = time.monotonic() + seconds
    spans: list[dict] = []
    while time.monotonic() < deadline:
        time.sleep(0.5)
        before = spans
        spans = get_json(f"{url}/v1/projects/{PROJECT}/spans?limit=1000").get("data", [])
        if len({span["context"]["trace_id"] for span in spans}) == 3 and len(spans) == len(before):
            return sorted(spans, key=lambda span: span["start_time"])
    sys.exit(f"Phoenix has {len(spans)} spans after {seconds:.0f} s, of fewer traces than were sent")


def get_json(url: str) -> dict:
    try:
        with urlopen(url, timeout=10) as response:
            return json.load(response)
    except HTTPError as error:  # the project appears with its first span
        if error.code != 404:
            raise
        return {}


@contextmanager
def phoenix(port: int, seconds: float = 180.0):
    """A Phoenix on loopback that keeps its data in a temporary folder and calls nobody."""
    program = find_phoenix()
    with closing(socket.socket()) as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            sys.exit(f"port {port} is taken; choose another with --port")
    with tempfile.TemporaryDirectory(prefix="laya-phoenix-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "phoenix.log")
        with log.open("wb") as output:
            server = subprocess.Popen(
                [program, "serve"], cwd=folder, env=settings(port, folder), stdout=output, stderr=subprocess.STDOUT
            )
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + seconds
            while not answers(f"{url}/healthz"):
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"Phoenix did not start:\n{log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.5)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def find_phoenix() -> str:
    named, beside = os.environ.get("LAYA_PHOENIX"), Path(sys.executable).with_name("phoenix")
    program = shutil.which(named) if named else shutil.which(beside) or shutil.which("phoenix")
    if program is None:
        sys.exit(
            f"there is no program at LAYA_PHOENIX={named}"
            if named
            else "Arize Phoenix isn't installed here: install arize-phoenix in an environment of its own and set "
            "LAYA_PHOENIX to its bin/phoenix"
        )
    return os.path.abspath(program)


def settings(port: int, folder: str) -> dict[str, str]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        grpc_port = free.getsockname()[1]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PHOENIX_", "OTEL_"))},
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_WORKING_DIR": folder,
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    }


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


def wait_for_interrupt() -> None:
    print("Ctrl-C ends it.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
