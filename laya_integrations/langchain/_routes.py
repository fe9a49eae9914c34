"""Decide from an answer's probabilities which label, and which branch, is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import patch_config

from laya_integrations.langchain.responses import LayaChoiceAnswer, LayaClassifierResponse

QUESTION = "route"
"""The question's id in the trace and in laya's result."""

_DIGITS = 6
"""laya rounds probabilities to four places, so a difference of two needs no more."""


@dataclass(frozen=True)
class RoutingRule:
    """The branches, and how sure a label must be."""

    routes: Mapping[str, Runnable[Any, Any]] | None
    threshold: float | Mapping[str, float]
    margin: float
    fallback: Any

    def check(self, labels: Mapping[str, Any]) -> None:
        """Raise a ValueError where the parts don't fit the labels or each other."""
        if isinstance(self.threshold, Mapping) and (unknown := self.threshold.keys() - labels.keys()):
            raise ValueError(f"threshold names {min(unknown)!r}, which criteria lacks; use labels of criteria")
        bounded = any(self.threshold.values()) if isinstance(self.threshold, Mapping) else self.threshold
        if self.fallback is None and (bounded or self.margin):
            raise ValueError("threshold and margin need fallback=: what to take where no label is sure enough")
        if self.routes is None:
            if isinstance(self.fallback, Runnable):
                raise ValueError("without routes= the fallback must be a label, got a branch")
            return
        own = {self.fallback} if isinstance(self.fallback, str) else set()
        needed = labels.keys() | own
        if missing := needed - self.routes.keys():
            raise ValueError(f"routes lacks a branch for {min(missing)!r}; give each label one")
        if unknown := self.routes.keys() - needed:
            raise ValueError(f"routes names {min(unknown)!r}, which is no label of criteria and not the fallback")

    def take(self, response: LayaClassifierResponse) -> Taken:
        """What to do after this response; a ValueError where no label is sure enough and nothing else is given."""
        answer = response.answers.get(QUESTION)
        if not isinstance(answer, LayaChoiceAnswer):
            raise ValueError(
                f"the result has no choice {QUESTION!r}, which was asked; check the runner, or the hook that answered"
            )
        if self._is_sure(answer):
            return Taken(answer.choice, self._branch(answer.choice), response)
        if self.fallback is None:
            raise ValueError(
                f"no label is sure enough: the best, {answer.choice!r}, is below min_confidence; give fallback="
            )
        if isinstance(self.fallback, str):
            return Taken(self.fallback, self._branch(self.fallback), response, fell_back=True)
        return Taken(None, self.fallback, response, fell_back=True)

    def _is_sure(self, answer: LayaChoiceAnswer) -> bool:
        best, second, *_ = [*sorted(answer.probabilities.values(), reverse=True), 0.0, 0.0]
        per_label = self.threshold if isinstance(self.threshold, Mapping) else {answer.choice: self.threshold}
        threshold = per_label.get(answer.choice, 0.0)
        return not answer.low_confidence and best >= threshold and round(best - second, _DIGITS) >= self.margin

    def _branch(self, label: str) -> Runnable[Any, Any] | None:
        return None if self.routes is None else self.routes[label]


@dataclass(frozen=True)
class Taken:
    """The way that one input takes."""

    label: str | None
    branch: Runnable[Any, Any] | None
    response: LayaClassifierResponse
    fell_back: bool = False

    @property
    def answer(self) -> Any:
        """The answer that it was taken for."""
        return self.response.choices[QUESTION]

    def config(self, config: RunnableConfig, run_manager: Any) -> RunnableConfig:
        """The branch's config: its run lies under the router's and is tagged with the label."""
        return patch_config(config, callbacks=run_manager.get_child(f"branch:{self.label or 'fallback'}"))
