"""laya as a switch: it runs the branch that fits, or points a graph to its next node.

python examples/langchain/router.py [CHECKPOINT]
"""

import sys
from typing import TypedDict

from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import END, START, StateGraph

import laya
from laya_integrations.langchain import LayaRouter

QUESTION = {
    "instructions": "Which team should handle this message?",
    "criteria": {"billing": "invoices, payments, refunds", "technical": "bugs, crashes, outages"},
}


class Inbox(TypedDict):
    text: str
    answer: str


def main(model: str) -> None:
    runner = laya.load(model)

    # The chosen branch gets the input; whoever isn't sure enough goes to a person.
    router = LayaRouter(
        runner=runner,
        **QUESTION,
        routes={
            "billing": lambda text: f"billing reads: {text}",
            "technical": lambda text: f"technical reads: {text}",
            "person": lambda text: f"a person reads: {text}",
        },
        threshold={"billing": 0.7},
        margin=0.1,
        fallback="person",
    )
    print(router.invoke("My invoice is wrong."))
    for answer in router.batch(["The app crashes.", "I want my money back."]):
        print(answer)

    # The same, with what it was decided on.
    outcome = router.model_copy(update={"include_decision": True}).invoke("My invoice is wrong.")
    print(outcome.label, outcome.confidence, outcome.probabilities, outcome.output)

    # Without routes the label comes out: a conditional edge.
    graph = StateGraph(Inbox)
    graph.add_node("billing", lambda inbox: {"answer": "billing will answer"})
    graph.add_node("technical", lambda inbox: {"answer": "technical will answer"})
    graph.add_conditional_edges(START, LayaRouter(runner=runner, **QUESTION), ["billing", "technical"])
    graph.add_edge("billing", END)
    graph.add_edge("technical", END)
    print(graph.compile().invoke({"text": "My invoice is wrong."})["answer"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
    # Traces are sent in the background; without this the last ones are lost when the script ends.
    wait_for_all_tracers()
