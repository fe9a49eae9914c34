"""laya as a step of a chain: a state goes in, a message with the answers comes out.

runnable = LayaRunnable(agent, questions=Ticket)
chain = prompt | runnable | AnswerParser(Ticket)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable, ensure_config
from langchain_core.runnables.config import get_config_list, run_in_executor
from pydantic import BaseModel, ConfigDict, Field, RootModel

from laya_integrations._decisions import Decision, Decisions, RunCapture
from laya_integrations.langchain._fields import DecisionFields
from laya_integrations.langchain.callbacks import (
    PROVIDER,
    record_decision,
    record_run_id,
    run_metadata,
    with_provider,
)
from laya_integrations.langchain.messages import state_of

StateInput = str | BaseMessage | PromptValue | Sequence[Any] | dict[str, Any]
"""What a decision can be about; `laya_integrations.langchain.messages` says how each is read."""


async def _offload(function: Callable[..., Any], *args: Any) -> Any:
    return await run_in_executor(None, function, *args)


class LayaMessage(AIMessage):
    """The answers of one call: as compact JSON in `content`, whole in `result`.

    The JSON has a value for each question: a choice's label, true or false for a noul, a score's most
    probable level, null where the answer fell below `min_confidence`.
    """

    result: dict[str, Any] = Field(default_factory=dict)
    """laya's result: answers with their probabilities, usage, and the routing where a Router chose."""
    run_id: str | None = None
    """laya's id of the call; items of an Agent's batch share it, and differ in `laya_batch_index`."""


class LayaRunnableInput(RootModel[str | dict[str, Any] | list[Any]]):
    """Text, a JSON object, or a conversation: the inputs that have a JSON form."""


class LayaRunnable(DecisionFields, RunnableSerializable[StateInput, LayaMessage]):
    """Answer fixed questions about each input.

    `LayaRunnable(runner, questions=...)`. A call may override `questions` and single options by name, so
    `.bind(min_confidence=0.8)` works. Each call is one run of type llm. `batch` shares passes: it is one laya
    call per `max_concurrency` items, or one for all. Where a batch fails and `return_exceptions` is set, its
    items are asked one by one, so that only those at fault fail.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, runner: Any = None, **fields: Any) -> None:
        super().__init__(runner=runner, **fields)

    def invoke(self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any) -> LayaMessage:
        """Answer the questions about one state."""
        call = partial(_answer, self._decisions(kwargs))
        return self._call_with_config(call, input, with_provider(ensure_config(config)), run_type="llm")

    async def ainvoke(
        self, input: StateInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> LayaMessage:
        """`invoke`, off the event loop."""
        call = partial(_aanswer, await self._adecisions(kwargs))
        return await self._acall_with_config(
            call, input, with_provider(ensure_config(config)), run_type="llm"
        )

    def batch(
        self,
        inputs: list[StateInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[LayaMessage]:
        """Answer the questions about each state, in order, in shared passes."""
        if not inputs:
            return []
        call = partial(_answer_many, self._decisions(kwargs), return_exceptions)
        outputs: list[LayaMessage] = []
        for states, configs in _chunks(inputs, config):
            outputs += self._batch_with_config(
                call, states, configs, return_exceptions=return_exceptions, run_type="llm"
            )
            _reraise_interruption(outputs)
        return outputs

    async def abatch(
        self,
        inputs: list[StateInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any | None,
    ) -> list[LayaMessage]:
        """`batch`, off the event loop."""
        if not inputs:
            return []
        call = partial(_aanswer_many, await self._adecisions(kwargs), return_exceptions)
        outputs: list[LayaMessage] = []
        for states, configs in _chunks(inputs, config):
            outputs += await self._abatch_with_config(
                call, states, configs, return_exceptions=return_exceptions, run_type="llm"
            )
            _reraise_interruption(outputs)
        return outputs

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Text, an object or an array; the other inputs have no JSON form."""
        return LayaRunnableInput

    async def _adecisions(self, overrides: dict[str, Any]) -> Decisions:
        # Loading `model` takes seconds, which the event loop must not spend.
        if self.runner is None:
            decisions: Decisions = await _offload(self._decisions, overrides)
            return decisions
        return self._decisions(overrides)


