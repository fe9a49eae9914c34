"""laya refuses or rewrites queries before a query engine sees them.

python examples/llama_index/guard.py [CHECKPOINT]
"""

import sys

from llama_index.core.query_engine import CustomQueryEngine

import laya
from laya_integrations.llama_index import LayaQueryGuard

QUESTIONS = {
    "kind": {
        "type": "choice",
        "instructions": "What does the text ask for?",
        "criteria": {
            "product": "how our product works",
            "advice": "legal or medical advice",
            "other": "anything else",
        },
    },
    "angry": {"type": "noul", "instructions": "Is the text angry?"},
}


class Echo(CustomQueryEngine):
    """Stands for your own engine, `index.as_query_engine()`."""

    def custom_query(self, query_str: str) -> str:
        return f"(an answer to {query_str!r})"


def main(model: str) -> None:
    agent = laya.load(model)
    engine = Echo()

    # Without questions of your own it asks for attacks on the assistant.
    guarded = LayaQueryGuard(runner=agent, query_engine=engine)
    response = guarded.query("How do I restart it?")
    print("blocked by:", (response.metadata or {}).get("laya", {}).get("blocked_by"))

    guarded = LayaQueryGuard(
        runner=agent,
        query_engine=engine,
        questions=QUESTIONS,
        block_if={"kind": ["advice", "other"]},
        rewrite_if={"angry": 0.1},
        rewrite=lambda query, answers: query.query_str.rstrip("!") + ", please?",
        refusal="I can help with our product only.",
    )
    for query in ("How do I restart it!!!", "May I sue my neighbour?"):
        print(query, "->", guarded.query(query))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
