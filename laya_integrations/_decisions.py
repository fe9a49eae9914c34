"""Ask a runner its questions about one state or many, from sync or async code.

Every adapter goes through `Decisions`; it is the one place that knows how runners differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from laya.hooks import HookRegistry, PredictContext, default_hooks
from laya_integrations._options import REQUEST_OPTIONS, ROUTER_OPTIONS, CallOptions
from laya_integrations._runners import explain_offline

MAPPINGS = (dict, Mapping)
"""For `isinstance` on the way of every call: a dict, as laya's are, passes without the check of an abstract class."""

Offload = Callable[..., Awaitable[Any]]
"""Runs a blocking function off the event loop, with the caller's context variables; so does `to_thread`."""


@runtime_checkable
class Runner(Protocol):
    """What every runner has: one state in, one result out."""

    def predict(self, state: Any, questions: Any, **options: Any) -> Any: ...


@runtime_checkable
class StatesRunner(Runner, Protocol):
    """A runner that answers many states in shared passes, all with the same options (an Agent)."""

    def predict_batch(self, states: Any, questions: Any, **options: Any) -> Any: ...


@runtime_checkable
class RequestsRunner(Runner, Protocol):
    """A runner that chooses a checkpoint per request and takes request dicts (a Router)."""

    def route_batch(self, requests: Any, **options: Any) -> Any: ...

    def predict_batch(self, requests: Any, **options: Any) -> Any: ...


@runtime_checkable
class AsyncRunner(Runner, Protocol):
    """A runner that can be awaited; it keeps blocking work off the event loop, with the caller's context variables."""

    def apredict(self, state: Any, questions: Any, **options: Any) -> Awaitable[Any]: ...

    def apredict_batch(self, *states_or_requests: Any, **options: Any) -> Awaitable[Any]: ...


@dataclass(frozen=True)
class Decision:
    """One result with what identifies its call."""

    result: Mapping[str, Any]
    """laya's whole result."""
    run_id: str | None = None
    """laya's id of the call; None where the runner has none."""
    batch_index: int | None = None
    """Position inside the call that `run_id` names, where that call answered several states."""

    @property
    def values(self) -> dict[str, Any]:
        """Each question's bare answer, by question id."""
        return {question_id: answer_value(answer) for question_id, answer in self.result["answers"].items()}

    def answer(self, question_id: Any) -> Mapping[str, Any]:
        """One question's whole answer; raises ValueError where the result has none."""
        answer = self.result["answers"].get(question_id)
        if not isinstance(answer, MAPPINGS):
            raise ValueError(f"the runner's result has no answer to {question_id!r}; check the runner and its hooks")
        return answer

    @property
    def model_name(self) -> str:
        """The model's name in the result."""
        return str(self.result.get("model") or "laya")

    @property
    def usage(self) -> dict[str, int] | None:
        """Input, output and total tokens; None where the result reports no usage."""
        usage = self.result.get("usage")
        return token_counts(usage) if isinstance(usage, MAPPINGS) else None

    @property
    def truncated(self) -> bool:
        """Whether part of the state didn't fit the token budget; False where the result doesn't say."""
        usage = self.result.get("usage")
        return isinstance(usage, MAPPINGS) and bool(usage.get("truncated"))


@dataclass
class RunCapture:
    """Collects laya's run ids of one call, also of a call that fails.

    A payload that a hook hands in may carry an earlier call's id, or none, so the context's id counts.
    """

    contexts: dict[str, PredictContext] = field(default_factory=dict)
    """The call's contexts, after all start hooks, by run id."""
    _payloads: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def run_id(self) -> str | None:
        """The id of the call, if exactly one was seen."""
        return next(iter(self._payloads)) if len(self._payloads) == 1 else None

    def started(self, ctx: PredictContext) -> None:
        self.contexts[ctx.run_id] = ctx
        self._payloads.setdefault(ctx.run_id, [])

    def ended(self, ctx: PredictContext) -> None:
        self._payloads[ctx.run_id] = list(ctx.results or [])

    def run_ids(self, results: Sequence[Any]) -> list[str | None]:
        """The run id of each result.

        Contexts start in input order, so of several that share one payload object the first started comes
        first.
        """
        if (only := self.run_id) is not None:
            return [only] * len(results)
        owners: dict[int, list[str]] = {}
        for run_id, payloads in self._payloads.items():
            for payload in payloads:
                owners.setdefault(id(payload), []).append(run_id)
        return [ids.pop(0) if (ids := owners.get(id(result))) else _own_run_id(result) for result in results]


