"""Requests to a Router: checked before anything is loaded, and grouped by what they can share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from laya._lowering import lower_questions
from laya.errors import OptionError, StateError
from laya.hooks import PredictContext


@dataclass(slots=True)
class Request:
    """One state, what is asked about it, and what the caller says on routing and budgets."""

    state: Any
    questions: Any
    model: str | None = None
    task: str | None = None
    lang: str | None = None
    lang_guess: str | Callable[[Any], str | None] | None = None
    max_len: int | None = None
    head_max_len: int | None = None

    def check(self, where: str = "") -> None:
        """Lower the questions; refuse a None state and questions that are no question set (`TypeError`)."""
        if self.state is None:
            raise StateError(f"{where}state is None; pass a string, a dict or a list")
        try:
            self.questions = lower_questions(self.questions)
        except TypeError as error:
            raise TypeError(f"{where}{error}") from error


_DEEPEST = 50
"""Levels of nesting that question sets are compared at; stand-ins are three times as deep, and are compared too."""
_KEYS = tuple(field.name for field in fields(Request))


def parse_requests(requests: Any, lang: str | None = None) -> list[Request]:
    """Check every request; one without a `lang` takes that of the call.

    Raises `TypeError` or `OptionError` (a `ValueError`) naming the first bad one.
    """
    if not isinstance(requests, list | tuple):
        raise TypeError(
            f"requests must be a list of {{'state', 'questions', ...}} dicts, got {type(requests).__name__}; "
            "pass a single state to predict()"
        )
    parsed = [_parse(index, request) for index, request in enumerate(requests)]
    for request in parsed:
        request.lang = lang if request.lang is None else request.lang
    return parsed


def _parse(index: int, request: Any) -> Request:
    where = f"requests[{index}]: "
    if not isinstance(request, Mapping):
        raise TypeError(f"{where}must be a dict with 'state' and 'questions', got {type(request).__name__}")
    missing = [key for key in ("state", "questions") if key not in request]
    unknown = [key for key in request if key not in _KEYS]
    if missing or unknown:
        problem = f"lacks {missing[0]!r}" if missing else f"has the unknown key {unknown[0]!r}"
        raise OptionError(f"{where}{problem}; a request has {', '.join(_KEYS)}", option="requests")
    parsed = Request(**request)
    parsed.check(where)
    return parsed


def group_contexts(
    contexts: Sequence[PredictContext], languages: Mapping[PredictContext, str | None]
) -> list[list[PredictContext]]:
    """Split contexts into those that may share a pass: same questions in the same order, same budgets and language."""
    known: dict[int, Any] = {}
    groups: dict[Any, list[PredictContext]] = {}
    for ctx in contexts:
        shape = known.get(id(ctx.questions))
        if shape is None:
            shape = known[id(ctx.questions)] = _shape(ctx.questions)
        budgets = _ordered_key((ctx.max_len, ctx.head_max_len))
        groups.setdefault((shape, budgets, languages[ctx]), []).append(ctx)
    return list(groups.values())


def _shape(questions: Any) -> Any:
    """What equal question sets have in common; sets that are nested too deeply are compared by identity."""
    try:
        return _ordered_key(questions)
    except RecursionError:
        return type(questions), id(questions)


def _ordered_key(value: Any, depth: int = _DEEPEST) -> Any:
    """A hashable stand-in that tells apart what `==` does not: key order, and 1, 1.0 and True."""
    if not depth and isinstance(value, Mapping | list | tuple):
        raise RecursionError
    if isinstance(value, Mapping):
        return type(value), tuple(
            (_ordered_key(key, depth - 1), _ordered_key(each, depth - 1)) for key, each in value.items()
        )
    if isinstance(value, list | tuple):
        return type(value), tuple(_ordered_key(item, depth - 1) for item in value)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value
