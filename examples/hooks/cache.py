"""Answer a state that was asked before without asking the model.

python examples/hooks/cache.py [CHECKPOINT]
"""

import copy
import hashlib
import os
import sys
from collections import OrderedDict
from threading import Lock

import laya
from laya.hooks import BaseHook


def cache_key(ctx, index):
    """All that an answer about state `index` depends on.

    repr keeps the order of questions and options, and tells 1, True and "1" apart; JSON with sorted keys does neither.
    """
    asked = (ctx.model, ctx.max_len, ctx.head_max_len, ctx.states[index], list(ctx.questions.items()))
    return hashlib.sha256(repr(asked).encode()).hexdigest()


class StateCache(BaseHook):
    """One entry a state, so that a batch fills what single calls ask for, and the other way round."""

    def __init__(self, limit=10_000):
        self.entries = OrderedDict()
        self.limit = limit
        self.hits = 0
        self.lock = Lock()

    def on_predict_start(self, ctx):
        if ctx.results is not None:  # an earlier hook has answered
            return
        keys = [cache_key(ctx, index) for index in range(len(ctx.states))]
        with self.lock:
            found = [self.entries.get(key) for key in keys]
            # A call is answered as a whole: where one state is unknown, all of them are inferred.
            if not found or None in found:
                return
            self.hits += len(found)
            for key in keys:
                self.entries.move_to_end(key)
        ctx.skip(copy.deepcopy(found))

    def on_predict_end(self, ctx):
        if ctx.error is not None:
            return
        for index, result in enumerate(ctx.results):
            if is_worth_keeping(result, ctx):
                with self.lock:
                    self.entries[cache_key(ctx, index)] = bare(result)
                    while len(self.entries) > self.limit:
                        self.entries.popitem(last=False)


def is_worth_keeping(result, ctx):
    """Only what this call inferred, and only what `predict` and `predict_long` would answer alike."""
    if result.get("run_id") != ctx.run_id:
        return False
    usage = result["usage"]
    return not usage.get("truncated") and usage.get("windows", 1) == 1


def bare(result):
    """A copy without what belongs to one call: its route, and the marks of its gate."""
    kept = copy.deepcopy(result)
    kept.pop("routing", None)
    for answer in kept["answers"].values():
        for mark in ("low_confidence", "abstention", "abstention_threshold"):
            answer.pop(mark, None)
    return kept


QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}
STATES = ["The server room is flooding!", "How many seats does the team plan have?"]


def main(model: str) -> None:
    cache = StateCache()
    agent = laya.load(model, hooks=cache)
    first = agent.predict_batch(STATES, QUESTIONS)
    again = agent.predict_batch(STATES, QUESTIONS)
    print("hits after the same batch:", cache.hits, "- same answers:", first == again)

    agent.predict(STATES[1], QUESTIONS)
    print("hits after one state of it:", cache.hits)

    agent.predict(STATES[1], QUESTIONS, max_len=64)
    print("hits with another budget:", cache.hits)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
