"""Give nodes typed metadata while they are ingested: one field for each question.

pipeline = IngestionPipeline(transformations=[SentenceSplitter(), LayaMetadataExtractor(model=..., questions=...)])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol, Self, runtime_checkable

from llama_index.core.extractors import BaseExtractor
from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from pydantic import AfterValidator, Field, model_validator

from laya.hooks import run_coroutine_sync
from laya_integrations._decisions import Decision, answer_value
from laya_integrations._questions import lower_questions
from laya_integrations.llama_index._arguments import listed_of
from laya_integrations.llama_index._asking import Asking
from laya_integrations.llama_index._component import ComponentFields


@runtime_checkable
class _NamedRunner(Protocol):
    """A runner that names its checkpoint, as an agent does."""

    @property
    def model_id(self) -> Any: ...


class LayaMetadataExtractor(ComponentFields, BaseExtractor):
    """Answer questions about each node, and write the answers into its metadata.

    A choice becomes its label, a noul true or false, a score its most probable level, counted from 0. An answer
    below the option `min_confidence` writes nothing, and neither does a node without text. All nodes of a call
    share one laya call.

    An ingestion cache keys on what `to_dict` shows. A Router has no name to show there; where the answers of
    two Routers must not mix, give each its own `cache_key`. A pipeline with `num_workers` sends the extractor
    to other processes, so make it with `model=`; there each process loads the checkpoint once.
    """

    questions: Annotated[Any, AfterValidator(lower_questions)]
    """What to ask: question dicts or question objects; a question's id is the metadata's key."""
    prefix: str = ""
    """Put before each key."""
    with_confidence: bool = False
    """Whether `<key>_confidence` is written too: the answer's probability, from 0 to 1."""
    cache_key: str = ""
    """Tells checkpoints apart in an ingestion cache; where it is empty, `to_dict` shows an agent's own name instead."""
    is_text_node_only: bool = False
    """Whether only `TextNode`s are read; a `Document` is none."""
    show_progress: bool = False
    """For other extractors; there is one laya call to wait for."""
    metadata_mode: MetadataMode = MetadataMode.NONE
    """Which metadata laya reads with the text; by default none, so that extractors don't read each other."""
    disable_template_rewrite: bool = Field(default=True)
    """Whether the nodes' text template stays as it is."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.questions:
            raise ValueError("questions must hold at least one question")
        taken = [question for question in self.questions if f"{question}_confidence" in self.questions]
        if self.with_confidence and taken:
            raise ValueError(
                f"with_confidence writes {taken[0]}_confidence, which is a question too; rename one of them"
            )
        return self

    @classmethod
    def class_name(cls) -> str:
        """The class's name."""
        return "LayaMetadataExtractor"

    def extract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """The metadata of each node, in order; the nodes stay as they are.

        Raises TypeError for what is no list of nodes, and ValueError where a result lacks an answer.
        """
        listed = listed_of(BaseNode, nodes, "nodes", "a node")
        asked = self._asked(listed)
        decisions = self._asking().many([text for _, text in asked])
        return self._metadata(len(listed), [index for index, _ in asked], decisions)

    async def aextract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """`extract`, off the event loop."""
        listed = listed_of(BaseNode, nodes, "nodes", "a node")
        asked = self._asked(listed)
        decisions = await self._asking().amany([text for _, text in asked])
        return self._metadata(len(listed), [index for index, _ in asked], decisions)

    def process_nodes(
        self,
        nodes: Sequence[BaseNode],
        excluded_embed_metadata_keys: list[str] | None = None,
        excluded_llm_metadata_keys: list[str] | None = None,
        **kwargs: Any,
    ) -> list[BaseNode]:
        """Write the metadata into the nodes, or into copies of them where `in_place` is off."""
        # LlamaIndex's own reports each RuntimeError as "Detected nested async".
        processed: list[BaseNode] = run_coroutine_sync(
            self.aprocess_nodes(nodes, excluded_embed_metadata_keys, excluded_llm_metadata_keys, **kwargs)
        )
        return processed

    def _runner_mark(self) -> Any:
        """The runner's name, which tells checkpoints apart in a cache, and which a runner given anew replaces."""
        named = not self.cache_key and isinstance(self.runner, _NamedRunner)
        return str(self.runner.model_id) if named else super()._runner_mark()

    def _asking(self) -> Asking:
        return Asking(self._loaded_runner, self.questions, self.options)

    def _asked(self, nodes: Sequence[BaseNode]) -> list[tuple[int, str]]:
        """Each node that has a text, by its index."""
        texts = [
            (index, node.get_content(metadata_mode=self.metadata_mode))
            for index, node in enumerate(nodes)
            if isinstance(node, TextNode) or not self.is_text_node_only
        ]
        return [(index, text) for index, text in texts if text.strip()]

    def _metadata(self, count: int, indexes: Sequence[int], decisions: Sequence[Decision]) -> list[dict[str, Any]]:
        metadata: list[dict[str, Any]] = [{} for _ in range(count)]
        for index, decision in zip(indexes, decisions, strict=True):
            metadata[index] = self._fields(decision)
        return metadata

    def _fields(self, decision: Decision) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for question in self.questions:
            answer = decision.answer(question)
            value = answer_value(answer)
            if value is None:
                continue
            fields[f"{self.prefix}{question}"] = value
            if self.with_confidence:
                fields[f"{self.prefix}{question}_confidence"] = float(answer["answer_confidence"])
        return fields
