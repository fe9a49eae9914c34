"""Choose a branch by what the input is about.

router = LayaRouter(runner=agent, instructions="Which team?", criteria={"billing": "...", "technical": "..."})
graph.add_conditional_edges("read", router, {"billing": "billing_node", "technical": "technical_node"})
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Self

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.base import coerce_to_runnable
from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from laya_integrations._fields import RunnerFields
from laya_integrations.langchain._routed import RoutedCall
from laya_integrations.langchain._routes import QUESTION, RoutingRule, Taken
from laya_integrations.langchain._traced import reraise_interruption
from laya_integrations.langchain.decision_model import LayaDecisionModel
from laya_integrations.langchain.runnables import LayaRunnableInput, StateInput

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


def _label_or_branch(fallback: Any) -> Any:
    return fallback if fallback is None or isinstance(fallback, str) else coerce_to_runnable(fallback)


class RouteOutcome(BaseModel):
    """What a `LayaRouter` decided, and what came of it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    label: str | None
    """The label taken, or the fallback's; None where the fallback is a branch without a label."""
    fell_back: bool
    """Whether no label was sure enough."""
    confidence: float
    """Probability of the most probable label, also where it was not taken."""
    probabilities: dict[str, float]
    """Probability of each label."""
    output: Any
    """What the branch gave; None without branches."""
    result: dict[str, Any]
    """laya's whole result."""


class LayaRouter(RunnerFields, RunnableSerializable[StateInput, Any]):
    """Pick one of the labels in `criteria` for each input: give the label, or run its branch.

    Without `routes` the label comes out, so a router is a graph's conditional edge. With `routes` the label's
    branch gets the router's input, and its output comes out. Where no label is sure enough (`threshold`,
    `margin`, or laya's `min_confidence`) the fallback is taken. In the trace the decision, with its tokens,
    and the branch lie under the router's run. A call may set laya's options by name. `batch` decides on all
    inputs in shared passes, then runs each branch on a batch of its inputs.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    criteria: Annotated[dict[str, Any], Field(min_length=1)]
    """Each label with what it stands for: text, or None."""
    instructions: Any
    """The question, in full."""
    routes: dict[str, Annotated[Any, BeforeValidator(coerce_to_runnable)]] | None = None
    """The branch of each label: a runnable, a function, or a dict of them."""
    threshold: Probability | dict[str, Probability] = 0.0
    """Least probability of a label that is taken: one for all, or by label, where others need none."""
    margin: Probability = 0.0
    """Least lead in probability over the second label."""
    fallback: Annotated[Any, BeforeValidator(_label_or_branch)] = None
    """What to take where no label is sure enough: a label (with `routes` one that has a branch), or a branch."""
    include_decision: bool = False
    """Whether a `RouteOutcome` comes out instead; a stream then has one chunk."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._rule().check(self.criteria)
        return self

    def invoke(self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Route one input."""
        return self._call_with_config(self._call(kwargs).one, input, config)

    async def ainvoke(self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke`, off the event loop."""
        return await self._acall_with_config(self._call(kwargs).aone, input, config)

    def batch(
        self,
        inputs: list[StateInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[Any]:
        """Route each input, in order."""
        route = self._call(kwargs, return_exceptions).many
        outputs = self._batch_with_config(route, inputs, config, return_exceptions=return_exceptions)
        reraise_interruption(outputs)
        return outputs

    async def abatch(
        self,
        inputs: list[StateInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[Any]:
        """`batch`, off the event loop."""
        route = self._call(kwargs, return_exceptions).amany
        outputs = await self._abatch_with_config(route, inputs, config, return_exceptions=return_exceptions)
        reraise_interruption(outputs)
        return outputs

    def stream(self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """The branch's chunks; without branches the label."""
        yield from self._transform_stream_with_config(iter([input]), self._call(kwargs).stream, config)

    async def astream(
        self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """`stream`, off the event loop."""
        route = self._call(kwargs).astream
        async for chunk in self._atransform_stream_with_config(_alone(input), route, config):
            yield chunk

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Text, an object or an array; the other inputs have no JSON form."""
        return LayaRunnableInput

    @property
    def OutputType(self) -> Any:
        """An outcome, a label, or what the branches give."""
        if self.include_decision:
            return RouteOutcome
        return str if self.routes is None else Any

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a config may set in the branches."""
        branches = [*(self.routes or {}).values(), self.fallback]
        specs = (branch.config_specs for branch in branches if isinstance(branch, Runnable))
        return get_unique_config_specs(spec for found in specs for spec in found)

    def _rule(self) -> RoutingRule:
        return RoutingRule(self.routes, self.threshold, self.margin, self.fallback)

    def _call(self, options: dict[str, Any], keep_errors: bool = False) -> RoutedCall:
        self._check_kept()
        question = {"type": "choice", "instructions": self.instructions, "criteria": self.criteria}
        return RoutedCall(
            LayaDecisionModel(runner=self.runner, model=self.model, options=self.options),
            options,
            {QUESTION: question},
            self._rule(),
            _outcome if self.include_decision else _plain,
            streams=not self.include_decision,
            keep_errors=keep_errors,
        )


def _plain(taken: Taken, output: Any) -> Any:
    return taken.label if taken.branch is None else output


def _outcome(taken: Taken, output: Any) -> RouteOutcome:
    return RouteOutcome(
        label=taken.label,
        fell_back=taken.fell_back,
        confidence=max(taken.answer.probabilities.values()),
        probabilities=taken.answer.probabilities,
        output=output,
        result=taken.response.result,
    )


async def _alone(input: Any) -> AsyncIterator[Any]:
    yield input
