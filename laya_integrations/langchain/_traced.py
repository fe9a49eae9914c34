"""Ask laya inside LangChain runs that are already open, and book each answer on its own run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Generic, Literal, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.runnables.config import (
    get_config_list,
    run_in_executor,
    set_config_context,
    var_child_runnable_config,
)

from laya_integrations._decisions import Decision, Decisions, RunCapture
from laya_integrations.langchain._covered import Covering, hook_contexts, uncover
from laya_integrations.langchain._interrupts import steers_graph
from laya_integrations.langchain._listeners import has_listeners
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
        config = ensure_config(config)
        if has_listeners(config):
            return self._observed(runnable, input, config)
        # Nobody listens: opening and closing a run would cost more than all the rest here.
        return copy_context().run(self._unobserved, runnable, input, config)

    async def ainvoke(self, runnable: Runnable[Any, Output], input: Any, config: RunnableConfig | None) -> Output:
        """`invoke`, off the event loop."""
        config = with_provider(ensure_config(config))
        return await runnable._acall_with_config(self._aone, input, config, run_type="llm")

    def batch(self, runnable: Runnable[Any, Output], inputs: list[Any], config: Any, given: Any = None) -> list[Output]:
        """Inputs in a run each; one laya call per `max_concurrency` inputs, or one for all.

        `given` is the config that the caller gave, where `config` is a list made of it.
        """
        outputs: list[Output] = []
        for states, configs in _chunks(inputs, config):
            many = partial(self._many, _shared_config(configs, given or config))
            outputs += runnable._batch_with_config(
                many, states, configs, return_exceptions=self.one_by_one, run_type="llm"
            )
            reraise_interruption(outputs)
        return outputs

    async def abatch(
        self, runnable: Runnable[Any, Output], inputs: list[Any], config: Any, given: Any = None
    ) -> list[Output]:
        """`batch`, off the event loop."""
        outputs: list[Output] = []
        for states, configs in _chunks(inputs, config):
            many = partial(self._amany, _shared_config(configs, given or config))
            outputs += await runnable._abatch_with_config(
                many, states, configs, return_exceptions=self.one_by_one, run_type="llm"
            )
            reraise_interruption(outputs)
        return outputs

    def _one(self, input: Any, run_manager: Any) -> Output:
        return self._asked(self.prepare(), input, run_manager)

    def _observed(self, runnable: Runnable[Any, Output], input: Any, config: RunnableConfig) -> Output:
        return runnable._call_with_config(self._one, input, with_provider(config), run_type="llm")

    def _unobserved(self, runnable: Runnable[Any, Output], input: Any, config: RunnableConfig) -> Output:
        decisions = self.prepare()
        if decisions.hooked:
            # A hook may dispatch LangChain's custom events, which need a run to belong to.
            return self._observed(runnable, input, config)
        config.pop("run_name", None)
        config.pop("run_id", None)
        var_child_runnable_config.set(config)
        uncover()
        return self.output(decisions.one_unhooked(self.read(input)))

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
            decisions, state = await offload(lambda: (prepare(), self.read(input)))
            with Covering(decisions, 1, capture):
                decision = await decisions.aone(state, capture, offload=offload)
            answered = decision, self.output(decision)
        except BaseException:
            record_run_id(run_manager, capture.run_id)
            raise
        return _booked(answered, run_manager)

    def _many(
        self,
        shared: RunnableConfig,
        inputs: list[Any],
        run_manager: list[Any],
        config: list[RunnableConfig],
    ) -> list[Output | Exception]:
        decisions = self.prepare()
        capture = RunCapture()
        try:
            answered = _in_context(shared, self._all_answered, decisions, inputs, capture)
        except BaseException as error:
            if not self._tries_singly(error, inputs):
                _record_run_ids(run_manager, capture)
                raise
            items = zip(inputs, run_manager, config, strict=True)
            return [self._one_or_error(decisions, *item) for item in items]
        return [_booked(*item) for item in zip(answered, run_manager, strict=True)]

    async def _amany(
        self,
        shared: RunnableConfig,
        inputs: list[Any],
        run_manager: list[Any],
        config: list[RunnableConfig],
    ) -> list[Output | Exception]:
        decisions = await offload(self.prepare)
        capture = RunCapture()
        try:
            with set_config_context(shared) as context:
                asking = self._aall_answered(decisions, inputs, capture)
                answered = await asyncio.create_task(asking, context=context)
        except BaseException as error:
            if not self._tries_singly(error, inputs):
                _record_run_ids(run_manager, capture)
                raise
            items = zip(inputs, run_manager, config, strict=True)
            return [await offload(self._one_or_error, decisions, *item) for item in items]
        return [_booked(*item) for item in zip(answered, run_manager, strict=True)]

    def _answered(self, decisions: Decisions, input: Any, capture: RunCapture) -> Answered[Output]:
        state = self.read(input)
        with Covering(decisions, 1, capture):
            decision = decisions.one(state, capture)
        return decision, self.output(decision)

    def _all_answered(self, decisions: Decisions, inputs: list[Any], capture: RunCapture) -> list[Answered[Output]]:
        states = [self.read(input) for input in inputs]
        with Covering(decisions, hook_contexts(decisions.runner, states), capture):
            found = decisions.many(states, capture)
        return [(decision, self.output(decision)) for decision in found]

    async def _aall_answered(
        self, decisions: Decisions, inputs: list[Any], capture: RunCapture
    ) -> list[Answered[Output]]:
        states = await offload(lambda: [self.read(input) for input in inputs])
        with Covering(decisions, hook_contexts(decisions.runner, states), capture):
            found = await decisions.amany(states, capture, offload=offload)
        return [(decision, self.output(decision)) for decision in found]

    def _one_or_error(
        self, decisions: Decisions, input: Any, run_manager: Any, config: RunnableConfig
    ) -> Output | Exception:
        try:
            return _in_context(config, self._asked, decisions, input, run_manager)
        except Exception as error:
            if steers_graph(error):
                raise
            return error

    def _tries_singly(self, error: BaseException, inputs: list[Any]) -> bool:
        # An interrupt is about the whole batch: what a person answers must not be taken for an item's own.
        fails = isinstance(error, Exception) and not steers_graph(error)
        return self.one_by_one and fails and len(inputs) > 1


# LangChain reads the signature on each call, which would cost as much as all of the tracing here.
_step: Any
for _step in (TracedCall._one, TracedCall._aone):
    _step.__signature__ = signature(_step)


def _booked(answered: Answered[Output], run_manager: Any) -> Output:
    decision, output = answered
    record_decision(run_manager, decision)
    return output


async def offload(function: Callable[..., Result], *args: Any) -> Result:
    """Run a blocking function in LangChain's executor, which carries the context."""
    return await run_in_executor(None, function, *args)