def _answer(decisions: Decisions, input: StateInput, run_manager: Any) -> LayaMessage:
    capture = RunCapture()
    try:
        decision = decisions.one(state_of(input), capture)
    except BaseException:
        record_run_id(run_manager, capture.run_id)
        raise
    return _recorded(decision, run_manager)


async def _aanswer(decisions: Decisions, input: StateInput, run_manager: Any) -> LayaMessage:
    capture = RunCapture()
    try:
        decision = await decisions.aone(state_of(input), capture, offload=_offload)
    except BaseException:
        record_run_id(run_manager, capture.run_id)
        raise
    return _recorded(decision, run_manager)


def _answer_many(
    decisions: Decisions, one_by_one: bool, inputs: list[StateInput], run_manager: list[Any]
) -> list[LayaMessage | Exception]:
    capture = RunCapture()
    try:
        found = decisions.many([state_of(input) for input in inputs], capture)
    except BaseException as error:
        if not _worth_single_tries(error, one_by_one, inputs):
            _record_failure(run_manager, capture)
            raise
        return [_answer_or_error(decisions, *item) for item in zip(inputs, run_manager, strict=True)]
    return [_recorded(*item) for item in zip(found, run_manager, strict=True)]


async def _aanswer_many(
    decisions: Decisions, one_by_one: bool, inputs: list[StateInput], run_manager: list[Any]
) -> list[LayaMessage | Exception]:
    capture = RunCapture()
    try:
        found = await decisions.amany([state_of(input) for input in inputs], capture, offload=_offload)
    except BaseException as error:
        if not _worth_single_tries(error, one_by_one, inputs):
            _record_failure(run_manager, capture)
            raise
        return [await _aanswer_or_error(decisions, *item) for item in zip(inputs, run_manager, strict=True)]
    return [_recorded(*item) for item in zip(found, run_manager, strict=True)]


def _answer_or_error(decisions: Decisions, input: StateInput, run_manager: Any) -> LayaMessage | Exception:
    try:
        return _answer(decisions, input, run_manager)
    except Exception as error:
        return error


async def _aanswer_or_error(
    decisions: Decisions, input: StateInput, run_manager: Any
) -> LayaMessage | Exception:
    try:
        return await _aanswer(decisions, input, run_manager)
    except Exception as error:
        return error


def _worth_single_tries(error: BaseException, one_by_one: bool, inputs: list[StateInput]) -> bool:
    return one_by_one and isinstance(error, Exception) and len(inputs) > 1


def _record_failure(run_managers: list[Any], capture: RunCapture) -> None:
    for run_manager in run_managers:
        record_run_id(run_manager, capture.run_id)


def _recorded(decision: Decision, run_manager: Any) -> LayaMessage:
    message = _message(decision)
    record_decision(run_manager, decision, message)
    return message


def _message(decision: Decision) -> LayaMessage:
    metadata = {"model_name": decision.model_name, "model_provider": PROVIDER, **run_metadata(decision)}
    if "routing" in decision.result:
        metadata["routing"] = decision.result["routing"]
    usage = None if decision.usage is None else cast(UsageMetadata, decision.usage)
    return LayaMessage(
        content=json.dumps(decision.values, ensure_ascii=False, separators=(",", ":")),
        result=dict(decision.result),
        run_id=decision.run_id,
        usage_metadata=usage,
        response_metadata=metadata,
    )


def _chunks(
    inputs: list[StateInput], config: RunnableConfig | list[RunnableConfig] | None
) -> Iterator[tuple[list[StateInput], list[RunnableConfig]]]:
    """The inputs with their configs, at most `max_concurrency` at a time."""
    configs = [with_provider(item) for item in get_config_list(config, len(inputs))]
    size = configs[0].get("max_concurrency") or len(inputs)
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size], configs[start : start + size]


def _reraise_interruption(outputs: list[Any]) -> None:
    """With `return_exceptions`, LangChain returns a cancellation or Ctrl-C as if it were an item's error."""
    for output in outputs:
        if isinstance(output, BaseException) and not isinstance(output, Exception):
            raise output
