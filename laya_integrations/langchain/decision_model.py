"""laya behind LangChain's decision interface.

classifier = LayaDecisionModel(runner=agent)
classifier.invoke({"state": "...", "questions": {"urgent": Noul(instructions="...")}}).nouls["urgent"].noul
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, cast

from langchain_core.decisions import (
    BaseDecisionModel,
    Choice,
    ClassifierRequest,
    ClassifierResponse,
    Noul,
    Question,
    Score,
    State,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from laya_integrations._decisions import Decisions
from laya_integrations._fields import RunnerFields
from laya_integrations.langchain._groups import Group, grouped, in_order
from laya_integrations.langchain._traced import TracedCall
from laya_integrations.langchain.callbacks import PROVIDER
from laya_integrations.langchain.messages import state_of
from laya_integrations.langchain.questions import lower_questions
from laya_integrations.langchain.responses import LayaClassifierResponse, response_of


class LayaDecisionModelInput(BaseModel):
    """A state and the questions about it, in their JSON form."""

    state: Annotated[str | dict[str, Any] | list[Any], BeforeValidator(state_of)] = Field(
        description="What to decide about: text, a JSON object, or a list of messages, oldest first."
    )
    questions: dict[str, Annotated[Noul | Choice | Score, Field(discriminator="type")]] = Field(
        description="What to ask, by answer id.", min_length=1
    )


class LayaDecisionModel(RunnerFields, BaseDecisionModel):
    """Answer LangChain's typed questions with any laya runner.

    `LayaDecisionModel(runner=...)`. The state may hold messages at any depth. Each request is one run of type
    llm, and `request_id` is laya's id of the call. `batch` makes one laya call per set of questions (and per
    `max_concurrency` requests). A call may set laya's options by name, so `.bind(min_confidence=0.8)` works.
    Raises ValueError for a `Box`: laya reads text, not images.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    model: str | None = None  # type: ignore[assignment]
    """Instead of a runner: a checkpoint path or Hub id. With a runner it stays None: the response and the trace
    name the model that answered, which a Router chooses per request."""

    def invoke(
        self, input: ClassifierRequest, config: RunnableConfig | None = None, **kwargs: Any
    ) -> LayaClassifierResponse:
        """Answer one request."""
        return cast("LayaClassifierResponse", self._call(input, kwargs).invoke(self, input, config))

    async def ainvoke(
        self, input: ClassifierRequest, config: RunnableConfig | None = None, **kwargs: Any
    ) -> LayaClassifierResponse:
        """`invoke`, off the event loop."""
        return cast("LayaClassifierResponse", await self._call(input, kwargs).ainvoke(self, input, config))

    def batch(  # type: ignore[override]
        self,
        inputs: list[ClassifierRequest],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[LayaClassifierResponse]:
        """Answer each request, in order; requests with equal questions share their passes."""
        groups = _groups(inputs, config)
        found = [
            self._call(group.inputs[0], kwargs, return_exceptions).batch(self, *group.asked, given=config)
            for group in groups
        ]
        return in_order(groups, found, len(inputs))

    async def abatch(  # type: ignore[override]
        self,
        inputs: list[ClassifierRequest],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[LayaClassifierResponse]:
        """`batch`, off the event loop."""
        groups = _groups(inputs, config)
        found = [
            await self._call(group.inputs[0], kwargs, return_exceptions).abatch(self, *group.asked, given=config)
            for group in groups
        ]
        return in_order(groups, found, len(inputs))

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The requests that have a JSON form; it knows no `Box`."""
        return LayaDecisionModelInput

    @property
    def OutputType(self) -> type[LayaClassifierResponse]:
        """The response with laya's own fields."""
        return LayaClassifierResponse

    @property
    def _provider(self) -> str:
        return PROVIDER

    def _classify(self, state: State, questions: dict[str, Question]) -> LayaClassifierResponse:
        request: ClassifierRequest = {"state": state, "questions": questions}
        return response_of(self._decisions(request, {}).one(_state(request)))

    def _call(
        self, request: ClassifierRequest, overrides: dict[str, Any], one_by_one: bool = False
    ) -> TracedCall[ClassifierResponse]:
        """How to ask this request, and others with equal questions."""
        return TracedCall(partial(self._decisions, request, overrides), response_of, one_by_one, _state)

    def _decisions(self, request: ClassifierRequest, overrides: dict[str, Any]) -> Decisions:
        questions = _questions(request)
        options = self.options.replaced(**overrides) if overrides else self.options
        return Decisions(self._loaded_runner(), questions, options)


def _groups(requests: list[Any], config: Any) -> list[Group]:
    """The requests by their questions; one that can't be asked stays alone."""
    keys: dict[int, str] = {}
    configs = get_config_list(config, len(requests)) if requests else []
    return list(grouped([_key(*item, keys) for item in enumerate(requests)], requests, configs).values())


def _key(place: int, request: Any, keys: dict[int, str]) -> str:
    """Equal for equal questions, which are asked together.

    Questions and options count in their order, which a comparison of dicts passes over; a question's own
    fields don't.
    """
    try:
        _check(request)
        # Most batches repeat one questions object, which then is read once.
        seen = id(request["questions"])
        if seen not in keys:
            keys[seen] = repr([(name, sorted(question.items())) for name, question in _questions(request).items()])
        return keys[seen]
    except Exception:  # its run shows it
        return f"refused {place}"


def _check(request: Any) -> None:
    if not isinstance(request, Mapping):
        raise TypeError(
            f"a request must be a dict with 'state' and 'questions', got {type(request).__name__}; "
            "for questions that stay the same use LayaRunnable"
        )
    for key in ("state", "questions"):
        if key not in request:
            raise ValueError(f"a request must have 'state' and 'questions', this one lacks {key!r}")


def _questions(request: Any) -> dict[str, Any]:
    """The request's questions as laya's dicts; raises for a request that can't be asked."""
    _check(request)
    return dict(lower_questions(request["questions"]))


def _state(request: ClassifierRequest) -> Any:
    return state_of(request["state"])
