"""The fields that the classes here share: who answers, what is asked, with which call options."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from laya_integrations._decisions import Decisions, check_runner
from laya_integrations._options import CallOptions
from laya_integrations._runners import load_runner
from laya_integrations.langchain.questions import lower_questions


def _checked_runner(runner: Any) -> Any:
    return None if runner is None else check_runner(runner)


class RunnerFields(BaseModel):
    """Hold a runner, or the name of the model to load, with its options.

    A runner holds locks and weights, so it is left out of repr, dumps and pickles; `model` is what a pickle
    keeps.
    """

    runner: Annotated[Any, AfterValidator(_checked_runner)] = Field(default=None, exclude=True, repr=False)
    """An `Agent`, a `Router`, or any object with laya's `predict`."""
    model: str | None = None
    """Instead of a runner: a checkpoint path or Hub id, loaded on first use and once per process."""
    options: CallOptions = CallOptions()
    """laya's call options, the same for each call; a call may override some by name."""

    @model_validator(mode="after")
    def _one_runner(self) -> Self:
        if (self.runner is None) == (self.model is None):
            given = "neither" if self.runner is None else "both"
            raise ValueError(f"{type(self).__name__} takes either runner= or model=, got {given}")
        return self

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "runner": None}}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        memo = {} if memo is None else memo
        memo[id(self.runner)] = self.runner
        return super().__deepcopy__(memo)

    def _loaded_runner(self) -> Any:
        self._check_kept()
        return self.runner if self.model is None else load_runner(self.model)

    def _check_kept(self) -> None:
        if self.runner is None and self.model is None:
            raise RuntimeError(
                f"this {type(self).__name__} was unpickled without its runner; make it with model= "
                "(a checkpoint path or Hub id), which a pickle keeps"
            )


class DecisionFields(RunnerFields):
    """The same, with the questions."""

    questions: Annotated[Any, AfterValidator(lower_questions)]
    """What to ask: question dicts, LangChain's or laya's question objects, or a pydantic model class."""

    def _decisions(self, overrides: dict[str, Any]) -> Decisions:
        """What to ask in one call: the fields, with the questions and options that the call overrides."""
        overrides = dict(overrides)
        questions = lower_questions(overrides.pop("questions")) if "questions" in overrides else self.questions
        options = self.options.replaced(**overrides) if overrides else self.options
        return Decisions(self._loaded_runner(), questions, options)
