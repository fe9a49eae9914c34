"""Which checkpoint a state goes to: what the caller says first, what the text says last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import regex

from laya._routing.detection import Finding, detect
from laya.errors import OptionError, StateError
from laya.types import Detection

LangGuess: TypeAlias = "str | Callable[[Any], str | None] | None"
"""A language code, or a function of the state that returns one; None says nothing."""

ENGLISH, MULTILINGUAL, TYPED_DECISIONS = "english", "multilingual", "typed-decisions"

WORKFLOWS: Mapping[frozenset[str], str] = MappingProxyType(
    {
        frozenset(ids.split()): workflow
        for workflow, ids in {
            "agent_trace_observability": "action needs_review outcome risk urgency",
            "customer_service": "action category churn_risk needs_human urgency",
            "invoice_processing": "discrepancy_severity disposition duplicate matches_order urgency",
            "security_incidents": "credential_compromise disposition severity true_positive urgency",
        }.items()
    }
)
"""Question ids -> the workflow that has exactly these."""

_ENGLISH_CODES = frozenset({"en", "eng", "english"})
_SILENT_CODES = frozenset({"", "c", "posix", "und", "zxx", "mul"})
_SUBTAG_END = regex.compile(r"[-_.@:\s]")
_SHOWN = 40


class SourceLike(Protocol):
    """Where a checkpoint is."""

    @property
    def repo_or_path(self) -> str:
        """The repository id or directory."""
        ...

    @property
    def subfolder(self) -> str | None:
        """The folder in it, if any."""
        ...


class CatalogLike(Protocol):
    """The checkpoints that there are."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, without aliases."""
        ...

    def resolve_name(self, name: str) -> str:
        """Return the name that a name or alias means; raise ValueError for any other."""
        ...

    def source(self, name: str) -> SourceLike:
        """Return where a checkpoint is."""
        ...


class RouteDecision(dict[str, Any]):
    """Which checkpoint, and why: `model, repo, reason, detection, workflow`, always all five."""

    @property
    def model(self) -> str:
        """The checkpoint's name."""
        return str(self["model"])

    @property
    def reason(self) -> str:
        """Why, as a sentence; it never holds the state's text."""
        return str(self["reason"])


def route(  # noqa: PLR0913 - options of the call and of the Router, all by name
    state: object,
    questions: object = None,
    *,
    catalog: CatalogLike,
    model: str | None = None,
    task: str | None = None,
    lang: str | None = None,
    lang_guess: LangGuess = None,
    default_guess: LangGuess = None,
    default: str = ENGLISH,
    auto_task_detection: bool = False,
) -> RouteDecision:
    """Choose by model, task, workflow, lang, lang_guess, then by the text; `default` where that is silent.

    A state of None is a StateError. An unknown `model` or `task`, and a language that is no string, are
    OptionErrors, also where something before them decides. What a `lang_guess` raises goes through.
    """
    if state is None:
        raise StateError("state is None; give a string, a dict or a list of turns")
    named = {
        option: _resolve(catalog, option, name)
        for option, name in (("model", model), ("task", task), ("default", default))
        if name is not None
    }
    for option, guess in (("lang_guess", lang_guess), ("Router(lang_guess)", default_guess)):
        if not callable(guess):
            _parse_language(option, guess)
    said = _parse_language("lang", lang)
    workflow = find_workflow(questions)
    detection: Detection | None = None
    if "model" in named:
        chosen, reason = named["model"], f"The call asked for the model {named['model']!r}."
    elif "task" in named:
        chosen, reason = named["task"], f"The call asked for the task {named['task']!r}."
    elif workflow is not None and auto_task_detection:
        chosen = _resolve(catalog, "auto_task_detection", TYPED_DECISIONS)
        reason = f"The question ids are those of the workflow {workflow!r}."
    elif said is not None:
        chosen, reason = _by_language(catalog, said), f"The call gave the language {_show(lang)}."
    elif (asked := _ask(state, lang_guess, default_guess)) is not None:
        chosen, reason = _by_language(catalog, asked.is_english), asked.reason
    else:
        finding = detect(state)
        detection = finding.detection
        chosen, reason = _by_finding(catalog, finding, named["default"])
    source = catalog.source(chosen)
    repo = "/".join(filter(None, (source.repo_or_path, source.subfolder)))
    return RouteDecision(model=chosen, repo=repo, reason=reason, detection=detection, workflow=workflow)


def find_workflow(questions: object) -> str | None:
    """Name the workflow that has exactly these question ids."""
    if not isinstance(questions, Mapping):
        return None
    ids: Iterable[object] = questions.keys()
    return WORKFLOWS.get(frozenset(ids))  # type: ignore[arg-type]  # ids of other types match nothing


def _resolve(catalog: CatalogLike, option: str, name: object) -> str:
    try:
        return catalog.resolve_name(name)  # type: ignore[arg-type]  # it refuses what isn't a string
    except (ValueError, TypeError, AttributeError):
        choices = ", ".join(catalog.names)
        message = f"{option}={_show(name)} is no checkpoint; choose one of {choices} or an alias of theirs"
        raise OptionError(message, option=option) from None


def _parse_language(option: str, code: object) -> bool | None:
    """Return whether a code means English; None where it says nothing."""
    if code is None:
        return None
    if not isinstance(code, str):
        message = f"{option} must be a language code such as 'en' or 'de', not {type(code).__name__}"
        raise OptionError(message, option=option)
    subtag = _SUBTAG_END.split(code.strip().casefold(), maxsplit=1)[0]
    return None if subtag in _SILENT_CODES else subtag in _ENGLISH_CODES


class _Guess(NamedTuple):
    is_english: bool
    reason: str


def _ask(state: object, call_guess: LangGuess, default_guess: LangGuess) -> _Guess | None:
    """Ask the call's guess, then the Router's; the first that says something counts."""
    for whose, guess in (("call", call_guess), ("Router", default_guess)):
        code = guess(state) if callable(guess) else guess
        is_english = _parse_language("what lang_guess returned", code)
        if is_english is not None:
            return _Guess(is_english, f"The {whose}'s lang_guess says {_show(code)}.")
    return None


def _by_language(catalog: CatalogLike, is_english: bool) -> str:
    return catalog.resolve_name(ENGLISH if is_english else MULTILINGUAL)


def _by_finding(catalog: CatalogLike, finding: Finding, default: str) -> tuple[str, str]:
    found = finding.detection
    if found["is_english"] is None:
        what = "no letters" if found["script"] == "unknown" else "too little to tell the language"
        return default, f"The state holds {what}, so the default {default!r} takes it."
    if found["is_english"]:
        return _by_language(catalog, True), "The state is English."
    what = f"language {found['language']!r}" if found["language"] else f"{found['script']} script"
    if finding.place is not None:
        reason = f"One part of the state ({finding.place}) is in another language: {what}."
    elif found["language"]:
        reason = f"The state is in Latin script, and its {what} isn't English."
    else:
        reason = f"The state is in {what}, {found['non_latin_fraction']:.0%} of its letters."
    return _by_language(catalog, False), reason


def _show(value: object) -> str:
    """Show a short string; of anything else the type."""
    return repr(value[:_SHOWN]) if isinstance(value, str) else type(value).__name__
