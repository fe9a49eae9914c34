"""What every agent does: predict, predict_batch, predict_long and decide, over an engine and the lifecycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from laya._aside import Aside, detached
from laya._inference import AsyncRun, EngineInference, Prepared
from laya._lifecycle import CallHooks, HookedRuntime
from laya._long_state import LongState
from laya._lowering import lower_questions
from laya._pipeline.calibration import Temperatures, language_key, parse_lang_temperatures
from laya._pipeline.engine import BatchOptions, Engine
from laya._pipeline.windows import check_window_options
from laya._sharing import SharedPasses, parse_window
from laya.errors import LayaError, OptionError
from laya.hooks import PredictContext

if TYPE_CHECKING:
    from pydantic import BaseModel

    from laya.types import Result

Model = TypeVar("Model", bound="BaseModel")

States = list[Any] | tuple[Any, ...]

Budgets = tuple[int | None, int | None]
"""A call's `max_len` and `head_max_len`; None means the checkpoint's own."""


class BaseAgent(HookedRuntime):
    """Answers typed questions with one checkpoint. Safe to call from many threads.

    Every prediction takes these arguments beside its own:

    - `hooks`, `on_predict_start`, `on_predict_end`: hooks of this call, after the installed ones.
    - `hooks_raise`, `hooks_timeout` (seconds a hook may take): None means the instance's value.
    - `max_len`, `head_max_len`: tokens of a whole sequence, and of its question; None means the checkpoint's.
    - `min_confidence`: a number in [0, 1], or `{bucket: number}`; answers whose `answer_confidence` is lower are
      marked `low_confidence`, and every answer reports `abstention` and `abstention_threshold`.
    - `lang`: a language code; it selects the `lang_temperatures` given for that language, if any.

    `apredict` and `apredict_batch` are for asyncio. Nothing of them blocks the event loop: hooks, and what is
    computed, run in threads, in a copy of the caller's context variables. A task that is cancelled gets its
    `CancelledError` at once, and so do the hooks, as `ctx.error`.
    """

    def __init__(
        self,
        engine: Engine,
        model_id: str,
        hooks: CallHooks = CallHooks(),  # noqa: B008 - frozen
        hooks_concurrent: bool = True,
        lang_temperatures: Mapping[str, Mapping[str, Any]] | None = None,
        batch_window_ms: float | None = None,
    ) -> None:
        super().__init__(hooks, hooks_concurrent)
        self._engine: Engine | None = engine
        window = parse_window(batch_window_ms)
        self._shared: SharedPasses | None = (
            None if window is None else SharedPasses(engine.run_together, window, engine.forward.cost.budget)
        )
        self.batch_window_ms = batch_window_ms
        """Milliseconds in which calls gather to share passes; None where each has its own."""
        self._lang_temperatures = parse_lang_temperatures(lang_temperatures, engine.temperatures)
        self.model_id = model_id
        """The path or Hub id that the agent was loaded from."""

    @property
    def max_len(self) -> int:
        """Tokens of a sequence, unless a call asks for others."""
        return self._open_engine().config.max_len

    @property
    def head_max_len(self) -> int:
        """Tokens of a sequence's question part, unless a call asks for others."""
        return self._open_engine().config.head_max_len

    def system_one(
        self,
        state: Any,
        questions: Any,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
        lang: str | None = None,
    ) -> Result:
        """Answer questions about one state: `predict_batch` with a list of one.

        Raises `QuestionError` (a `ValueError`) naming a question that can't be asked, `StateError` (a
        `TypeError`) for a state that is None or can't be written as JSON, and whatever a hook raises.
        """
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        budgets = (max_len, head_max_len)
        ctx = self._run(BatchOptions(), [state], questions, call, budgets, min_confidence, lang, single=True)
        return only_result(ctx)  # type: ignore[no-any-return]

    predict = system_one

    def predict_batch(
        self,
        states: list[Any] | tuple[Any, ...],
        questions: Any,
        batch_size: int | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        sort_by_length: bool = False,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
        lang: str | None = None,
        show_progress: bool = False,
    ) -> list[Result]:
        """Answer the same questions about many states; results are in input order.

        With `batch_size=None` the runtime chooses the passes: rows of similar length share one, within a token
        budget. A number is obeyed: so many states a pass, in input order or, with `sort_by_length`, by length.
        `show_progress` shows a bar over states. Raises as `predict` does.
        """
        options = BatchOptions(check_batch_size(batch_size), bool(sort_by_length), show_progress)
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        ctx = self._run(options, states, questions, call, (max_len, head_max_len), min_confidence, lang)
        return ctx.results  # type: ignore[return-value]

    async def apredict(
        self,
        state: Any,
        questions: Any,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
        lang: str | None = None,
    ) -> Result:
        """`predict` for asyncio. With a `batch_window_ms`, calls that wait for a shared pass take no thread."""
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        budgets = (max_len, head_max_len)
        ctx = await self._arun(BatchOptions(), [state], questions, call, budgets, min_confidence, lang, single=True)
        return only_result(ctx)  # type: ignore[no-any-return]

    async def apredict_batch(
        self,
        states: list[Any] | tuple[Any, ...],
        questions: Any,
        batch_size: int | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool | None = None,
        hooks_timeout: float | None = None,
        max_len: int | None = None,
        head_max_len: int | None = None,
        sort_by_length: bool = False,
        *,
        min_confidence: float | Mapping[str, float] | None = None,
        lang: str | None = None,
        show_progress: bool = False,
    ) -> list[Result]:
        """`predict_batch` for asyncio; cancelled, it ends before its next pass."""
        options = BatchOptions(check_batch_size(batch_size), bool(sort_by_length), show_progress)
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        ctx = await self._arun(options, states, questions, call, (max_len, head_max_len), min_confidence, lang)
        return ctx.results  # type: ignore[return-value]

    def predict_long(
        self,
        state: Any,
        questions: Any,
        window: int | None = None,
        stride: int | None = None,
        aggregate: str = "auto",
        batch_size: int | None = None,
        lang: str | None = None,
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
        """Answer questions about a state of any length, by scanning it in windows.

        `window` and `stride` are in tokens; by default a window of `max(64, max_len - head_max_len - 8)`, at most
        what the questions leave, moves by half its width. A noul answer is that of the window with the highest
        P(true), others that of the window with the highest `answer_confidence`; `answer["window"]` names it, and
        `usage["windows"]` counts the windows. A state that fits is answered as by `predict`. Hooks wrap the scan:
        `ctx.states` are the windows' texts. `min_confidence` gates the answers that are returned.

        Raises as `predict` does, and `OptionError` (a `ValueError`) for a stride wider than the window, another
        `aggregate`, or questions that leave no room.
        """
        scan = check_window_options(window, stride, aggregate)
        call = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        options = BatchOptions(check_batch_size(batch_size))
        return self._run_long(state, questions, scan, call, (max_len, head_max_len), options, min_confidence, lang)

    @overload
    def decide(self, state: Any, schema: type[Model], **options: Any) -> Model: ...

    @overload
    def decide(self, state: Any, schema: Mapping[str, Any], **options: Any) -> dict[str, Any]: ...

    def decide(self, state: Any, schema: Any, **options: Any) -> BaseModel | dict[str, Any]:
        """Answer the question set that a pydantic model or JSON schema stands for, as an instance of it.

        `options` are those of `predict`. An answer below `min_confidence` is None. A JSON schema gives a dict.
        Raises `QuestionError` (a `ValueError`) naming a field that no question can be made of.
        """
        from laya.questions import Schema

        parsed = Schema.from_spec(schema)
        result = self.predict(state, parsed.questions, **options)
        decided: BaseModel | dict[str, Any] = parsed.instance(_answers(result))
        return decided

    @overload
    def decide_batch(self, states: States, schema: type[Model], **options: Any) -> list[Model]: ...

    @overload
    def decide_batch(self, states: States, schema: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]: ...

    def decide_batch(self, states: list[Any] | tuple[Any, ...], schema: Any, **options: Any) -> list[Any]:
        """`decide` over many states, in input order; `options` are those of `predict_batch`."""
        from laya.questions import Schema

        parsed = Schema.from_spec(schema)
        results = self.predict_batch(states, parsed.questions, **options)
        return [parsed.instance(_answers(result)) for result in results]

    def temperatures(self, lang: str | None) -> Temperatures | None:
        """The temperatures that a call in this language has of its own; None where `lang` makes no difference."""
        return None if lang is None else self._lang_temperatures.get(language_key(lang))

    def close(self) -> None:
        """Let go of the model; calls that are running end normally, later ones raise `LayaError`."""
        self._engine = self._shared = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self, options: BatchOptions, *call: Any, single: bool = False) -> PredictContext:
        """Run a call to its end; `call` are the further arguments of `_prepare`."""
        (ctx,) = self._prepare(options, *call, single=single).run()
        return ctx

    async def _arun(self, options: BatchOptions, *call: Any, single: bool = False) -> PredictContext:
        """`_run`, off the event loop."""
        aside = Aside()
        prepare = partial(self._prepare, replace(options, before_pass=aside.check), *call, single=single)
        (ctx,) = await detached(AsyncRun(aside, prepare).finish())
        return ctx

    def _prepare(
        self,
        options: BatchOptions,
        states: Any,
        questions: Any,
        call: CallHooks,
        budgets: Budgets,
        min_confidence: Any,
        lang: str | None,
        *,
        single: bool,
    ) -> Prepared:
        lifecycle = self._lifecycle(call, min_confidence, single=single)
        inference = EngineInference(self._open_engine(), self._shared, options, self.temperatures(lang))
        ctx = self._context(states, lower_questions(questions, strict=False), budgets)
        return Prepared(lifecycle, [ctx], inference)

    def _run_long(
        self,
        state: Any,
        questions: Any,
        scan_options: tuple[int | None, int | None],
        call: CallHooks,
        budgets: Budgets,
        options: BatchOptions,
        min_confidence: Any,
        lang: str | None,
    ) -> Result:
        lifecycle = self._lifecycle(call, min_confidence)
        engine, lowered = self._open_engine(), lower_questions(questions)
        scan = LongState.plan(engine, state, lowered, budgets, *scan_options)
        ctx = self._context(scan.states, lowered, budgets)
        check = partial(scan.check_room, engine)
        inference = EngineInference(engine, self._shared, options, self.temperatures(lang), check)

        def infer(pending: list[PredictContext]) -> None:
            inference.infer(pending)
            scan.scored = sum(len(ctx.states) for ctx in pending)

        # The gate belongs to the answers returned; over several windows those are put together after the hooks.
        gate = lifecycle.gate
        replace(lifecycle, gate=None if scan.windows else gate).run([ctx], infer)
        result: Result = scan.merge(ctx)
        if gate is not None and scan.windows:
            result = gate.apply([result])[0]
        return result

    def _context(self, states: Any, questions: Any, budgets: Budgets) -> PredictContext:
        return PredictContext(
            states, questions, model=self.model_id, agent=self, max_len=budgets[0], head_max_len=budgets[1]
        )

    def _open_engine(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise LayaError(f"this agent ({self.model_id!r}) is closed; load it again to predict")
        return engine


def _answers(result: Any) -> Any:
    """A result's answers; none where a hook's payload has none, so that the missing field is named."""
    answers = result.get("answers") if isinstance(result, Mapping) else None
    return answers if isinstance(answers, Mapping) else {}


def only_result(ctx: PredictContext) -> Any:
    """The result of a call about one state, which the lifecycle has seen to be one."""
    results: Any = ctx.results
    (result,) = results
    return result


def check_batch_size(value: Any) -> int | None:
    """A `batch_size` argument, or `OptionError` (a `ValueError`)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise OptionError(
            f"batch_size must be a positive whole number of states or None, got {value!r}", option="batch_size"
        )
    return int(value)
