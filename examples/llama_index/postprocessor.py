"""laya reranks or filters what a retriever found.

python examples/llama_index/postprocessor.py [CHECKPOINT]
"""

import sys

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM

import laya
from laya_integrations.llama_index import LayaNodePostprocessor

TEXTS = ["Invoices are sent on the first of a month.", "After a crash, restart the app.", "A parcel takes three days."]

GRADE = {
    "grade": {
        "type": "score",
        "instructions": "How well does the passage answer the query?",
        "criteria": ["not at all", "partly", "fully"],
    }
}


def main(model: str) -> None:
    runner = laya.load(model)
    # In your code: an embedding model and an LLM.
    embed_model, llm = MockEmbedding(embed_dim=8), MockLLM()
    index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=embed_model)

    # The two best passages, with the retriever's score beside laya's.
    rerank = LayaNodePostprocessor(runner=runner, top_n=2, keep_retrieval_score=True)
    engine = index.as_query_engine(similarity_top_k=3, node_postprocessors=[rerank], llm=llm, embed_model=embed_model)
    for node in engine.query("When are invoices sent?").source_nodes:
        print(node.score, node.node.metadata["retrieval_score"], node.text)

    # Only passages that answer, by a question of one's own; where laya can't be asked, all pass.
    keep = LayaNodePostprocessor(runner=runner, mode="filter", questions=GRADE, threshold=0.3, on_failure="open")
    nodes = index.as_retriever(similarity_top_k=3, embed_model=embed_model).retrieve("When are invoices sent?")
    print(len(keep.postprocess_nodes(nodes, query_str="When are invoices sent?")), "of", len(nodes), "pass")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "laya-mini")
