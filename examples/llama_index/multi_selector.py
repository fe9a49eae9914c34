"""laya selects every query engine that fits a query, and their answers are joined.

python examples/llama_index/multi_selector.py [CHECKPOINT]
"""

import sys

from llama_index.core import Document, SummaryIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.tools import QueryEngineTool

import laya
from laya_integrations.llama_index import LayaMultiSelector

TOPICS = {
    "billing": ("invoices, refunds", "Invoices are sent on the first of a month."),
    "technical": ("bugs, outages", "After a crash, restart the app."),
    "shipping": ("parcels", "A parcel takes three days."),
}


def main(model: str) -> None:
    llm = MockLLM()  # In your code: the LLM that joins the answers.
    engines = [
        QueryEngineTool.from_defaults(
            SummaryIndex.from_documents([Document(text=text)]).as_query_engine(llm=llm),
            name=name,
            description=description,
        )
        for name, (description, text) in TOPICS.items()
    ]

    # Every choice of at least this probability, at most two; the first engine where none is.
    selector = LayaMultiSelector.from_defaults(runner=laya.load(model), threshold=0.2, max_outputs=2, default_index=0)
    engine = RouterQueryEngine(selector=selector, query_engine_tools=engines, llm=llm)
    response = engine.query("The app crashed while I paid, and nothing was shipped.")
    for selection in response.metadata["selector_result"].selections:
        print(selection.index, selection.confidence, selection.reason)
    print(len(response.source_nodes), "sources")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
