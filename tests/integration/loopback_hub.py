"""A Hub on the loopback interface: the requests that the real client makes, answered over real sockets."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".onnx", ".bin")
"""Endings of files that the Hub keeps apart and redirects to."""


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    file: str | None
    """The file within its repository, for requests of a file; the content of a large one is also one."""
    range: str | None
    authorization: str | None


@dataclass
class Repo:
    """A repository: commits in the order they were pushed, each a full set of files."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False


class LoopbackHub:
    """Serve repositories on 127.0.0.1 for the length of a `with` block, and remember every request."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.requests: list[Request] = []
        self.cuts: dict[str, int] = {}
        """By file: the byte after which its next transfer is dropped."""
        self.outage = False
        """While true, every request is answered with 503."""
        self._triggers: list[_Trigger] = []
        hub = self

        class Handler(_Handler):
            served = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._running = False

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        self._running = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port: connections are refused from here on."""
        if self._running:
            self._running = False
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def go_down(self) -> None:
        """Answer 503 from here on."""
        self.outage = True

    @property
    def url(self) -> str:
        """The endpoint to give to the client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def push(self, repo: str, files: dict[str, bytes], *, branch: str = "main") -> str:
        """Make a commit of exactly these files, move the branch to it, and return it."""
        entry = self.repos.setdefault(repo, Repo())
        digest = hashlib.sha1(repr((len(entry.commits), sorted(files))).encode())
        commit = digest.hexdigest()
        entry.commits[commit] = dict(files)
        entry.refs[branch] = commit
        return commit

    def when_requested(self, file: str, action: Callable[[], object]) -> None:
        """Run an action once, just before the first request of a file is answered."""
        self._triggers.append(_Trigger(file, action))

    def record(self, request: Request) -> None:
        """Remember a request, and run what waits for it."""
        self.requests.append(request)
        for trigger in [t for t in self._triggers if t.file == request.file]:
            self._triggers.remove(trigger)
            trigger.action()

    def files_requested(self, method: str | None = None) -> list[str]:
        """List the files that were asked for, each once, in the order they were."""
        asked = [r.file for r in self.requests if r.file is not None and method in (None, r.method)]
        return list(dict.fromkeys(asked))


@dataclass
class _Trigger:
    file: str
    action: Callable[[], object]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: LoopbackHub

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        resolve = re.fullmatch(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)", path)
        large = re.fullmatch(r"/lfs/(?P<repo>[^/]+/[^/]+)/(?P<revision>[^/]+)/(?P<file>.+)", path)
        info = re.fullmatch(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?", path)
        asked = resolve or large
        self._record(path, asked["file"] if asked else None)
        if self.served.outage:
            self._reply(503, b"out of service", body=body)
        elif asked:
            self._answer_file(asked["repo"], asked["revision"], asked["file"], redirect=bool(resolve), body=body)
        elif info:
            self._answer_info(info["repo"], info["revision"] or "main", body=body)
        else:
            self._reply(404, b"{}", body=body)

    def _record(self, path: str, file: str | None) -> None:
        self.served.record(
            Request(self.command, path, file, self.headers.get("Range"), self.headers.get("Authorization"))
        )

    def _answer_info(self, name: str, revision: str, *, body: bool) -> None:
        found = self._commit(name, revision, body=body)
        if found is not None:
            siblings = [{"rfilename": file} for file in self.served.repos[name].commits[found]]
            content = {"id": name, "modelId": name, "sha": found, "siblings": siblings, "tags": []}
            self._reply(200, json.dumps(content).encode(), body=body)

    def _answer_file(self, name: str, revision: str, file: str, *, redirect: bool, body: bool) -> None:
        commit = self._commit(name, revision, body=body)
        if commit is None:
            return
        content = self.served.repos[name].commits[commit].get(file)
        if content is None:
            headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}
            self._reply(404, b"Entry not found", headers, body=body)
            return
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        headers = {"ETag": etag, "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if redirect and file.endswith(LARGE):
            headers |= {
                "X-Linked-ETag": etag,
                "X-Linked-Size": str(len(content)),
                "Location": f"{self.served.url}/lfs/{name}/{commit}/{file}",
            }
            self._reply(302, b"", headers, body=body)
        else:
            self._send(file, content, headers, body=body)

    def _send(self, file: str, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        start = 0
        status = 200
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if wanted:
            start = int(wanted[1])
            status = 206
            headers = headers | {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        cut = self.served.cuts.pop(file, None) if body else None
        self._reply(status, content[start:], headers, body=body, stop_after=cut)

    def _commit(self, name: str, revision: str, *, body: bool) -> str | None:
        """Return the commit that a revision means, or answer with the Hub's refusal."""
        repo = self.served.repos.get(name)
        given = self.headers.get("Authorization")
        if repo is None or (repo.token is not None and given != f"Bearer {repo.token}"):
            # The Hub doesn't tell a stranger whether a repository is private or missing.
            status, headers = (404 if given and repo is None else 401), {"X-Error-Code": "RepoNotFound"}
            if repo is not None and repo.gated:
                status, headers = 403 if given else 401, {"X-Error-Code": "GatedRepo"}
            self._reply(status, b"Invalid username or password.", headers, body=body)
            return None
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            self._reply(404, b"Invalid rev id", {"X-Error-Code": "RevisionNotFound"}, body=body)
            return None
        return commit

    def _reply(
        self,
        status: int,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        body: bool,
        stop_after: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content[:stop_after])
        if stop_after is not None:
            self._drop_connection()

    def _drop_connection(self) -> None:
        """Send what was written, then hang up before the announced length is reached."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