_NO_OPTIONS = CallOptions()

_TELLING: set[type] = set()
"""laya's classes whose results were seen to have their call's id, as not every release's have."""


@dataclass(frozen=True)
class Decisions:
    """A runner with its questions and call options. Thread-safe where the runner is."""

    runner: Any
    questions: Any
    options: CallOptions = _NO_OPTIONS

    @property
    def hooked(self) -> bool:
        """Whether hooks are to run: the process's, the runner's or the call's; a Router's agents may have more."""
        options, runner = self.options, self.runner
        if options.hooks or options.on_predict_start or options.on_predict_end or default_hooks():
            return True
        return isinstance(runner, HookRegistry) and bool(runner.hooks)

    def one(self, state: Any, capture: RunCapture | None = None) -> Decision:
        """Answer the questions about one state."""
        call = self._call_for_one(state, capture)
        result = self._ask(self.runner.predict, call)
        return call.decision(result)

    def one_unhooked(self, state: Any) -> Decision:
        """`one` where nothing is `hooked`: without a hook of our own once a result is seen to have its call's id."""
        kind = type(self.runner)
        if kind in _TELLING:
            call = self._call_for_one(state, None, captured=False)
            result = self._ask(self.runner.predict, call)
            return Decision(_checked(result), _own_run_id(result))
        decision = self.one(state)
        tells = decision.run_id is not None and decision.run_id == _own_run_id(decision.result)
        # Of laya's own classes it is known where their hooks are; a Router's agents have some of their own.
        if tells and kind.__module__.startswith("laya.") and not hasattr(self.runner, "route_batch"):
            _TELLING.add(kind)
        return decision

    def many(self, states: Sequence[Any], capture: RunCapture | None = None) -> list[Decision]:
        """Answer the questions about each state, in order; one laya call where the runner has batches."""
        if not states:
            return []
        call = self._call_for_many(states, capture)
        if call is None:
            return [self.one(state) for state in states]
        results = self._ask(self.runner.predict_batch, call)
        return call.decisions(self._counted(results, states))

    async def aone(
        self, state: Any, capture: RunCapture | None = None, *, offload: Offload = asyncio.to_thread
    ) -> Decision:
        """`one`, off the event loop: awaited where the runner can be, else by `offload`."""
        if not isinstance(self.runner, AsyncRunner):
            decision: Decision = await offload(self.one, state, capture)
            return decision
        call = self._call_for_one(state, capture)
        result = await self._aask(self.runner.apredict, call)
        return call.decision(result)

    async def amany(
        self,
        states: Sequence[Any],
        capture: RunCapture | None = None,
        *,
        offload: Offload = asyncio.to_thread,
    ) -> list[Decision]:
        """`many`, off the event loop: awaited where the runner can be, else by `offload`."""
        call = self._call_for_many(states, capture) if states and isinstance(self.runner, AsyncRunner) else None
        if call is None:
            decisions: list[Decision] = await offload(self.many, states, capture)
            return decisions
        results = await self._aask(self.runner.apredict_batch, call)
        return call.decisions(self._counted(results, states))

    def _ask(self, ask: Callable[..., Any], call: _Call) -> Any:
        try:
            return ask(*call.args, **call.options)
        except OSError as error:
            explain_offline(self.runner, error)
            raise

    async def _aask(self, ask: Callable[..., Awaitable[Any]], call: _Call) -> Any:
        try:
            return await ask(*call.args, **call.options)
        except OSError as error:
            explain_offline(self.runner, error)
            raise

    def _counted(self, results: Sequence[Any], states: Sequence[Any]) -> list[Any]:
        """One result a state; where a hook answered the whole call with a payload, its tokens count once."""
        if len(results) == 1 < len(states) and isinstance(self.runner, HookRegistry):
            payload = _checked(results[0])
            others = {key: value for key, value in payload.items() if key != "usage"}
            return [payload, *(dict(others) for _ in states[1:])]
        if len(results) != len(states):
            raise RuntimeError(f"the runner's predict_batch gave {len(results)} results for {len(states)} states")
        return list(results)

    def _call_for_one(self, state: Any, capture: RunCapture | None, *, captured: bool = True) -> _Call:
        options = self.options.given()
        options.pop("batch_size", None)
        return self._call((state, self.questions), options, capture, captured=captured)

    def _call_for_many(self, states: Sequence[Any], capture: RunCapture | None) -> _Call | None:
        """The one call for all states; None for a runner without batches."""
        options = self.options.given()
        match self.runner:
            case RequestsRunner():
                shared = {name: options.pop(name) for name in REQUEST_OPTIONS if name in options}
                requests = [{"state": state, "questions": self.questions, **shared} for state in states]
                return self._call((requests,), options, capture, one_context_each=True)
            case StatesRunner():
                return self._call((list(states), self.questions), options, capture, one_call_for_all=True)
        return None

    def _call(
        self,
        args: tuple[Any, ...],
        options: dict[str, Any],
        capture: RunCapture | None,
        *,
        one_call_for_all: bool = False,
        one_context_each: bool = False,
        captured: bool = True,
    ) -> _Call:
        """A call with the capture, unless it isn't to be, as the last callables: nothing changes results after it."""
        ends_count = capture is not None or one_context_each
        capture = RunCapture() if capture is None else capture
        if isinstance(self.runner, HookRegistry):
            wrong = ROUTER_OPTIONS & options.keys()
            if wrong and not isinstance(self.runner, RequestsRunner):
                raise TypeError(
                    f"the option {min(wrong)!r} chooses among a Router's checkpoints, and this runner, "
                    f"{type(self.runner).__name__}, is one; leave it out, or pass a Router"
                )
            if captured:
                options["on_predict_start"] = [*_callables(options.get("on_predict_start")), capture.started]
            if ends_count:
                # Which result is whose is known at the end only, and so is the id of a call that a start hook fails.
                options["on_predict_end"] = [*_callables(options.get("on_predict_end")), capture.ended]
        return _Call(args, options, capture, one_call_for_all)


