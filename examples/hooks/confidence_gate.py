"""Hand what the model is unsure of to a person.

python examples/hooks/confidence_gate.py [CHECKPOINT]
"""

import os
import sys

import laya
from laya.hooks import BaseHook

QUESTIONS = {
    "refund": {"type": "noul", "instructions": "Does the customer want a refund?"},
    "team": {
        "type": "choice",
        "instructions": "Which team should handle this?",
        "criteria": ["billing", "technical support", "sales"],
    },
}

# A threshold for each kind of question; what is not named has no gate.
THRESHOLDS = {"noul:2": 0.75, "choice:3-5": 0.9}


class Reviews(BaseHook):
    """Collect the answers that the gate marked; it has run when the end event fires."""

    def __init__(self):
        self.waiting = []

    def on_predict_end(self, ctx):
        for index, result in enumerate(ctx.results or ()):
            doubtful = [name for name, answer in result["answers"].items() if answer.get("low_confidence")]
            if doubtful:
                self.waiting.append((ctx.run_id, index, doubtful))


def main(model: str) -> None:
    reviews = Reviews()
    agent = laya.load(model, hooks=reviews)
    states = ["Please send my money back.", "The app crashes on start.", "Hello"]
    for state, result in zip(states, agent.predict_batch(states, QUESTIONS, min_confidence=THRESHOLDS), strict=True):
        marks = {
            name: (answer["answer_confidence"], answer["abstention"]) for name, answer in result["answers"].items()
        }
        print(state, marks)
    for run_id, index, doubtful in reviews.waiting:
        print(f"to a person: state {index} of run {run_id[:8]}, {', '.join(doubtful)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LAYA_MODEL", "laya-mini"))
