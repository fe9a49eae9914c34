"""Carry a run's id to the service that acts on the answer, so that both sides' logs can be joined.

python examples/hooks/propagate.py [CHECKPOINT]
"""

import json
import os
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import laya
from laya.hooks import BaseHook

QUESTIONS = {"refund": {"type": "noul", "instructions": "Does the customer want a refund?"}}

HEADER = "X-Laya-Run-Id"


class LogRuns(BaseHook):
    """The deciding side's log line, also for a call that failed and so has no result to take an id from."""

    def on_predict_end(self, ctx):
        print(f"decider: run={ctx.run_id[:8]} failed={ctx.error is not None}")


class Ledger(BaseHTTPRequestHandler):
    """The acting side: another process, which knows of the run only what the header says."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(f"ledger:  run={self.headers[HEADER][:8]} refund={body['refund']}")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        """The line above is the log."""


def main(model: str) -> None:
    agent = laya.load(model, hooks=LogRuns())
    with ThreadingHTTPServer(("127.0.0.1", 0), Ledger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for state in ("Please send my money back.", "Thank you, it arrived."):
            result = agent.predict(state, QUESTIONS)
            body = json.dumps({"refund": result["answers"]["refund"]["noul"] >= 0.5}).encode()
            url, headers = f"http://127.0.0.1:{server.server_port}", {HEADER: result["run_id"]}
            urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10).close()
        server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
