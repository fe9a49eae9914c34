"""The fields that pydantic-based adapters share: who answers, with which call options."""

from __future__ import annotations

from typing import Annotated, Any, Never, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from laya_integrations._decisions import check_runner
from laya_integrations._options import OPTION_NAMES, CallOptions
from laya_integrations._runners import default_runner, load_runner


class _LeftBehind:
    """Stands for the runner of an unpickled object; a pickle of it is itself."""

    def __reduce__(self) -> str:
        return "_LEFT_BEHIND"


_LEFT_BEHIND = _LeftBehind()


def _checked_runner(runner: Any) -> Any:
    return runner if runner is None or runner is _LEFT_BEHIND else check_runner(runner)


def refuse_positional(owner: object, args: tuple[Any, ...]) -> None:
    """Raise a TypeError for arguments without a name: the only one that anybody would give is the runner."""
    if args:
        name = type(owner).__name__
        raise TypeError(f"{name} takes its arguments by name; write {name}(runner=...)")


class RunnerFields(BaseModel):
    """Hold a runner, or the name of the model to load, with its options; neither means the default Router.

    A runner holds locks and weights, so it is left out of repr, dumps and pickles; `model` is what a pickle
    keeps.
    """

    runner: Annotated[Any, AfterValidator(_checked_runner)] = Field(default=None, exclude=True, repr=False)
    """An `Agent`, a `Router`, or any object with laya's `predict`."""
    model: str | None = None
    """Instead of a runner: a checkpoint path, Hub id or registered name, loaded on first use and once per process."""
    options: CallOptions = CallOptions()
    """laya's call options, the same for each call; a call may override some by name."""

    def __init__(self, *args: Never, **fields: Any) -> None:
        refuse_positional(self, args)
        super().__init__(**fields)

    @model_validator(mode="before")
    @classmethod
    def _no_bare_options(cls, fields: Any) -> Any:
        bare = OPTION_NAMES.intersection(fields) - cls.model_fields.keys() if isinstance(fields, dict) else ()
        if bare:
            name = min(bare)
            raise ValueError(f"{name} is an option of laya's calls; pass options=CallOptions({name}=...)")
        return fields

    @model_validator(mode="after")
    def _one_runner(self) -> Self:
        if self.runner is not None and self.model is not None:
            raise ValueError(f"{type(self).__name__} takes either runner= or model=, got both")
        return self

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        if self.runner is None:
            return state
        return {**state, "__dict__": {**state["__dict__"], "runner": _LEFT_BEHIND}}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        memo = {} if memo is None else memo
        memo[id(self.runner)] = self.runner
        return super().__deepcopy__(memo)

    def _loaded_runner(self) -> Any:
        self._check_kept()
        if self.runner is not None:
            return self.runner
        return default_runner() if self.model is None else load_runner(self.model)

    def _check_kept(self) -> None:
        if self.runner is _LEFT_BEHIND:
            raise RuntimeError(
                f"this {type(self).__name__} was unpickled without its runner; make it with model= "
                "(a checkpoint's path, Hub id or registered name), which a pickle keeps"
            )
