"""laya labels nodes while they are ingested, and a retriever filters by the labels.

python examples/llama_index/extractor.py [CHECKPOINT]
"""

import sys

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from laya_integrations.llama_index import LayaMetadataExtractor

QUESTIONS = {
    "topic": {
        "type": "choice",
        "instructions": "What is this text about?",
        "criteria": {"billing": "invoices, refunds", "technical": "bugs, outages"},
    },
    "internal": {"type": "noul", "instructions": "Is this text for colleagues only?"},
}

TEXTS = ("Invoices are due in 30 days.", "After a crash, restart the app.", "Don't tell customers of this outage.")


def main(model: str) -> None:
    # With model= the pipeline can also run in several processes: pipeline.run(..., num_workers=4).
    extractor = LayaMetadataExtractor(model=model, questions=QUESTIONS, with_confidence=True)
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(), extractor])
    nodes = pipeline.run(documents=[Document(text=text) for text in TEXTS])
    for node in nodes:
        print(node.metadata, node.text)

    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(8))
    filters = MetadataFilters(filters=[MetadataFilter(key="topic", value=nodes[0].metadata["topic"])])
    found = index.as_retriever(filters=filters, similarity_top_k=3).retrieve("How do I pay?")
    print(len(found), "of", len(nodes), "nodes have the topic", nodes[0].metadata["topic"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
