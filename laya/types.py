"""Types of what goes into a decision and what comes out of it.

They describe plain dicts: nothing has to be wrapped in them, and nothing is checked against them at run time.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

State: TypeAlias = str | dict[str, Any] | list[Any]
"""What is decided about: text, a JSON object, or a conversation (oldest turn first)."""


class QuestionDict(TypedDict, total=False):
    """One question as a plain dict."""

    type: Required[Literal["choice", "score", "noul"]]
    instructions: Required[Any]
    """What to decide: text, or any JSON value."""
    criteria: dict[Any, Any] | list[Any]
    """choice: labels, or labels and what they mean; score: levels, lowest first; noul: true and false."""
    labels: dict[str, str]
    """noul only: other words for true and false."""
    option_order: list[int]
    """The order in which the model sees the options."""


Questions: TypeAlias = dict[str, Any] | type[Any]
"""A question set: question dicts or models by id, a JSON schema of an object, or a pydantic model class."""


class Action(TypedDict):
    """What the action head says."""

    act_probability: float


class AnswerWindow(TypedDict):
    """Where in a long state an answer was found, in tokens of the state."""

    index: int
    token_start: int
    token_end: int
    count: int


class _AnswerBase(TypedDict):
    """What every answer reports. Numbers are rounded to 4 places."""

    confidence: float
    """How peaked the probabilities are, 0 to 1; not the probability of being right."""
    answer_confidence: float
    """The highest of the probabilities."""
    action: Action
    low_confidence: NotRequired[Literal[True]]
    """There only where the answer is below its `min_confidence`."""
    abstention: NotRequired[Literal["passed", "abstained", "unevaluated"]]
    """There only where the call had a `min_confidence`."""
    abstention_threshold: NotRequired[float | None]
    window: NotRequired[AnswerWindow]
    """There only where a long state was read in windows."""


class ChoiceAnswer(_AnswerBase):
    """The answer to a choice question."""

    type: Literal["choice"]
    choice: Any
    """The caller's own label."""
    probabilities: dict[Any, float]


class ScoreAnswer(_AnswerBase):
    """The answer to a score question."""

    type: Literal["score"]
    score: float
    """The expected level, 0 to k - 1; seldom a whole number."""
    legend: dict[str, Any]
    """What each level means, by its number as text."""
    probabilities: dict[str, float]


class NoulAnswer(_AnswerBase):
    """The answer to a noul question."""

    type: Literal["noul"]
    noul: float
    """The probability that the statement holds."""


Answer: TypeAlias = ChoiceAnswer | ScoreAnswer | NoulAnswer


class OptionUsage(TypedDict):
    """A question of which several options were cut to the same tokens."""

    total: int
    distinct: int
    tokens_per_option: Any


class Usage(TypedDict):
    """What a result cost, and what of the input was not read."""

    input_tokens: int
    """Tokens of all rows, a row being a state with one question; padding not counted."""
    output_tokens: int
    """Always 0: nothing is generated."""
    state_tokens: NotRequired[int]
    state_tokens_dropped: NotRequired[int]
    """Tokens of the state that did not fit, for the question with the least room."""
    truncated: NotRequired[Any]
    truncated_questions: NotRequired[Any]
    options: NotRequired[dict[str, OptionUsage]]
    windows: NotRequired[int]
    """Windows that were read; only of `predict_long`."""


class Detection(TypedDict):
    """What a Router saw in a state before it chose a checkpoint."""

    script: str
    script_profile: Any
    language: str | None
    is_english: bool | None
    language_undecided: bool
    diacritic_rate: float
    non_latin_fraction: float
    mixed_segment: Any


class Decision(TypedDict):
    """Which checkpoint a Router chose, and why."""

    model: str
    repo: Any
    reason: str
    detection: Detection | None
    """None where something before detection decided."""
    workflow: str | None
    """The workflow whose question ids these are, also where it did not decide."""


class Result(TypedDict):
    """The answers about one state."""

    model: str
    answers: dict[str, Answer]
    usage: Usage
    run_id: NotRequired[str]
    """The call's id; only of an inferred result."""
    routing: NotRequired[Decision]
    """Only of a Router."""
