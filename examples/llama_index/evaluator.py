"""laya judges answers and what was retrieved for them.

python examples/llama_index/evaluator.py [CHECKPOINT]
"""

import sys

import laya
from laya_integrations.llama_index import LayaEvaluator

TONE = {
    "tone": {
        "type": "choice",
        "instructions": "What is the tone of the response?",
        "criteria": {"friendly": "warm, patient", "neutral": "plain facts", "rude": "impatient, blaming"},
    }
}


def main(model: str) -> None:
    agent = laya.load(model)
    query = "When are invoices due?"
    response = "Invoices are due in 30 days."
    contexts = ["Our office is closed on Sundays.", "Invoices are due in 30 days."]

    faithful = LayaEvaluator.faithfulness(agent).evaluate(query, response, contexts)
    print("faithful:", faithful.passing, faithful.score, faithful.feedback)
    relevant = LayaEvaluator.relevancy(agent).evaluate(query, response, contexts)
    print("relevant:", relevant.passing, relevant.score, relevant.feedback)

    # Questions of your own: one decides, by the labels that pass. Many responses are one laya call.
    polite = LayaEvaluator(runner=agent, questions=TONE, passing_labels=["friendly", "neutral"], threshold=0.6)
    for result in polite.evaluate_many(responses=["With pleasure!", "Read the manual."]):
        print("polite:", result.passing, result.answers["tone"], result.run_id)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
