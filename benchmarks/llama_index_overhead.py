"""Time the LlamaIndex adapters against asking laya by hand, on a given or a random checkpoint.

python benchmarks/llama_index_overhead.py [--model CHECKPOINT | --size tiny] [--rounds 3]

Prints a table: selecting among 10 engines for 64 queries, and postprocessing 100 nodes.
The first ratio is to be at least 4, the second above 1, the last at least 0.87 (1 / 1.15).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.core.tools import ToolMetadata
from random_checkpoint import SIZES, write_checkpoint
from workloads import mixed_states

import laya
from laya_integrations.llama_index import LayaNodePostprocessor, LayaSingleSelector

QUERY = "how do i get my money back for the duplicate charge"
ENGINES = [
    ToolMetadata(name=name, description=f"useful for questions about {topics}")
    for name, topics in {
        "billing": "invoices and refunds",
        "technical": "bugs and outages",
        "shipping": "parcels and customs",
        "sales": "plans and prices",
        "account": "passwords and logins",
        "legal": "contracts and privacy",
        "jobs": "open positions",
        "press": "news and interviews",
        "events": "talks and meetings",
        "partners": "resellers and vendors",
    }.items()
]


def main() -> None:
    """Run both cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="directory, Hub id or name of a checkpoint, in place of a random one")
    parser.add_argument("--size", choices=SIZES, default="mini")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds, after one that warms up")
    parser.add_argument("--checkpoints", type=Path, default=Path(tempfile.gettempdir()) / "laya-benchmarks")
    given = parser.parse_args()
    model = given.model or str(write_checkpoint(SIZES[given.size], given.checkpoints / given.size))
    agent = laya.load(model, device="cpu")
    print(f"{given.model or SIZES[given.size]}\n")
    print("| case | seconds, median | compared with | its seconds / ours, median |")
    print("|---|---|---|---|")
    for case, timed in {**_selecting(agent), **_postprocessing(agent)}.items():
        _report(case, *timed, rounds=given.rounds)


Call = Callable[[], Any]


def _selecting(agent: Any) -> dict[str, tuple[Call, str, Call]]:
    queries = mixed_states(64, 4, 40)
    selector = LayaSingleSelector(runner=agent)

    def one_after_the_other() -> None:
        for query in queries:
            selector.select(ENGINES, query)

    def one_predict_per_query_and_choice() -> None:
        for query in queries:
            for engine in ENGINES:
                fits = f"Does this option fit the query? {engine.name}: {engine.description}"
                agent.predict(query, {"fits": {"type": "noul", "instructions": fits}})

    return {
        "select, 10 engines, 64 queries": (
            one_after_the_other,
            "one predict per query and choice",
            one_predict_per_query_and_choice,
        ),
        "select_many, the same": (
            lambda: selector.select_many(ENGINES, queries),
            "select, one after the other",
            one_after_the_other,
        ),
    }


def _postprocessing(agent: Any) -> dict[str, tuple[Call, str, Call]]:
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in mixed_states(100)]
    postprocessor = LayaNodePostprocessor(runner=agent, top_n=10)
    states = [{"query": QUERY, "passage": node.node.get_content(MetadataMode.EMBED)} for node in nodes]
    return {
        "rerank 100 nodes": (
            lambda: postprocessor.postprocess_nodes(nodes, query_str=QUERY),
            "predict_batch of the same",
            lambda: agent.predict_batch(states, postprocessor.questions),
        )
    }


def _report(case: str, ours: Call, name: str, other: Call, *, rounds: int) -> None:
    """Alternate the two, so that a busy machine slows both."""
    pairs = [(_seconds(ours), _seconds(other)) for _ in range(rounds + 1)][1:]
    own = statistics.median(seconds for seconds, _ in pairs)
    ratio = statistics.median(theirs / seconds for seconds, theirs in pairs)
    print(f"| {case} | {own:.3f} | {name} | {ratio:.2f} |", flush=True)


def _seconds(call: Call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