def _in_context(config: RunnableConfig, function: Callable[..., Result], *args: Any) -> Result:
    """Run a function where hooks find this config, as LangChain does for a single call."""
    with set_config_context(config) as context:
        return context.run(function, *args)


def _shared_config(configs: list[RunnableConfig], given: Any) -> RunnableConfig:
    """What all items of a batch agree on, which is what a hook of their one call can be told.

    The callbacks are those around the batch: no item's run is the call's.
    """
    first, *others = configs
    shared = RunnableConfig(
        tags=[tag for tag in first.get("tags") or [] if all(tag in (other.get("tags") or []) for other in others)],
        metadata=_agreed("metadata", first, others),
        configurable=_agreed("configurable", first, others),
        callbacks=ensure_config()["callbacks"] if isinstance(given, list | tuple) else first.get("callbacks"),
    )
    return {**first, **shared} if not others else shared


def _agreed(key: Literal["metadata", "configurable"], first: RunnableConfig, others: list[RunnableConfig]) -> Any:
    values = first.get(key) or {}
    return {name: value for name, value in values.items() if all((o.get(key) or {}).get(name) == value for o in others)}


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
    """With `return_exceptions`, LangChain returns a cancellation, Ctrl-C or interrupt as if it were an item's error."""
    for output in outputs:
        if isinstance(output, BaseException) and (not isinstance(output, Exception) or steers_graph(output)):
            raise output
