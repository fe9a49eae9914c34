"""What `RunnerFields` need to be part of a LlamaIndex component, which can be written as a dict and read again."""

from __future__ import annotations

from typing import Any, Self

from llama_index.core.schema import BaseComponent
from pydantic import BaseModel, ConfigDict

from laya_integrations._fields import _LEFT_BEHIND, RunnerFields

_LEFT_OUT = "runner_left_out"
_ITEMS = "__items__"
"""The one key of what stands for a mapping with other keys than texts, which JSON can't have; its value: the pairs."""


class ComponentFields(RunnerFields, BaseComponent):
    """Who answers and with which options, in a component.

    `to_dict`, `to_json` and pickles leave the runner out and keep `model`. Only what was made without a runner can
    be read again as it is; otherwise `from_dict` takes the runner anew: `from_dict(data, runner=agent)`.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The component as a dict, with a mark where it had a runner.

        A mapping with keys that are no texts, as of a choice among numbers, becomes the list of its pairs, for JSON.
        """
        data: dict[str, Any] = _with_text_keys(super().to_dict(**kwargs))
        return data if self.runner is None else {**data, _LEFT_OUT: self._runner_mark()}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The component of a dict; keywords replace its entries.

        Raises ValueError where the dict's component had a runner and neither `runner` nor `model` is given anew.
        """
        data = _with_own_keys(data)
        if data.pop(_LEFT_OUT, False) and not kwargs.keys() & {"runner", "model"}:
            raise ValueError(
                f"this {cls.class_name()} was written without its runner; give one: "
                "from_dict(data, runner=...), or model= with a checkpoint's path, Hub id or registered name"
            )
        component: Self = super().from_dict(data, **kwargs)
        return component

    def _runner_mark(self) -> Any:
        """What a dict says of the runner that it leaves out."""
        return True

    def __getstate__(self) -> dict[Any, Any]:
        # LlamaIndex's own would pickle the runner's weights to see whether it can, and log that it could not.
        state = BaseModel.__getstate__(self)
        fields = dict(state["__dict__"])
        # Its handlers hold open spans and locks; reading the pickle takes the manager of the process it is in.
        fields.pop("callback_manager", None)
        if self.runner is not None:
            fields["runner"] = _LEFT_BEHIND
        return {**state, "__dict__": fields}


def _with_text_keys(value: Any) -> Any:
    match value:
        case dict():
            items = [(key, _with_text_keys(item)) for key, item in value.items()]
            return dict(items) if all(isinstance(key, str) for key in value) else {_ITEMS: list(map(list, items))}
        case list():
            return [_with_text_keys(item) for item in value]
    return value


def _with_own_keys(value: Any) -> Any:
    match value:
        case dict():
            items = value[_ITEMS] if value.keys() == {_ITEMS} else value.items()
            return {key: _with_own_keys(item) for key, item in items}
        case list():
            return [_with_own_keys(item) for item in value]
    return value
