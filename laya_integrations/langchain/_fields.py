"""The fields of the classes here that ask fixed questions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from laya_integrations._decisions import Decisions
from laya_integrations._fields import RunnerFields
from laya_integrations.langchain.questions import lower_questions


class DecisionFields(RunnerFields):
    """Who answers and with which options, and the questions."""

    questions: Annotated[Any, AfterValidator(lower_questions)]
    """What to ask: question dicts, LangChain's or laya's question objects, or a pydantic model class."""

    def _decisions(self, overrides: dict[str, Any]) -> Decisions:
        """What to ask in one call: the fields, with the questions and options that the call overrides."""
        overrides = dict(overrides)
        questions = lower_questions(overrides.pop("questions")) if "questions" in overrides else self.questions
        options = self.options.replaced(**overrides) if overrides else self.options
        return Decisions(self._loaded_runner(), questions, options)
