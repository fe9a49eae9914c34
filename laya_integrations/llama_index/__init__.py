"""laya in LlamaIndex: selectors, tools, postprocessors and more, which decide without generating text.

    from laya_integrations.llama_index import LayaNodePostprocessor, LayaSingleSelector, LayaTool

Every public name is imported from here; the modules behind it may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laya_integrations._extras import lazy_names

if TYPE_CHECKING:
    from laya_integrations._options import CallOptions
    from laya_integrations.llama_index._events import LayaPredictEndEvent, LayaPredictStartEvent
    from laya_integrations.llama_index.evaluator import LayaEvaluationResult, LayaEvaluator
    from laya_integrations.llama_index.extractor import LayaMetadataExtractor
    from laya_integrations.llama_index.guard import LayaQueryGuard, QueryBlocked
    from laya_integrations.llama_index.hook import LlamaIndexHook
    from laya_integrations.llama_index.postprocessor import LayaNodePostprocessor
    from laya_integrations.llama_index.selections import LayaSelection, LayaSelectorResult, NoChoiceFits
    from laya_integrations.llama_index.selectors import LayaMultiSelector, LayaSingleSelector
    from laya_integrations.llama_index.tools import LayaTool, LayaToolSpec

__all__ = [
    "CallOptions",
    "LayaEvaluationResult",
    "LayaEvaluator",
    "LayaMetadataExtractor",
    "LayaMultiSelector",
    "LayaNodePostprocessor",
    "LayaPredictEndEvent",
    "LayaPredictStartEvent",
    "LayaQueryGuard",
    "LayaSelection",
    "LayaSelectorResult",
    "LayaSingleSelector",
    "LayaTool",
    "LayaToolSpec",
    "LlamaIndexHook",
    "NoChoiceFits",
    "QueryBlocked",
]

_HOMES = {
    "CallOptions": "_options",
    "LayaEvaluationResult": "llama_index.evaluator",
    "LayaEvaluator": "llama_index.evaluator",
    "LayaMetadataExtractor": "llama_index.extractor",
    "LayaMultiSelector": "llama_index.selectors",
    "LayaNodePostprocessor": "llama_index.postprocessor",
    "LayaPredictEndEvent": "llama_index._events",
    "LayaPredictStartEvent": "llama_index._events",
    "LayaQueryGuard": "llama_index.guard",
    "LayaSelection": "llama_index.selections",
    "LayaSelectorResult": "llama_index.selections",
    "LayaSingleSelector": "llama_index.selectors",
    "LayaTool": "llama_index.tools",
    "LayaToolSpec": "llama_index.tools",
    "LlamaIndexHook": "llama_index.hook",
    "NoChoiceFits": "llama_index.selections",
    "QueryBlocked": "llama_index.guard",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES, extra="llama-index")
