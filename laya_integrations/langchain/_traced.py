"""Ask laya inside LangChain runs that are already open, and book each answer on its own run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.runnables.config import get_config_list, run_in_executor

from laya_integrations._decisions import Decision, Decisions, RunCapture
from laya_integrations.langchain.callbacks import record_decision, record_run_id, with_provider
from laya_integrations.langchain.messages import state_of

Output = TypeVar("Output")
Result = TypeVar("Result")
Answered = tuple[Decision, Output]


@dataclass(frozen=True)
class TracedCall(Generic[Output]):
    """One call of a runnable: what to ask, and what to make of a decision."""

    prepare: Callable[[], Decisions]
    """Runs inside the run, which shows a failure; it may take seconds, for it may load a model."""
    output: Callable[[Decision], Output]
    one_by_one: bool = False
    """Whether a failed batch is asked again item by item, so that only those at fault fail."""
    read: Callable[[Any], Any] = state_of
    """Makes laya's state of an input."""

    def invoke(self, runnable: Runnable[Any, Output], input: Any, config: RunnableConfig | None) -> Output:
        """One input in one run of type llm."""
        config = with_provider(ensure_config(config))
        return runnable._call_with_config(self._one, input, config, run_type="llm")

    async def ainvoke(self, runnable: Runnable[Any, Output], input: Any, config: RunnableConfig | None) -> Output:
        """`invoke`, off the event loop."""
        config = with_provider(ensure_config(config))
        return await runnable._acall_with_config(self._aone, input, config, run_type="llm")

    def batch(self, runnable: Runnable[Any, Output], inputs: list[Any], config: Any) -> list[Output]:
        """Inputs in a run each; one laya call per `max_concurrency` inputs, or one for all."""
        outputs: list[Output] = []
        for states, configs in _chunks(inputs, config):
            outputs += runnable._batch_with_config(
                self._many, states, configs, return_exceptions=self.one_by_one, run_type="llm"
            )
            reraise_interruption(outputs)
        return outputs

    async def abatch(self, runnable: Runnable[Any, Output], inputs: list[Any], config: Any) -> list[Output]:
        """`batch`, off the event loop."""
        outputs: list[Output] = []
        for states, configs in _chunks(inputs, config):
            outputs += await runnable._abatch_with_config(
                self._amany, states, configs, return_exceptions=self.one_by_one, run_type="llm"
            )
            reraise_interruption(outputs)
        return outputs

    def _one(self, input: Any, run_manager: Any) -> Output:
        return self._asked(self.prepare(), input, run_manager)

    async def _aone(self, input: Any, run_manager: Any) -> Output:
        return await self._aasked(self.prepare, input, run_manager)

    def _asked(self, decisions: Decisions, input: Any, run_manager: Any) -> Output:
        capture = RunCapture()
        try:
            answered = self._answered(decisions, input, capture)
        except BaseException:
            record_run_id(run_manager, capture.run_id)
            raise
        return _booked(answered, run_manager)

    async def _aasked(self, prepare: Callable[[], Decisions], input: Any, run_manager: Any) -> Output:
        capture = RunCapture()
        try:
            answered = await offload(lambda: self._answered(prepare(), input, capture))
        except BaseException:
            record_run_id(run_manager, capture.run_id)
            raise
        return _booked(answered, run_manager)

    def _many(self, inputs: list[Any], run_manager: list[Any]) -> list[Output | Exception]:
        decisions = self.prepare()
        capture = RunCapture()
        try:
            answered = self._all_answered(decisions, inputs, capture)
        except BaseException as error:
            if not self._tries_singly(error, inputs):
                _record_run_ids(run_manager, capture)
                raise
            return [self._one_or_error(decisions, *item) for item in zip(inputs, run_manager, strict=True)]
        return [_booked(*item) for item in zip(answered, run_manager, strict=True)]

    async def _amany(self, inputs: list[Any], run_manager: list[Any]) -> list[Output | Exception]:
        decisions = await offload(self.prepare)
        capture = RunCapture()
        try:
            answered = await offload(self._all_answered, decisions, inputs, capture)
        except BaseException as error:
            if not self._tries_singly(error, inputs):
                _record_run_ids(run_manager, capture)
                raise
            return [await self._aone_or_error(decisions, *item) for item in zip(inputs, run_manager, strict=True)]
        return [_booked(*item) for item in zip(answered, run_manager, strict=True)]

    def _answered(self, decisions: Decisions, input: Any, capture: RunCapture) -> Answered[Output]:
        decision = decisions.one(self.read(input), capture)
        return decision, self.output(decision)

    def _all_answered(self, decisions: Decisions, inputs: list[Any], capture: RunCapture) -> list[Answered[Output]]:
        found = decisions.many([self.read(input) for input in inputs], capture)
        return [(decision, self.output(decision)) for decision in found]

    def _one_or_error(self, decisions: Decisions, input: Any, run_manager: Any) -> Output | Exception:
        try:
            return self._asked(decisions, input, run_manager)
        except Exception as error:
            return error

    async def _aone_or_error(self, decisions: Decisions, input: Any, run_manager: Any) -> Output | Exception:
        try:
            return await self._aasked(lambda: decisions, input, run_manager)
        except Exception as error:
            return error

    def _tries_singly(self, error: BaseException, inputs: list[Any]) -> bool:
        return self.one_by_one and isinstance(error, Exception) and len(inputs) > 1


def _booked(answered: Answered[Output], run_manager: Any) -> Output:
    decision, output = answered
    record_decision(run_manager, decision)
    return output


async def offload(function: Callable[..., Result], *args: Any) -> Result:
    """Run a blocking function in LangChain's executor, which carries the context."""
    return await run_in_executor(None, function, *args)


def _chunks(inputs: list[Any], config: Any) -> Iterator[tuple[list[Any], list[RunnableConfig]]]:
    """The inputs with their configs, at most `max_concurrency` at a time."""
    if not inputs:
        return
    configs = [with_provider(item) for item in get_config_list(config, len(inputs))]
    size = configs[0].get("max_concurrency") or len(inputs)
    if size < 0:
        raise ValueError(f"max_concurrency must be at least 1, got {size}")
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size], configs[start : start + size]


def _record_run_ids(run_managers: list[Any], capture: RunCapture) -> None:
    for run_manager in run_managers:
        record_run_id(run_manager, capture.run_id)


def reraise_interruption(outputs: list[Any]) -> None:
    """With `return_exceptions`, LangChain returns a cancellation or Ctrl-C as if it were an item's error."""
    for output in outputs:
        if isinstance(output, BaseException) and not isinstance(output, Exception):
            raise output
