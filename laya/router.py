"""The Router: decides which checkpoint answers, keeps a few in memory, and shares their forward passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from laya._agent_calls import (
    AsyncPredict,
    Predict,
    apredict,
    apredict_batch,
    language_of,
    predict_batch,
    predict_long,
    system_one,
)
from laya._aside import Aside, detached
from laya._base_agent import BaseAgent, check_batch_size, only_result
from laya._checkpoints.catalog import ATTACHED, Catalog, Source, SourceLike
from laya._checkpoints.residency import Residency
from laya._inference import AsyncRun, Prepared
from laya._lifecycle import CallHooks, HookedRuntime, Lifecycle
from laya._lowering import lower_questions
from laya._requests import Request, parse_requests
from laya._routed_inference import RoutedInference
from laya._routing.rules import RouteDecision, route
from laya.errors import LayaError, OptionError
from laya.hooks import PredictContext

if TYPE_CHECKING:
    from laya.types import Result


class Router(HookedRuntime):
    """Answers typed questions with the checkpoint that fits. Safe to call from many threads.

    Args:
        models: `{name: directory | Hub id | (directory or Hub id, subfolder)}`; re-points a published checkpoint
            (`english`, `multilingual`, `typed-decisions`, or an alias) or adds one. A path that ends in `.onnx` is an
            exported file with its checkpoint's files beside it (or in the subfolder), for an `ONNXAgent`.
        device, token: As for `Agent`.
        max_loaded: Checkpoints that are in memory at most; the least recently used goes first.
        default: The checkpoint for states that give no evidence of their language.
        auto_task_detection: Let a known workflow, told by its question ids, decide.
        standalone_repos: Take the published checkpoints from a repository each.
        preload: Build all of them now, and raise `max_loaded` to fit.
        lang_guess: A language code, or a callable on the state that returns one; a hint before detection.
        hooks, on_predict_start, on_predict_end, hooks_raise, hooks_concurrent, hooks_timeout: As for `Agent`.
        agent_options: Further keyword arguments for each `Agent` that is built.

    Every prediction takes the routing arguments `model` (a name or alias), `task`, `lang` and `lang_guess`, and
    beside them the arguments of an agent's calls. `apredict` and `apredict_batch` are for asyncio, as an agent's are.
    """

    def __init__(
        self,
        models: Mapping[str, SourceLike] | None = None,
        device: Any = None,
        token: str | bool | None = None,
        max_loaded: int = 2,
        default: str = "english",
        auto_task_detection: bool = False,
        standalone_repos: bool = False,
        preload: bool = False,
        lang_guess: str | Callable[[Any], str | None] | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
        *,
        agent_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout), hooks_concurrent
        )
        if type(max_loaded) is not int or max_loaded < 1:
            raise OptionError(f"max_loaded must be a positive whole number, got {max_loaded!r}", option="max_loaded")
        self._catalog = Catalog.build(models, standalone_repos=standalone_repos)
        self._default = self._catalog.resolve_name(default)
        self._lang_guess = lang_guess
        self._auto_task_detection = auto_task_detection
        self._agent_options = {"device": device, "token": token, **(agent_options or {})}
        self._residency = Residency(self._build, max_loaded)
        if preload:
            self.preload()

    @property
    def loaded(self) -> list[str]:
        """Names of the checkpoints in memory, least recently used first."""
        return self._residency.names

    @property
    def max_loaded(self) -> int:
        """Checkpoints that are in memory at most."""
        return self._residency.limit

    def route(
        self,
        state: Any,
        questions: Any = None,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: str | Callable[[Any], str | None] | None = None,
        hooks: Any = None,
        hooks_raise: bool | None = None,
    ) -> RouteDecision:
        """Decide which checkpoint answers, and why; loads nothing. `on_route` hooks may replace the decision."""
        lifecycle = self._lifecycle(CallHooks(hooks, hooks_raise=hooks_raise))
        lowered = {} if questions is None else lower_questions(questions, strict=False)
        request = Request(state, lowered, model, task, lang, lang_guess)
        return self._decide(request, PredictContext([state], request.questions, router=self), lifecycle)

    def route_batch(
        self, requests: Sequence[Mapping[str, Any]], hooks: Any = None, hooks_raise: bool | None = None
    ) -> list[RouteDecision]:
        """`route` for each request, `{"state", "questions", model?, task?, lang?, lang_guess?, ...}`; loads nothing."""
        lifecycle = self._lifecycle(CallHooks(hooks, hooks_raise=hooks_raise))
        return [
            self._decide(request, PredictContext([request.state], request.questions, router=self), lifecycle)
            for request in parse_requests(requests)
        ]

    def predict(
        self,
        state: Any,
        questions: Any,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: str | Callable[[Any], str | None] | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> Result:
        """Answer questions about one state with the checkpoint that fits; the result has `routing`, the decision.

        Raises as `Agent.predict` does, and `OptionError` (a `ValueError`) for an unknown `model` or `task`.
        """
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        request = Request(state, questions, model, task, lang, lang_guess, max_len, head_max_len)
        (ctx,) = self._prepare_one(request, call, min_confidence, system_one).run()
        return only_result(ctx)  # type: ignore[no-any-return]

    system_one = predict

    async def apredict(
        self,
        state: Any,
        questions: Any,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: str | Callable[[Any], str | None] | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> Result:
        """`predict` for asyncio; routing and loading run in a thread, too."""
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        request = Request(state, questions, model, task, lang, lang_guess, max_len, head_max_len)
        aside = Aside()
        ask = partial(apredict, context=aside.context)
        prepare = partial(self._prepare_one, request, call, min_confidence, system_one, ask)
        (ctx,) = await detached(AsyncRun(aside, prepare).finish())
        return only_result(ctx)  # type: ignore[no-any-return]

    def predict_batch(
        self,
        requests: Sequence[Mapping[str, Any]],
        batch_size: int | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
        lang: str | None = None,
    ) -> list[Result]:
        """Answer many requests, those of one checkpoint and question set on shared passes; in input order.

        A request is `{"state", "questions"}` with `model`, `task`, `lang`, `lang_guess`, `max_len` and
        `head_max_len` as options; the call's `lang` is for those that name none. Each is a call of its own to hooks.
        All are routed before anything is loaded. If anything of a checkpoint's requests fails, all of them do; those
        of earlier checkpoints have ended.
        """
        size = check_batch_size(batch_size)
        lifecycle = self._lifecycle(
            CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout), min_confidence, single=True
        )
        routed = self._route_all(requests, lang, lifecycle)
        results: dict[int, Any] = {}
        for members in _by_model(routed):
            group = self._prepare_group(members, lifecycle, partial(predict_batch, batch_size=size))
            results |= _results(members, group.run())
            del group  # it has the agent, which may have to make room for the next
        return [results[index] for index in range(len(routed))]

    async def apredict_batch(
        self,
        requests: Sequence[Mapping[str, Any]],
        batch_size: int | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
        lang: str | None = None,
    ) -> list[Result]:
        """`predict_batch` for asyncio; routing and loading run in a thread, too."""
        size = check_batch_size(batch_size)
        lifecycle = self._lifecycle(
            CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout), min_confidence, single=True
        )
        return await detached(self._apredict_all(Aside(), requests, size, lang, lifecycle))

    def predict_long(
        self,
        state: Any,
        questions: Any,
        window: int | None = None,
        stride: int | None = None,
        aggregate: str = "auto",
        batch_size: int | None = None,
        model: str | None = None,
        task: str | None = None,
        lang: str | None = None,
        lang_guess: str | Callable[[Any], str | None] | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        *,
        max_len: int | None = None,
        head_max_len: int | None = None,
        min_confidence: float | Mapping[str, float] | None = None,
    ) -> Result:
        """`Agent.predict_long` on the checkpoint that fits; the result has `routing`.

        Router hooks see the state, the hooks of the agent itself see the windows.
        """
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        request = Request(state, questions, model, task, lang, lang_guess, max_len, head_max_len)
        scan = {"window": window, "stride": stride, "aggregate": aggregate, "batch_size": batch_size}
        inferred: list[bool] = []

        def predict(*asked: Any) -> list[Any]:
            inferred.append(True)
            return predict_long(*asked, scan=scan)

        (ctx,) = self._prepare_one(request, call, min_confidence, predict).run()
        result = only_result(ctx)
        if not inferred:  # a hook's payload reads as no window, on a copy
            result = {**result, "usage": {**(result.get("usage") or {}), "windows": 0}}
        return result  # type: ignore[no-any-return]

    def load(self, name: str) -> Any:
        """The agent of a checkpoint, built on first use; fires `on_evict` for what leaves, then `on_load`."""
        resolved = self._catalog.resolve_name(name)
        return self._load(resolved, self._lifecycle(CallHooks()), PredictContext([], {}).run_id)

    def preload(self, names: Sequence[str] | None = None) -> None:
        """Build checkpoints, all by default, and raise `max_loaded` to fit; fires `on_load` for each build."""
        catalog = self._catalog
        wanted = (
            # One that was attached is there already, or can't be built.
            [name for name in catalog.names if catalog.source(name) is not ATTACHED]
            if names is None
            else [catalog.resolve_name(name) for name in names]
        )
        self._residency.reserve(set(wanted))
        for name in wanted:
            self.load(name)

    def unload(self, name: str | None = None) -> None:
        """Free a checkpoint, or all; fires `on_evict` for each. A running call keeps its own until it ends."""
        resolved = None if name is None else self._catalog.resolve_name(name)
        lifecycle = self._lifecycle(CallHooks())
        self._announce(lifecycle, PredictContext([], {}).run_id, evicted=self._residency.remove(resolved))

    def attach(self, name: str, agent: Any) -> Any:
        """Register an agent under a name, known or new, and return it; fires no `on_load`, evicts nothing.

        `agent` is an `Agent`, an `ONNXAgent`, or anything with their `system_one`, `predict` or `predict_batch`.
        """
        if isinstance(agent, type | Router) or not any(
            callable(getattr(agent, call, None)) for call in ("system_one", "predict", "predict_batch")
        ):
            got = f"the class {agent.__name__}" if isinstance(agent, type) else type(agent).__name__
            raise OptionError(f"attach takes an agent, which has system_one() or predict(), got {got}", option="agent")
        with self._attaching:
            catalog = self._catalog.with_attached(name)
            # The agent goes first: a name that another thread can find must have its agent.
            self._residency.put(catalog.resolve_name(name), agent)
            self._catalog = catalog
        return agent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.unload()

    def __repr__(self) -> str:
        return (
            f"Router({', '.join(self._catalog.names)}; loaded={self.loaded}, max_loaded={self.max_loaded}, "
            f"default={self._default!r}, hooks={len(self.hooks)})"
        )

    def _renew_locks(self) -> None:
        super()._renew_locks()
        self._attaching = Lock()

    def _build(self, name: str) -> Any:
        source = self._catalog.source(name)
        if source is ATTACHED:
            raise LayaError(f"{name!r} was attached and is no longer loaded; attach it again")
        if source.repo_or_path.endswith(".onnx"):
            return _onnx_agent(source, self._agent_options)
        from laya.agent import Agent

        return Agent(source.repo_or_path, subfolder=source.subfolder, **self._agent_options)

    def _load(self, name: str, lifecycle: Lifecycle, run_id: str) -> Any:
        """The agent of a resolved name; `run_id` is the call that it is loaded for."""
        loaded = self._residency.get(name)
        self._announce(lifecycle, run_id, loaded.evicted, {name: loaded.agent} if loaded.built else {})
        return loaded.agent

    def _announce(
        self,
        lifecycle: Lifecycle,
        run_id: str,
        evicted: Iterable[str] = (),
        built: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Tell hooks what left and what came: all of it, also where a hook fails, since they may keep count.

        Raises the first failure.
        """
        about = partial(PredictContext, [], {}, run_id, router=self)
        events = [("on_evict", about(model=name)) for name in evicted]
        events += [("on_load", about(model=name, agent=agent)) for name, agent in built.items()]
        first: BaseException | None = None
        for event, ctx in events:
            try:
                lifecycle.emit(event, ctx)
            # As in `dispatch`, a cancelled task in a hook is that hook's failure.
            except (Exception, asyncio.CancelledError) as error:
                first = first or error
        if first is not None:
            raise first

    def _decide(self, request: Request, ctx: PredictContext, lifecycle: Lifecycle) -> RouteDecision:
        """Route a request; `ctx` is for the `on_route` hooks, which may replace its decision."""
        decision = route(
            request.state,
            request.questions,
            catalog=self._catalog,
            model=request.model,
            task=request.task,
            lang=request.lang,
            lang_guess=request.lang_guess,
            default_guess=self._lang_guess,
            default=self._default,
            auto_task_detection=self._auto_task_detection,
        )
        ctx.decision = RouteDecision(decision)
        lifecycle.emit("on_route", ctx)
        return self._resolved(ctx.decision, decision)

    def _resolved(self, decision: Any, before: RouteDecision) -> RouteDecision:
        """The decision that stands after the hooks: any mapping with a `model`, which may be an alias."""
        if not isinstance(decision, Mapping) or not isinstance(decision.get("model"), str):
            raise OptionError("an on_route hook must leave ctx.decision a dict that names a 'model'", option="decision")
        name = self._catalog.resolve_name(decision["model"])
        source = self._catalog.source(name)
        if name != before.model:  # what a hook left standing is about the checkpoint that it replaced
            stale = [key for key in ("repo", "reason") if decision.get(key) == before[key]]
            decision = {key: value for key, value in decision.items() if key not in stale}
        known = {
            "repo": "/".join(filter(None, (source.repo_or_path, source.subfolder))),
            "reason": "A hook chose it.",
            "detection": None,
            "workflow": None,
        }
        return RouteDecision({"model": name, **known, **decision} | {"model": name})

    def _context(self, request: Request, decision: RouteDecision, run_id: str, name: str, agent: Any) -> PredictContext:
        return PredictContext(
            [request.state],
            request.questions,
            run_id=run_id,
            decision=decision,
            model=name,
            agent=agent,
            router=self,
            max_len=request.max_len,
            head_max_len=request.head_max_len,
        )

    def _prepare_one(
        self,
        request: Request,
        call: CallHooks,
        min_confidence: Any,
        predict: Predict,
        ask: AsyncPredict | None = None,
    ) -> Prepared:
        """Route one request and load its checkpoint; a failure there ends the call as well."""
        lifecycle = self._lifecycle(call, min_confidence, single=True)
        request.check()
        routing = PredictContext([request.state], request.questions, router=self)
        try:
            decision = self._decide(request, routing, lifecycle)
            routing.decision, routing.model = decision, decision["model"]
            agent = self._load(decision["model"], lifecycle, routing.run_id)
        except BaseException as error:
            lifecycle.fail([routing], error)
            raise
        ctx = self._context(request, decision, routing.run_id, decision["model"], agent)
        inference = RoutedInference.of([ctx], {ctx: language_of(agent, request.lang)}, predict, ask)
        return Prepared(lifecycle, inference.starting(), inference)

    def _route_all(self, requests: Any, lang: str | None, lifecycle: Lifecycle) -> list[_Routed]:
        """Check and route every request; nothing is loaded."""
        routed = []
        for index, request in enumerate(parse_requests(requests, lang)):
            ctx = PredictContext([request.state], request.questions, router=self)
            routed.append(_Routed(index, request, self._decide(request, ctx, lifecycle), ctx.run_id))
        return routed

    def _prepare_group(
        self, members: Sequence[_Routed], lifecycle: Lifecycle, predict: Predict, ask: AsyncPredict | None = None
    ) -> Prepared:
        """Load the checkpoint that these requests were routed to."""
        name = members[0].decision["model"]
        agent = self._load(name, lifecycle, members[0].run_id)
        contexts = [self._context(one.request, one.decision, one.run_id, name, agent) for one in members]
        languages = {ctx: language_of(agent, one.request.lang) for ctx, one in zip(contexts, members, strict=True)}
        inference = RoutedInference.of(contexts, languages, predict, ask)
        return Prepared(lifecycle, inference.starting(), inference)

    async def _apredict_all(
        self, aside: Aside, requests: Any, size: int | None, lang: str | None, lifecycle: Lifecycle
    ) -> list[Any]:
        routed = await aside(partial(self._route_all, requests, lang, lifecycle))
        predict = partial(predict_batch, batch_size=size)
        ask = partial(apredict_batch, batch_size=size, context=aside.context)
        results: dict[int, Any] = {}
        for members in _by_model(routed):
            prepare = partial(self._prepare_group, members, lifecycle, predict, ask)
            results |= _results(members, await AsyncRun(aside, prepare).finish())
        return [results[index] for index in range(len(routed))]


@dataclass(frozen=True, slots=True)
class _Routed:
    """One request of a batch, and where it goes."""

    index: int
    request: Request
    decision: RouteDecision
    run_id: str


def _by_model(routed: Iterable[_Routed]) -> list[list[_Routed]]:
    """The requests of each checkpoint, in order of first appearance."""
    groups: dict[str, list[_Routed]] = {}
    for one in routed:
        groups.setdefault(one.decision["model"], []).append(one)
    return list(groups.values())


def _results(members: Sequence[_Routed], contexts: Sequence[PredictContext]) -> dict[int, Any]:
    return {member.index: only_result(ctx) for member, ctx in zip(members, contexts, strict=True)}


def _onnx_agent(source: Source, options: Mapping[str, Any]) -> BaseAgent:
    """The agent of an exported file; options that only an `Agent` has mean nothing to it."""
    from laya.onnx_agent import ONNXAgent

    path = Path(source.repo_or_path).expanduser().absolute()
    known = {name: value for name, value in options.items() if name not in ("fast", "compile", "device")}
    if str(options.get("device")) == "cpu":
        known.setdefault("providers", ["CPUExecutionProvider"])
    return ONNXAgent(path.parent, path, source.subfolder, **known)
