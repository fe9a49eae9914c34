"""A LangSmith server on loopback that keeps the runs and feedback that the real client sends, and has experiments."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langsmith import Client
from langsmith.run_helpers import tracing_context

_INFO = {
    "batch_ingest_config": {
        "use_multipart_endpoint": True,
        "size_limit": 100,
        "size_limit_bytes": 20971520,
        "scale_up_nthreads_limit": 1,
        "scale_up_qsize_trigger": 1000,
    }
}

_TENANT = "5f0c5a1c-0000-4000-8000-000000000000"
_TENANCY = {"tenant_id": _TENANT, "display_name": "laya"}


@dataclass
class TracedRun:
    """One run, put together from all the parts that were sent about it."""

    id: str
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.fields["name"]

    @property
    def run_type(self) -> str:
        """The run's type: llm, chain, tool, ..."""
        return self.fields["run_type"]

    @property
    def parent_id(self) -> str | None:
        """The id of the run above, None for a root."""
        return self.fields.get("parent_run_id")

    @property
    def closed(self) -> bool:
        """Whether the run has an end."""
        return self.fields.get("end_time") is not None

    @property
    def error(self) -> str | None:
        """The error that the run ended with."""
        return self.fields.get("error")

    @property
    def inputs(self) -> Any:
        """What the run was given."""
        return self.fields.get("inputs")

    @property
    def outputs(self) -> Any:
        """What the run gave."""
        return self.fields.get("outputs")

    @property
    def metadata(self) -> dict[str, Any]:
        """The run's metadata."""
        return (self.fields.get("extra") or {}).get("metadata") or {}

    @property
    def usage(self) -> dict[str, int] | None:
        """The tokens booked on this run."""
        return self.metadata.get("usage_metadata")


class LangSmithServer:
    """Collects runs by id; several requests about one run are one run."""

    def __init__(self) -> None:
        self._runs: dict[str, TracedRun] = {}
        self._feedback: list[dict[str, Any]] = []
        self._experiment: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where the client sends to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def runs(self) -> list[TracedRun]:
        """The runs so far, in order of arrival."""
        with self._lock:
            return list(self._runs.values())

    def feedback(self) -> list[dict[str, Any]]:
        """The feedback so far, in order of arrival."""
        with self._lock:
            return list(self._feedback)

    def __enter__(self) -> LangSmithServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, path: str, content_type: str, body: bytes) -> dict[str, Any]:
        """Keep what was posted; the answer."""
        if path.startswith("/runs/multipart"):
            self._take_parts(content_type, body)
            return {}
        posted = json.loads(body)
        if path.startswith("/sessions"):
            return self._session(posted)
        if path.startswith("/feedback"):
            with self._lock:
                self._feedback.append(posted)
        return posted

    def _session(self, posted: dict[str, Any]) -> dict[str, Any]:
        """An experiment that was made or changed: the server has one."""
        with self._lock:
            self._experiment |= {key: value for key, value in posted.items() if value is not None}
            return {"start_time": datetime.now(UTC).isoformat(), "tenant_id": _TENANT, **self._experiment}

    def _take_parts(self, content_type: str, body: bytes) -> None:
        parsed = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
        with self._lock:
            for part in parsed.iter_parts():
                # post.<id>, patch.<id>, post.<id>.inputs, feedback.<id>, ...
                kind, run_id, *names = part.get_param("name", header="content-disposition").split(".")
                value = json.loads(part.get_payload(decode=True))
                if kind == "feedback":
                    self._feedback.append(value)
                    continue
                run = self._runs.setdefault(run_id, TracedRun(run_id))
                if names:
                    run.fields[names[0]] = value
                else:
                    run.fields |= {key: item for key, item in value.items() if item is not None}

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, _answer_to(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(202, server._take(self.path, self.headers["Content-Type"], body))

            def do_PATCH(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(200, server._session(json.loads(body)))

            def _answer(self, status: int, value: Any) -> None:
                payload = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: object) -> None: ...

        return Handler


def _answer_to(path: str) -> dict[str, Any]:
    if path.startswith("/datasets/"):
        dataset_id = path.removeprefix("/datasets/").partition("?")[0]
        return {"id": dataset_id, "name": "questions", "created_at": datetime.now(UTC).isoformat(), **_TENANCY}
    return {**_INFO, "id": _TENANT, **_TENANCY}


class Traces:
    """The runs that one client sent."""

    def __init__(self, client: Client, server: LangSmithServer) -> None:
        self.client = client
        self._server = server

    def runs(self) -> list[TracedRun]:
        """All runs, after the client has sent what it holds."""
        self.client.flush()
        return self._server.runs()

    def named(self, name: str) -> list[TracedRun]:
        """The runs of one name."""
        return [run for run in self.runs() if run.name == name]

    def only(self, name: str) -> TracedRun:
        """The run of a name that occurs once."""
        (run,) = self.named(name)
        return run

    def parents(self) -> dict[str, set[str | None]]:
        """The names of the runs above, by name."""
        runs = {run.id: run for run in self.runs()}
        above: dict[str, set[str | None]] = {}
        for run in runs.values():
            above.setdefault(run.name, set()).add(runs[run.parent_id].name if run.parent_id else None)
        return above

    def usage(self) -> dict[str, int]:
        """The tokens of all runs, as a server would sum them."""
        totals = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        for run in self.runs():
            for key, tokens in (run.usage or {}).items():
                totals[key] += tokens
        return totals


@contextmanager
def traced() -> Iterator[Traces]:
    """Trace what runs inside the block with the real client."""
    with LangSmithServer() as server:
        client = Client(api_url=server.url, api_key="x")
        try:
            with tracing_context(enabled=True, client=client, project_name="laya"):
                yield Traces(client, server)
        finally:
            client.flush()
            client.cleanup()
