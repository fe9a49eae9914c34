"""Evaluate answers and retrieved passages with questions to laya, instead of a prompt to a language model.

evaluator = LayaEvaluator.faithfulness(runner=agent)
evaluator.evaluate(response="It rains.", contexts=["Rain since noon."]).passing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType
from llama_index_instrumentation import get_dispatcher
from pydantic import AfterValidator, Field, model_validator

from laya_integrations import presets
from laya_integrations._decisions import Decision
from laya_integrations._questions import lower_questions
from laya_integrations.llama_index._arguments import listed, listed_of, of_kind
from laya_integrations.llama_index._asking import Asking
from laya_integrations.llama_index._component import ComponentFields
from laya_integrations.llama_index._conditions import Label
from laya_integrations.llama_index._verdicts import Subject, Verdict, best_verdict

dispatcher = get_dispatcher(__name__)

EvaluatorInput = Literal["query", "response", "contexts"]
"""What LlamaIndex hands to an evaluator."""

_INPUTS: tuple[EvaluatorInput, ...] = ("query", "response", "contexts")


class LayaEvaluationResult(EvaluationResult):
    """An evaluation with the answers that it rests on."""

    answers: dict[Any, Any] = Field(default_factory=dict)
    """Each question's bare answer: a label, true or false, a level counted from 0, None below `min_confidence`."""
    confidence: float | None = None
    """How sure laya is of the deciding answer: its probability, from 0 to 1."""
    run_id: str | None = None
    """laya's id of the call."""


