"""Count and limit what each tenant asks; the tenant comes from a context variable, not from an argument.

python examples/hooks/tenant.py [CHECKPOINT]
"""

import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from threading import Lock

import laya
from laya.hooks import BaseHook

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}

tenant = ContextVar("tenant")


class QuotaExceeded(Exception):
    """A tenant has used its states up."""


class Tenants(BaseHook):
    """Refuse at the start, count at the end. A hook sees the context variables of the thread that predicts."""

    def __init__(self, quota):
        self.quota = quota
        self.states, self.tokens = Counter(), Counter()
        self.lock = Lock()

    def on_predict_start(self, ctx):
        name = tenant.get()
        with self.lock:
            if self.states[name] + len(ctx.states) > self.quota:
                raise QuotaExceeded(f"tenant {name} has used its {self.quota} states")
            self.states[name] += len(ctx.states)

    def on_predict_end(self, ctx):
        if ctx.usage is not None:
            with self.lock:
                self.tokens[tenant.get()] += ctx.usage["input_tokens"]


def main(model: str) -> None:
    tenants = Tenants(quota=3)
    agent = laya.load(model, hooks=tenants)

    def serve(name, states):
        tenant.set(name)
        try:
            agent.predict_batch(states, QUESTIONS)
            return f"{name}: answered {len(states)}"
        except QuotaExceeded as error:
            return f"{name}: refused, {error}"

    # A pool's threads have contexts of their own; each job runs in a copy of the caller's.
    with ThreadPoolExecutor(2) as pool:
        jobs = [("acme", ["a", "b"]), ("globex", ["c"]), ("acme", ["d", "e"])]
        for done in [pool.submit(copy_context().run, serve, *job) for job in jobs]:
            print(done.result())
    print("states:", dict(sorted(tenants.states.items())), "- all tokens:", sum(tenants.tokens.values()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
