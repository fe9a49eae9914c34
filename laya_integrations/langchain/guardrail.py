"""Let through a chain only what laya finds harmless, on the way in or on the way out.

guardrail = LayaGuardrail(runner=agent)
chain = prompt | guardrail | chat_model | guardrail
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypedDict

from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from laya_integrations._options import CallOptions
from laya_integrations.langchain._fields import DecisionFields
from laya_integrations.langchain._guarded import GuardedCall, Judged, PartClassifier
from laya_integrations.langchain._parts import annotated, replaced
from laya_integrations.langchain._traced import reraise_interruption
from laya_integrations.langchain._violations import DEFAULT_THRESHOLD, ViolationRule
from laya_integrations.langchain.questions import lower_questions
from laya_integrations.langchain.runnables import LayaRunnableInput
from laya_integrations.langchain.verdicts import GuardrailError, GuardrailVerdict

Threshold = Annotated[float, Field(gt=0.0, le=1.0)]


def _or_guard(questions: Any) -> Any:
    if questions is not None:
        return questions
    from laya_integrations.presets import guard

    return guard()


class GuardrailOptions(TypedDict, total=False):
    """Who judges, by which questions, and what counts: the fields of a `LayaGuardrail`."""

    runner: Any
    model: str | None
    options: CallOptions
    questions: Any
    thresholds: float | dict[str, float]
    violating: dict[str, list[str | bool | int]]
    on_failure: Literal["closed", "open"]
    timeout: float | None
    replacement: str


class LayaGuardrail(DecisionFields, RunnableSerializable[Any, Any]):
    """Stop, clean or mark an input that violates a question; everything else passes as it is.

    `LayaGuardrail(runner=..., questions=..., thresholds=...)`. Each message of a conversation is judged by
    itself, tool results too, system messages not; a conversation is a list, a prompt's value, or the `messages`
    of a dict, whose other fields are judged together where they hold text. Any other list is judged item by item,
    and any other dict or object whole. Types stay: a message comes out as the same type of message, a prompt's value
    as a prompt's value.

    What violates: a noul that is true, a score at the middle level or above, a choice's labels that `violating`
    names, from the question's threshold in probability on. laya's own `min_confidence` changes nothing here.
    laya reads text: images, sound, encoded files and the model's thoughts pass unread. Parts share their passes, and
    so do a batch's inputs. A call may set laya's options by name.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    questions: Annotated[Any, BeforeValidator(_or_guard), AfterValidator(lower_questions)] = Field(
        default=None, validate_default=True
    )
    """What to ask; None asks `laya_integrations.presets.guard()`."""
    thresholds: Threshold | dict[str, Threshold] = DEFAULT_THRESHOLD
    """Probability from which an answer violates, above 0: one for all, or by question, where others have 0.5."""
    violating: dict[str, Annotated[list[str | bool | int], Field(strict=True)]] = Field(default_factory=dict)
    """Answers that violate, by question: a choice's labels (each choice needs them), True or False of a noul
    (as `{"faithful": [False]}`), levels of a score from 0."""
    action: Literal["raise", "filter", "annotate"] = "raise"
    """raise: a `GuardrailError`. filter: `replacement` in place of the text; unanswered tool calls are dropped,
    a dict's keys and numbers stay, and what has no text to replace is a TypeError.
    annotate: the verdict goes into each message's `response_metadata`, a document's `metadata` or the dict, under
    `laya_guardrail`, and all passes; text has no place for it and passes as it is (`judge` gives its verdict)."""
    on_failure: Literal["closed", "open"] = "closed"
    """Whether what laya could not judge counts as a violation, or passes with a warning in the log."""
    timeout: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """Seconds for all of laya's answers to one call; later is a failure. Loading the model counts."""
    replacement: str = "[removed]"
    """What `filter` puts in place of a text."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._rule().check()
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; `update` is checked as the fields of a new guardrail are."""
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        given = {name: value for name, value in copied if name in copied.model_fields_set}
        return type(self)(**{**given, **update})

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Guard one input; raises GuardrailError where `action` is raise."""
        return self._call_with_config(self._call(kwargs).one, input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke`, off the event loop."""
        return await self._acall_with_config(self._call(kwargs).aone, input, config)

    def batch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[Any]:
        """Guard each input, in order; with `return_exceptions` an error stands in its input's place."""
        guard = self._call(kwargs).many
        outputs = self._batch_with_config(guard, inputs, config, return_exceptions=return_exceptions)
        reraise_interruption(outputs)
        return outputs

    async def abatch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[Any]:
        """`batch`, off the event loop."""
        guard = self._call(kwargs).amany
        outputs = await self._abatch_with_config(guard, inputs, config, return_exceptions=return_exceptions)
        reraise_interruption(outputs)
        return outputs

    def judge(self, items: list[Any], config: RunnableConfig | None = None, **kwargs: Any) -> list[GuardrailVerdict]:
        """The verdict on each item (text, message, dict), in order and in shared passes; no verdict is an error.

        Raises TypeError for what is no list of items, such as one text.
        """
        _check_items(items)
        verdicts: list[GuardrailVerdict] = self._call_with_config(self._call(kwargs).judge, items, config)
        return verdicts

    async def ajudge(
        self, items: list[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[GuardrailVerdict]:
        """`judge`, off the event loop."""
        _check_items(items)
        verdicts: list[GuardrailVerdict] = await self._acall_with_config(self._call(kwargs).ajudge, items, config)
        return verdicts

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Text, an object or an array; the other inputs have no JSON form."""
        return LayaRunnableInput

    def _rule(self) -> ViolationRule:
        return ViolationRule(self.questions, self.thresholds, self.violating, self.on_failure == "closed")

    def _call(self, overrides: dict[str, Any]) -> GuardedCall:
        options = self.options.replaced(**overrides) if overrides else self.options
        return GuardedCall(PartClassifier.of(self, options, self.timeout), self._rule(), self._output)

    def _output(self, judged: Judged) -> Any:
        parts = judged.parts
        if self.action == "annotate":
            notes = [verdict.model_dump() for verdict in judged.verdicts]
            return parts.with_items([annotated(*item) for item in zip(parts.items, notes, strict=True)])
        if not any(verdict.flagged for verdict in judged.verdicts):
            return parts.input
        if self.action == "raise":
            return _error(judged)
        answered = parts.answered_calls()
        try:
            return parts.with_items(
                [
                    replaced(item, self.replacement, answered) if verdict.flagged else item
                    for item, verdict in zip(parts.items, judged.verdicts, strict=True)
                ]
            )
        except TypeError as error:
            # Flagged for want of an answer, perhaps: then what kept laya from it is the cause.
            error.__cause__ = judged.errors[0] if judged.errors else None
            return error


def _check_items(items: Any) -> None:
    if not isinstance(items, list | tuple):
        raise TypeError(f"judge takes a list of items, got {type(items).__name__}; put a single item into a list")


def _error(judged: Judged) -> GuardrailError:
    flagged = [
        (position, verdict)
        for position, verdict in zip(judged.parts.positions, judged.verdicts, strict=True)
        if verdict.flagged
    ]
    violations = [
        violation.model_copy(update={"position": position})
        for position, verdict in flagged
        for violation in verdict.violations
    ]
    run_id = next((verdict.run_id for _, verdict in flagged if verdict.run_id is not None), None)
    failure = next((verdict.failure for _, verdict in flagged if verdict.failure is not None), None)
    error = GuardrailError(violations, run_id, failure)
    error.__cause__ = judged.errors[0] if failure is not None and judged.errors else None
    return error
