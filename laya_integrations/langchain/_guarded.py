"""Judge the parts of inputs inside guardrail runs that are already open, all in shared passes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.decisions import ClassifierRequest, ClassifierResponse
from langchain_core.runnables import RunnableConfig

from laya_integrations.langchain._deadline import TimedDecisionModel
from laya_integrations.langchain._parts import Parts, item_state, take_apart
from laya_integrations.langchain._traced import TracedCall
from laya_integrations.langchain._violations import ViolationRule
from laya_integrations.langchain.verdicts import GuardrailVerdict

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Judged:
    """An input with the verdict on each of its parts."""

    parts: Parts
    verdicts: list[GuardrailVerdict]
    errors: list[Exception]
    """What kept laya from answering, part by part, where it did not."""


class PartClassifier(TimedDecisionModel):
    """A decision model whose states are parts of an input."""

    def _call(
        self, request: ClassifierRequest, overrides: dict[str, Any], one_by_one: bool = False
    ) -> TracedCall[ClassifierResponse]:
        return replace(super()._call(request, overrides, one_by_one), read=_read)


@dataclass(frozen=True)
class GuardedCall:
    """One call of a guardrail: who judges, by which questions and rule, and what comes out."""

    classifier: PartClassifier
    rule: ViolationRule
    output: Callable[[Judged], Any]
    """Makes an input's output, which may be an error, of its verdicts."""

    def one(self, input: Any, run_manager: Any, config: RunnableConfig) -> Any:
        """Guard one input."""
        return _given(self.many([input], [run_manager], [config])[0])

    async def aone(self, input: Any, run_manager: Any, config: RunnableConfig) -> Any:
        """`one`, off the event loop."""
        return _given((await self.amany([input], [run_manager], [config]))[0])

    def many(self, inputs: list[Any], run_manager: list[Any], config: list[RunnableConfig]) -> list[Any]:
        """Guard each input; the parts of all share their passes."""
        taken = [take_apart(input) for input in inputs]
        found = self.classifier.batch(self._requests(taken), _configs(taken, config), return_exceptions=True)
        return self._outputs(taken, found)

    async def amany(self, inputs: list[Any], run_manager: list[Any], config: list[RunnableConfig]) -> list[Any]:
        """`many`, off the event loop."""
        taken = [take_apart(input) for input in inputs]
        found = await self.classifier.abatch(self._requests(taken), _configs(taken, config), return_exceptions=True)
        return self._outputs(taken, found)

    def judge(self, items: list[Any], run_manager: Any, config: RunnableConfig) -> list[GuardrailVerdict]:
        """The verdict on each item, which is judged whole."""
        requests = self._requests([_whole(items)])
        return self._verdicts(self.classifier.batch(requests, [config] * len(items), return_exceptions=True))

    async def ajudge(self, items: list[Any], run_manager: Any, config: RunnableConfig) -> list[GuardrailVerdict]:
        """`judge`, off the event loop."""
        requests = self._requests([_whole(items)])
        return self._verdicts(await self.classifier.abatch(requests, [config] * len(items), return_exceptions=True))

    def _requests(self, taken: Sequence[Parts]) -> list[ClassifierRequest]:
        # One questions object: equal questions are then recognised without comparing them.
        return [{"state": item, "questions": self.rule.questions} for parts in taken for item in parts.items]  # type: ignore[typeddict-item]

    def _outputs(self, taken: Sequence[Parts], found: Sequence[Any]) -> list[Any]:
        verdicts = self._verdicts(found)
        outputs: list[Any] = []
        start = 0
        for parts in taken:
            end = start + len(parts.items)
            errors = [answer for answer in found[start:end] if isinstance(answer, Exception)]
            outputs.append(self.output(Judged(parts, verdicts[start:end], errors)))
            start = end
        return outputs

    def _verdicts(self, found: Sequence[Any]) -> list[GuardrailVerdict]:
        verdicts = [self.rule.verdict(answer) for answer in found]
        for flagged, outcome in ((False, "let %d unjudged parts pass (%s)"), (True, "stopped %d unjudged parts (%s)")):
            failures = [v.failure for v in verdicts if v.failure is not None and v.flagged is flagged]
            if failures:
                # The type alone: an error's text may repeat what was judged.
                logger.warning(f"laya: a guardrail {outcome}", len(failures), failures[0])
        return verdicts


def _read(request: ClassifierRequest) -> Any:
    return item_state(request["state"])


def _whole(items: list[Any]) -> Parts:
    return Parts(items, items, [*range(len(items))], lambda changed: changed)


def _configs(taken: Sequence[Parts], configs: Sequence[RunnableConfig]) -> list[RunnableConfig]:
    """The config of each part: its input's."""
    return [config for parts, config in zip(taken, configs, strict=True) for _ in parts.items]


def _given(output: Any) -> Any:
    if isinstance(output, Exception):
        raise output
    return output
