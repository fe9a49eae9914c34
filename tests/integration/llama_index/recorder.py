"""Record what LlamaIndex's dispatcher tells its handlers, and show it as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span.simple import SimpleSpan
from llama_index_instrumentation.span_handlers import SimpleSpanHandler
from pydantic import PrivateAttr

from laya_integrations.llama_index import LayaPredictEndEvent, LayaPredictStartEvent


class EventRecorder(BaseEventHandler):
    """Keeps every event."""

    _events: list[BaseEvent] = PrivateAttr(default_factory=list)

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Keep it."""
        self._events.append(event)


class Recording:
    """What was told while recording."""

    def __init__(self) -> None:
        self.event_handler = EventRecorder()
        self.span_handler = SimpleSpanHandler()

    @property
    def events(self) -> list[Any]:
        """All events, in order."""
        return list(self.event_handler._events)

    @property
    def starts(self) -> list[LayaPredictStartEvent]:
        """The start events of laya's calls."""
        return [event for event in self.events if isinstance(event, LayaPredictStartEvent)]

    @property
    def ends(self) -> list[LayaPredictEndEvent]:
        """The end events of laya's calls."""
        return [event for event in self.events if isinstance(event, LayaPredictEndEvent)]

    @property
    def open_spans(self) -> dict[str, SimpleSpan]:
        """The spans that nobody has closed."""
        return self.span_handler.open_spans

    @property
    def spans(self) -> list[SimpleSpan]:
        """All spans that were closed, in any way."""
        return [*self.span_handler.completed_spans, *self.span_handler.dropped_spans]

    @property
    def laya_spans(self) -> list[SimpleSpan]:
        """The spans of laya's calls."""
        return [span for span in self.spans if span.id_.startswith("Laya") and ".predict-" in span.id_]

    def path(self, span: SimpleSpan) -> list[str]:
        """The names from the root down to a span; `?` stands for a parent that nobody knows."""
        known = {other.id_: other for other in self.spans}
        names = [name_of(span)]
        while span.parent_id is not None:
            if span.parent_id not in known:
                return ["?", *names]
            span = known[span.parent_id]
            names.insert(0, name_of(span))
        return names


def name_of(span: SimpleSpan) -> str:
    """A span's class and method, without the function that they were defined in."""
    return span.id_.partition("-")[0].rpartition("<locals>.")[2]


@contextmanager
def recording() -> Iterator[Recording]:
    """Listen to the root dispatcher; what others attach meanwhile stays."""
    found = Recording()
    root = get_dispatcher()
    root.add_event_handler(found.event_handler)
    root.add_span_handler(found.span_handler)
    try:
        yield found
    finally:
        root.event_handlers = [handler for handler in root.event_handlers if handler is not found.event_handler]
        root.span_handlers = [handler for handler in root.span_handlers if handler is not found.span_handler]