@dataclass(frozen=True)
class _Call:
    """How a runner is called, and what is read from what it returns."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    capture: RunCapture
    one_call_for_all: bool
    """Whether the results share one run id, and are told apart by their position."""

    def decision(self, result: Any) -> Decision:
        """The decision of a call about one state."""
        run_id = self.capture.run_id
        return self.decisions([result])[0] if run_id is None else Decision(_checked(result), run_id)

    def decisions(self, results: Sequence[Any]) -> list[Decision]:
        """A decision for each result, with the id of its call."""
        return [
            Decision(_checked(result), run_id, index if self.one_call_for_all else None)
            for index, (result, run_id) in enumerate(zip(results, self.capture.run_ids(results), strict=True))
        ]


def check_runner(runner: Any) -> Any:
    """Return the runner, or raise a TypeError for what has no `predict`."""
    if isinstance(runner, type) or not isinstance(runner, Runner):
        got = f"the class {runner.__name__}" if isinstance(runner, type) else type(runner).__name__
        instead = "model= takes a checkpoint's name or path" if isinstance(runner, str) else "pass an Agent or a Router"
        raise TypeError(f"runner must have laya's predict(state, questions), got {got}; {instead}")
    return runner


def token_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Input, output and total tokens of a result's or a context's usage; what it doesn't report is 0."""
    read, written = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
    total = int(usage.get("total_tokens") or read + written)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": total}


def answer_value(answer: Mapping[str, Any]) -> Any:
    """The bare answer: a choice's label, true or false for a noul, a score's most probable level.

    None when the answer fell below the confidence gate. noul is true from 0.5 on; of equally probable levels
    the lowest is taken. Raises ValueError for what is no answer.
    """
    if not isinstance(answer, MAPPINGS):
        raise ValueError(f"an answer must be a dict with a 'type', got {type(answer).__name__}")
    if answer.get("low_confidence"):
        return None
    try:
        match answer.get("type"):
            case "choice":
                return answer["choice"]
            case "noul":
                return bool(answer["noul"] >= 0.5)
            case "score":
                levels = answer["probabilities"]
                if not levels:
                    raise ValueError("a score answer needs at least one level in 'probabilities'")
                return int(max(sorted(levels, key=int), key=levels.__getitem__))
    except KeyError as missing:
        raise ValueError(f"a {answer['type']} answer needs {missing}, which this one lacks") from None
    raise ValueError(f"an answer's type is choice, score or noul, got {answer.get('type')!r}")


def _callables(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _own_run_id(result: Any) -> str | None:
    run_id = result.get("run_id") if isinstance(result, MAPPINGS) else None
    return run_id if isinstance(run_id, str) else None


def _checked(result: Any) -> Mapping[str, Any]:
    if not isinstance(result, MAPPINGS) or not isinstance(result.get("answers"), MAPPINGS):
        got = "a dict without them" if isinstance(result, MAPPINGS) else type(result).__name__
        raise TypeError(
            f"the runner's result must be a dict with a dict of 'answers', got {got}; "
            "check the runner, or the hook that skipped the call"
        )
    return result
