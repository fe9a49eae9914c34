"""What a checkpoint's JSON files say: budgets, temperatures, special tokens."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laya.errors import CheckpointError, CheckpointFormatError, CheckpointNotFoundError

KINDS = ("choice", "score", "noul")
"""Question types in the order of their numbers: of `temperature`, and of the type embedding."""

LOWEST_TEMPERATURE = 0.5
HIGHEST_TEMPERATURE = 5.0


@dataclass(frozen=True)
class CheckpointConfig:
    """Hold what the runtime reads from `rl_agent_config.json`, types checked and defaults filled in."""

    max_len: int
    """Tokens of a whole sequence."""
    head_max_len: int
    """Tokens of question and options; may exceed `max_len`: a question that doesn't fit is refused then."""
    head_layers: int
    temperature: tuple[float, float, float]
    """Of choice, score and noul, each within [0.5, 5]."""
    temperature_by_options: Mapping[str, float]
    """By bucket (`choice:3-5`), each within [0.5, 5]; it goes before `temperature`."""
    actions: int
    """Outputs of the act head: acting, and one for each of `act_costs`."""
    amp_dtype: str
    model_name: str | None
    raw: Mapping[str, Any] = field(repr=False)
    """The file as it is on disk, unknown keys and unconfined temperatures included."""


@dataclass(frozen=True)
class SpecialTokens:
    """Name the tokenizer's special tokens that a sequence is built with."""

    cls: str
    sep: str
    mask: str
    pad: str


def load_config(path: str | os.PathLike[str]) -> CheckpointConfig:
    """Read `rl_agent_config.json`; one RuntimeWarning names all temperatures that had to be replaced.

    Raises CheckpointFormatError, naming the file and the key, for anything unreadable or of a wrong type.
    """
    source = _JsonFile.read(path)
    temperatures = ConfinedTemperatures()
    by_type = source.triple("temperature", default=[1.0, 1.0, 1.0])
    choice, score, noul = (temperatures.confine(f"temperature[{i}]", t) for i, t in enumerate(by_type))
    by_options = {
        bucket: temperatures.confine(bucket, t) for bucket, t in source.mapping("temperature_by_options").items()
    }
    config = CheckpointConfig(
        max_len=source.integer("max_len", default=512, at_least=1),
        head_max_len=source.integer("head_max_len", default=192, at_least=1),
        head_layers=source.integer("head_layers", default=2, at_least=0),
        temperature=(choice, score, noul),
        temperature_by_options=by_options,
        actions=len(source.mapping("act_costs")) + 1,
        amp_dtype=source.text("amp_dtype") or "bf16",
        model_name=source.text("model_name"),
        raw=source.content,
    )
    temperatures.warn(source.path)
    return config


def load_encoder_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read `encoder/config.json` as it is; only its `model_type` is checked to be there."""
    source = _JsonFile.read(path)
    if not source.text("model_type"):
        raise source.error("'model_type' is missing; without it the encoder's architecture is unknown")
    return source.content


def load_tokenizer_names(path: str | os.PathLike[str]) -> SpecialTokens:
    """Read the special tokens from `tokenizer_config.json`; bos and eos stand in for cls and sep."""
    source = _JsonFile.read(path)
    return SpecialTokens(
        cls=source.token("cls_token", "bos_token"),
        sep=source.token("sep_token", "eos_token"),
        mask=source.token("mask_token"),
        pad=source.token("pad_token"),
    )


def bucket(kind: str, n_options: int) -> str:
    """Name the bucket of a question with so many options: `kind:2`, `kind:3-5`, `kind:6-10`, `kind:11+`.

    A single option counts as two: its probability is 1 at any temperature.
    """
    if n_options <= 2:
        size = "2"
    elif n_options <= 5:
        size = "3-5"
    elif n_options <= 10:
        size = "6-10"
    else:
        size = "11+"
    return f"{kind}:{size}"


def confine_temperature(value: object) -> float:
    """Bring a temperature into [0.5, 5], where probabilities mean something; 1.0 for no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 1.0
    # Compared, not converted: JSON integers may be too large for a float.
    if value != value or value in (float("inf"), float("-inf")):
        return 1.0
    return float(min(max(value, LOWEST_TEMPERATURE), HIGHEST_TEMPERATURE))


class ConfinedTemperatures:
    """Confine temperatures to the range in which probabilities mean something; remember what was replaced."""

    def __init__(self) -> None:
        self._replaced: list[str] = []

    def confine(self, name: str, value: object) -> float:
        """Return `value` within the range, and 1.0 for what is no finite number."""
        usable = confine_temperature(value)
        # A bool equals 1.0 or 0.0, yet is a mistake to be named.
        if isinstance(value, bool) or usable != value:
            self._replaced.append(f"{name}={_short(value)} -> {usable:g}")
        return usable

    def warn(self, source: Path | str) -> None:
        """Name all that was replaced in one warning, if anything was."""
        if self._replaced:
            warnings.warn(
                f"{source}: temperatures must lie in [{LOWEST_TEMPERATURE:g}, {HIGHEST_TEMPERATURE:g}]; "
                f"replaced {', '.join(self._replaced)}. The probabilities they give are not calibrated.",
                RuntimeWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class _JsonFile:
    """A JSON object on disk, read key by key; a key that is null counts as missing."""

    path: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> _JsonFile:
        file = Path(path)
        try:
            content = json.loads(file.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError as error:
            raise CheckpointNotFoundError(f"{file}: no such file", path=file) from error
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read: {error.strerror}", path=file) from error
        except UnicodeDecodeError as error:
            message = f"{file}: not UTF-8 at byte {error.start}; copy or download the file again"
            raise CheckpointFormatError(message, path=file) from error
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            message = f"{file}: not JSON at {where} ({error.msg}); copy or download the file again"
            raise CheckpointFormatError(message, path=file) from error
        except (ValueError, RecursionError) as error:
            # An integer of thousands of digits, or thousands of nested brackets.
            raise CheckpointFormatError(f"{file}: not usable JSON: {error}", path=file) from error
        if not isinstance(content, dict):
            message = f"{file}: a JSON object is needed at the top, not {_short(content)}"
            raise CheckpointFormatError(message, path=file)
        return cls(file, content)

    def error(self, message: str) -> CheckpointFormatError:
        return CheckpointFormatError(f"{self.path}: {message}", path=self.path)

    def integer(self, key: str, *, default: int, at_least: int) -> int:
        value = self.content.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise self.error(f"{key!r} must be an integer of at least {at_least}, not {_short(value)}")
        return value

    def text(self, key: str) -> str | None:
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{key!r} must be a string, not {_short(value)}")
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.content.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(f"{key!r} must be an object, not {_short(value)}")
        return value

    def triple(self, key: str, *, default: list[Any]) -> list[Any]:
        value = self.content.get(key)
        if value is None:
            return default
        if not isinstance(value, list) or len(value) != len(default):
            raise self.error(f"{key!r} must be a list of {len(default)} numbers, not {_short(value)}")
        return value

    def token(self, key: str, stand_in: str | None = None) -> str:
        for candidate in (key, stand_in):
            value = self.content.get(candidate) if candidate else None
            name = value.get("content") if isinstance(value, dict) else value
            if isinstance(name, str) and name:
                return name
        alternative = f" (nor {stand_in!r})" if stand_in else ""
        raise self.error(f"{key!r} is missing or names no token{alternative}; sequences need it")


def _short(value: object) -> str:
    """Show a value's type, and the value where it is short."""
    if isinstance(value, (list, dict)):
        return f"{type(value).__name__} of {len(value)}"
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"
