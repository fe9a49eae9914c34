"""laya selects the query engine, or the retriever, that fits a query.

python examples/llama_index/selector.py [CHECKPOINT]
"""

import sys

from llama_index.core import Document, SummaryIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.retrievers import RouterRetriever
from llama_index.core.tools import QueryEngineTool, RetrieverTool

import laya
from laya_integrations.llama_index import LayaSingleSelector, NoChoiceFits

TOPICS = {
    "billing": ("invoices, refunds", "Invoices are sent on the first of a month."),
    "technical": ("bugs, outages", "After a crash, restart the app."),
    "shipping": ("parcels", "A parcel takes three days."),
}


def main(model: str) -> None:
    runner = laya.load(model)
    indexes = {name: SummaryIndex.from_documents([Document(text=text)]) for name, (_, text) in TOPICS.items()}

    # LlamaIndex's router asks for an LLM of its own to join answers; yours stands in place of the mock.
    llm = MockLLM()
    engines = [
        QueryEngineTool.from_defaults(index.as_query_engine(llm=llm), name=name, description=TOPICS[name][0])
        for name, index in indexes.items()
    ]
    selector = LayaSingleSelector.from_defaults(runner=runner)
    engine = RouterQueryEngine(selector=selector, query_engine_tools=engines, llm=llm)
    response = engine.query("My invoice is wrong.")
    [selection] = response.metadata["selector_result"].selections
    print(selection.index, selection.confidence, selection.reason, selection.run_id)

    # The same for retrievers.
    retrievers = [
        RetrieverTool.from_defaults(index.as_retriever(), name=name, description=TOPICS[name][0])
        for name, index in indexes.items()
    ]
    retriever = RouterRetriever(selector=selector, retriever_tools=retrievers, llm=llm)
    print(retriever.retrieve("Where is my parcel?")[0].text)

    # Who isn't sure takes the default, or says so.
    choices = [tool.metadata for tool in engines]
    careful = LayaSingleSelector.from_defaults(runner=runner, threshold=0.99, none_choice=True)
    try:
        careful.select(choices, "Hello!")
    except NoChoiceFits as error:
        print(error)
    print(careful.model_copy(update={"default_index": 0}).select(choices, "Hello!").reason)

    # Many queries share their forward passes.
    for result in selector.select_many(choices, ["The app crashes.", "I want my money back.", "Three boxes, please"]):
        print(result.ind, result.probabilities)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
