"""One state that may be longer than a sequence: its windows on the way in, one result on the way out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from laya._lowering import lower_questions
from laya._pipeline.engine import Engine
from laya._pipeline.rows import empty_result
from laya._pipeline.states import check_states, state_text
from laya._pipeline.windows import Window, merge_windows, plan_windows
from laya.errors import OptionError
from laya.hooks import PredictContext


@dataclass(slots=True)
class LongState:
    """A scan: what is asked about, and what became of it."""

    states: list[Any]
    """What the start hooks see: the windows' texts, or the state itself where it fits."""
    windows: tuple[Window, ...] = ()
    size: int = 0
    scored: int = 0
    """Texts that the model read; 0 as long as none was."""
    _planned: tuple[str, ...] = ()

    @classmethod
    def plan(
        cls,
        engine: Engine,
        state: Any,
        questions: Any,
        budgets: tuple[int | None, int | None],
        window: int | None,
        stride: int | None,
    ) -> LongState:
        """Tokenize the state once and place the windows; raises before any hook has run."""
        check_states([state])
        heads = engine.heads(questions, budgets)
        resolved = engine.budgets(*budgets)
        room = min((head.room for head in heads), default=None)
        ids = engine.tokenizer.encode([state_text(state)])[0]
        plan = plan_windows(len(ids), room, window, stride, (resolved.max_len, resolved.head_max_len))
        if not plan.spans:
            return cls([state], size=plan.size)
        windows = tuple(Window(start, end, engine.tokenizer.decode(ids[start:end])) for start, end in plan.spans)
        texts = tuple(piece.text for piece in windows)
        return cls(list(texts), windows, plan.size, _planned=texts)

    def check_room(self, engine: Engine, ctx: PredictContext) -> None:
        """Refuse questions or budgets of a start hook that leave less room than the windows need."""
        heads = engine.heads(lower_questions(ctx.questions), (ctx.max_len, ctx.head_max_len))
        room = min((head.room for head in heads), default=self.size)
        if room < self.size:
            raise OptionError(
                f"a start hook left room for {room} tokens beside the questions, the window of this scan has "
                f"{self.size}; pass a smaller window"
            )

    def merge(self, ctx: PredictContext) -> Any:
        """The call's one result. A hook's payload is copied, never changed."""
        results = ctx.results or []
        if not results:
            warnings.warn("a hook left no states to score: there are no answers", RuntimeWarning, stacklevel=3)
            results = [{**empty_result(), "run_id": ctx.run_id}]
        if len(results) == 1:
            result = dict(results[0])
            result["usage"] = {**(result.get("usage") or {}), "windows": self.scored}
            return result
        named = self.windows if self.scored and self._as_planned(ctx) else None
        merged = merge_windows(results, named)
        merged["usage"]["windows"] = self.scored
        if self.scored:
            merged["run_id"] = ctx.run_id
        return merged

    def _as_planned(self, ctx: PredictContext) -> bool:
        states: Any = ctx.states  # an end hook may have left anything there
        return bool(self.windows) and isinstance(states, list | tuple) and tuple(states) == self._planned
