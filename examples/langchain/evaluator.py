"""laya as the judge of a LangSmith experiment.

python examples/langchain/evaluator.py [CHECKPOINT]

With a LangSmith account the client does the rest, and the feedback is in the experiment:

    Client().evaluate(answer, data="my dataset", evaluators=[judge], summary_evaluators=[judge.summary])

Here the judge is called the same way, and nothing leaves this machine.
"""

import sys
from datetime import UTC, datetime
from uuid import uuid4

from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith.schemas import Example, Run

import laya
from laya_integrations.langchain import CallOptions, laya_evaluator
from laya_integrations.presets import faithfulness

ROWS = [
    {"question": "When do you open?", "context": "The shop opens at nine and closes at six."},
    {"question": "Do you ship abroad?", "context": "We ship to every country of the EU."},
]

DEMEANOUR = {
    "politeness": {
        "type": "score",
        "instructions": "How polite is the answer?",
        "criteria": ["rude", "neutral", "friendly"],
    },
}


def answer(inputs: dict) -> dict:
    """The application under test: it should answer the question from the context."""
    return {"answer": f"Gladly: {inputs['context']}"}


def run_of(inputs: dict) -> Run:
    now, run_id = datetime.now(UTC), uuid4()
    names = {"id": run_id, "trace_id": run_id, "name": "answer", "run_type": "chain", "start_time": now}
    return Run(inputs=inputs, outputs=answer(inputs), **names)


def main(model: str) -> None:
    agent = laya.load(model)
    # Yes or no, and a rubric: the state has a row's inputs and the answer side by side.
    judge = laya_evaluator({**faithfulness(), **DEMEANOUR}, runner=agent, options=CallOptions(min_confidence=0.4))

    # What LangSmith's client hands over: the runs of the application, and the examples that they are about.
    examples = [Example(id=uuid4(), inputs=inputs) for inputs in ROWS]
    runs = [run_of(example.inputs) for example in examples]

    # One row, as `evaluators=[judge]` asks.
    for result in judge.evaluate_run(runs[0], examples[0])["results"]:
        print(result.key, result.score, result.value, result.comment)

    # All rows in shared passes: the feedback of each, or their mean, as `summary_evaluators=[judge.summary]` asks.
    for row in judge.evaluate_runs(runs, examples):
        print({result.key: result.score for result in row["results"]})
    for result in judge.summary(runs, examples)["results"]:
        print(result.key, result.score, result.value, result.comment)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