class LayaEvaluator(ComponentFields, BaseEvaluator):
    """Judge a query, a response and its contexts by any set of questions; one of them decides.

    `score` runs from 0 to 1: a noul's probability of true, a score's expected level as a part of the highest
    one, or the summed probability of a choice's `passing_labels`. A result passes from `threshold` on. An
    answer below the option `min_confidence` makes an invalid result, which neither passes nor fails.

    Where `each_context` is set, every context is judged on its own, all in one laya call, and the best one
    counts, so that no context is cut off by the ones before it. Otherwise they are one list in the state.
    """

    questions: Annotated[Any, AfterValidator(lower_questions)]
    """What to ask: question dicts or question objects."""
    deciding: str | int = ""
    """The id of the question that decides; the first one where it is empty."""
    passing_labels: list[Label] | None = None
    """Of a deciding choice, the labels that pass."""
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    """The lowest score that passes."""
    state_keys: dict[EvaluatorInput, str] | None = None
    """What the state has and how it is called there, all of it required; without it: whatever is given."""
    each_context: bool = False
    """Whether each context is judged on its own."""

    @model_validator(mode="after")
    def _can_decide(self) -> Self:
        if not self.questions:
            raise ValueError("questions must hold at least one question")
        if self.deciding == "":
            self.deciding = next(iter(self.questions))
        if self.deciding not in self.questions:
            raise ValueError(f"deciding is {self.deciding!r}; the questions are {', '.join(map(str, self.questions))}")
        question = self.questions[self.deciding]
        labels = list(question.get("criteria") or ()) if question.get("type") == "choice" else []
        if bool(labels) != bool(self.passing_labels) or not set(self.passing_labels or ()) <= set(labels):
            expected = f"some of {', '.join(map(str, labels))}" if labels else "left out, for this is no choice"
            raise ValueError(f"passing_labels of {self.deciding!r} must be {expected}, got {self.passing_labels}")
        return self

    @classmethod
    def faithfulness(cls, runner: Any = None, **fields: Any) -> Self:
        """Ask whether one of the contexts supports the response.

        Takes the class's fields; what it needs of a call is `response` and `contexts`.
        """
        keys = {"response": "answer", "contexts": "context"}
        return cls._preset(presets.faithfulness(), "faithful", keys, runner, fields)

    @classmethod
    def relevancy(cls, runner: Any = None, *, of: Literal["contexts", "response"] = "contexts", **fields: Any) -> Self:
        """Ask whether one of the contexts, or the response, helps to answer the query.

        Takes the class's fields; what it needs of a call is `query` and what `of` names.
        """
        return cls._preset(presets.relevance(), "relevant", {"query": "query", of: "passage"}, runner, fields)

    @classmethod
    def class_name(cls) -> str:
        """The class's name."""
        return "LayaEvaluator"

    @dispatcher.span
    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> LayaEvaluationResult:
        """Judge one response; other keywords are for other evaluators.

        Raises ValueError for a missing input, and TypeError for one that is no text or no list of texts.
        """
        return self._evaluated([self._subject(query, response, contexts)])[0]

    @dispatcher.span
    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> LayaEvaluationResult:
        """`evaluate`, off the event loop."""
        return (await self._aevaluated([self._subject(query, response, contexts)]))[0]

    @dispatcher.span
    def evaluate_many(
        self,
        queries: Sequence[str | None] | None = None,
        responses: Sequence[str | None] | None = None,
        contexts: Sequence[Sequence[str] | None] | None = None,
    ) -> list[LayaEvaluationResult]:
        """Judge many responses in one laya call, in order; the lists that are given have one entry for each.

        Raises ValueError for lists of different lengths or a missing input, and TypeError for a text in place of a
        list or anything else in place of a text; both name the entry.
        """
        return self._evaluated(self._subjects(queries, responses, contexts))

    @dispatcher.span
    async def aevaluate_many(
        self,
        queries: Sequence[str | None] | None = None,
        responses: Sequence[str | None] | None = None,
        contexts: Sequence[Sequence[str] | None] | None = None,
    ) -> list[LayaEvaluationResult]:
        """`evaluate_many`, off the event loop."""
        return await self._aevaluated(self._subjects(queries, responses, contexts))

    @classmethod
    def _preset(
        cls, questions: dict[str, Any], deciding: str, keys: Mapping[str, str], runner: Any, fields: dict[str, Any]
    ) -> Self:
        """Only the deciding question is asked: the others of a set would cost their part of every pass."""
        given = {
            "questions": {deciding: questions[deciding]},
            "deciding": deciding,
            "state_keys": dict(keys),
            "each_context": "contexts" in keys,
        }
        return cls(**{**given, "runner": runner, **fields})

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are questions here, and no prompts."""

    def _subject(self, query: Any, response: Any, contexts: Any, names: Sequence[str] = _INPUTS) -> Subject:
        """What is judged, checked; `names` says what the caller calls the inputs."""
        of_kind(str | None, query, names[0], "a text")
        of_kind(str | None, response, names[1], "a text")
        pieces = None if contexts is None else listed_of(str, contexts, names[2], "a text")
        inputs: dict[str, Any] = dict(zip(_INPUTS, (query, response, pieces), strict=True))
        keys = self.state_keys or {name: name for name in _INPUTS if inputs[name] is not None}
        if missing := [name for key, name in zip(_INPUTS, names, strict=True) if key in keys and inputs[key] is None]:
            raise ValueError(f"this evaluator needs {', '.join(keys)}; {', '.join(missing)} is missing")
        if not keys:
            raise ValueError(f"nothing to evaluate; give some of {', '.join(_INPUTS)}")
        # The contexts come last: what is too long is cut off at the end.
        state = {keys[name]: inputs[name] for name in _INPUTS[:2] if name in keys}
        if pieces is None or "contexts" not in keys:
            return Subject(query, response, pieces, [state])
        parts = pieces if self.each_context else [pieces]
        return Subject(query, response, pieces, [{**state, keys["contexts"]: part} for part in parts])

    def _subjects(self, queries: Any, responses: Any, contexts: Any) -> list[Subject]:
        given = {"queries": queries, "responses": responses, "contexts": contexts}
        lists = {name: listed(items, name) for name, items in given.items() if items is not None}
        lengths = {name: len(items) for name, items in lists.items()}
        if len(set(lengths.values())) > 1:
            counted = ", ".join(f"{count} {name}" for name, count in lengths.items())
            raise ValueError(f"the lists must have one entry for each response, got {counted}")
        nothing = [None] * next(iter(lengths.values()), 0)
        rows = zip(*(lists.get(name, nothing) for name in given), strict=True)
        return [
            self._subject(query, response, pieces, [f"{name}[{index}]" for name in given])
            for index, (query, response, pieces) in enumerate(rows)
        ]

    def _asking(self) -> Asking:
        return Asking(self._loaded_runner, self.questions, self.options)

    def _evaluated(self, subjects: list[Subject]) -> list[LayaEvaluationResult]:
        decisions = self._asking().many([state for subject in subjects for state in subject.states])
        return self._results(subjects, decisions)

    async def _aevaluated(self, subjects: list[Subject]) -> list[LayaEvaluationResult]:
        decisions = await self._asking().amany([state for subject in subjects for state in subject.states])
        return self._results(subjects, decisions)

    def _results(self, subjects: list[Subject], decisions: list[Decision]) -> list[LayaEvaluationResult]:
        found = iter(decisions)
        return [self._result(subject, [next(found) for _ in subject.states]) for subject in subjects]

    def _result(self, subject: Subject, decisions: list[Decision]) -> LayaEvaluationResult:
        result = LayaEvaluationResult(query=subject.query, response=subject.response, contexts=subject.contexts)
        if not decisions:
            return result.model_copy(update={"passing": False, "score": 0.0, "feedback": "there are no contexts"})
        verdicts = [Verdict.read(decision, self.deciding, self.passing_labels or []) for decision in decisions]
        best = best_verdict(verdicts)
        verdict = verdicts[best]
        answers: dict[Any, Any] = verdict.decision.values
        result.answers = answers
        result.confidence, result.run_id = verdict.confidence, verdict.decision.run_id
        if verdict.score is None:
            result.invalid_result = True
            result.invalid_reason = result.feedback = verdict.problem
            return result
        which = f", by context {best + 1} of {len(verdicts)}" if len(verdicts) > 1 else ""
        cut = "; the state was cut to the token budget" if verdict.decision.truncated else ""
        result.feedback = f"{self.deciding}: {answers[self.deciding]} (score {verdict.score:.2f}{which}){cut}"
        result.passing, result.score = verdict.score >= self.threshold, verdict.score
        return result
