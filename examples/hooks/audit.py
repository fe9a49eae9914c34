"""Write one line a decision, failed or not, without the text that was decided about.

python examples/hooks/audit.py [CHECKPOINT]
"""

import hashlib
import json
import os
import sys
import time

import laya
from laya.hooks import BaseHook

QUESTIONS = {"refund": {"type": "noul", "instructions": "Does the customer want a refund?"}}


class AuditLog(BaseHook):
    """The end event alone: it runs for every call that started, also after an error."""

    def __init__(self, stream):
        self.stream = stream

    def on_predict_end(self, ctx):
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "run_id": ctx.run_id,
            "model": ctx.model,
            # Enough to find the same input again, too little to read it.
            "states": [hashlib.sha256(repr(state).encode()).hexdigest()[:12] for state in ctx.states],
            "questions": list(ctx.questions),
            "answers": None if ctx.results is None else [self.answers(result) for result in ctx.results],
            "error": None if ctx.error is None else type(ctx.error).__name__,
            "elapsed_ms": round(ctx.elapsed_ms, 1),
        }
        self.stream.write(json.dumps(line) + "\n")

    def answers(self, result):
        """Each answer's own number or label, with its confidence."""
        return {
            question_id: [answer[answer["type"]], answer["answer_confidence"]]
            for question_id, answer in result["answers"].items()
        }


def main(model: str) -> None:
    agent = laya.load(model, hooks=AuditLog(sys.stdout))
    agent.predict("Please send my money back.", QUESTIONS)
    try:
        agent.predict("Please send my money back.", {"team": {"type": "choice", "instructions": "Which team?"}})
    except ValueError as error:
        print("and the caller still gets:", error)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
