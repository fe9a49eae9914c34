"""Ask one question set first and put its answer into the state of the next; tie both runs together.

python examples/hooks/nested.py [CHECKPOINT]
"""

import os
import sys

import laya
from laya.hooks import BaseHook

KIND = {"kind": {"type": "choice", "instructions": "What is this about?", "criteria": ["a payment", "a fault", "else"]}}
QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}


class Enrich(BaseHook):
    """Ask `helper` about every state. The helper has no hooks: one with this hook would ask itself without end."""

    def __init__(self, helper):
        self.helper = helper
        self.parents = {}

    def on_predict_start(self, ctx):
        # Process-wide hooks would run on the helper's call too, so a default Enrich needs a guard of its own.
        found = self.helper.predict_batch(ctx.states, KIND)
        for result in found:
            # A nested call is a run of its own, of which only its maker knows the parent. An Agent answers all states
            # in one run, a Router each in its own, so every result is looked at.
            self.parents[result["run_id"]] = ctx.run_id
        ctx.states = [
            {"text": state, "kind": result["answers"]["kind"]["choice"]}
            for state, result in zip(ctx.states, found, strict=True)
        ]


def main(model: str) -> None:
    enrich = Enrich(laya.load(model))
    agent = laya.load(model, hooks=enrich)
    asked = []
    results = agent.predict_batch(
        ["My invoice is wrong.", "The app crashes."], QUESTIONS, on_predict_end=lambda ctx: asked.extend(ctx.states)
    )
    for state, result in zip(asked, results, strict=True):
        print(state, "urgent:", result["answers"]["urgent"]["noul"])
    for child, parent in enrich.parents.items():
        print(
            "run", child[:8], "was made by run", parent[:8], "- which gave the results:", results[0]["run_id"] == parent
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
