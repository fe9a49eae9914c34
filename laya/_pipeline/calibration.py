"""Temperatures: what a question's logits are divided by before they become probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laya._checkpoints.config import KINDS, CheckpointConfig, ConfinedTemperatures, bucket
from laya.errors import OptionError

BUCKETS = tuple(f"{kind}:{size}" for kind in KINDS for size in ("2", "3-5", "6-10", "11+"))
"""Question types by number of options: the keys of `temperature_by_options` and of a confidence gate."""


@dataclass(frozen=True, slots=True)
class Temperatures:
    """One temperature a question type, and closer ones for some buckets. All lie within [0.5, 5]."""

    by_type: tuple[float, float, float]
    by_bucket: Mapping[str, float]

    @classmethod
    def of_checkpoint(cls, config: CheckpointConfig) -> Temperatures:
        return cls(config.temperature, config.temperature_by_options)

    def of(self, kind: str, options: int) -> float:
        """The temperature of a question with so many options."""
        return self.by_bucket.get(bucket(kind, options), self.by_type[KINDS.index(kind)])


def parse_lang_temperatures(value: Any, fallback: Temperatures) -> dict[str, Temperatures]:
    """Read `{language: {"temperature": [choice, score, noul], "temperature_by_options": {bucket: t}}}`.

    Both keys are optional, and as in a checkpoint's configuration; what a language leaves out is the checkpoint's.
    Temperatures are confined to [0.5, 5], with one `RuntimeWarning`. Raises `OptionError` for another shape.
    """
    confined = ConfinedTemperatures()
    parsed = _languages(value, fallback, confined)
    confined.warn("lang_temperatures")
    return parsed


def check_lang_temperatures(value: Any) -> None:
    """Refuse what `parse_lang_temperatures` refuses, before there is a checkpoint to fall back to."""
    _languages(value, Temperatures((1.0, 1.0, 1.0), {}), ConfinedTemperatures())


def language_key(lang: Any) -> str:
    """The first subtag of a language code, in lower case: `de` of `de_AT.UTF-8`."""
    if not isinstance(lang, str):
        raise OptionError(f"lang must be a language code such as 'de', got {type(lang).__name__}", option="lang")
    return lang.strip().lower().replace("_", "-").replace(".", "-").split("-")[0]


def _languages(value: Any, fallback: Temperatures, confined: ConfinedTemperatures) -> dict[str, Temperatures]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _error(f"lang_temperatures must be a dict of language code to temperatures, got {value!r}")
    for lang in value:
        if not isinstance(lang, str):
            raise _error(f"lang_temperatures has the key {lang!r}; use language codes such as 'de'")
    return {language_key(lang): _one_language(lang, entry, fallback, confined) for lang, entry in value.items()}


def _error(message: str) -> OptionError:
    return OptionError(message, option="lang_temperatures")


def _one_language(lang: str, entry: Any, fallback: Temperatures, confined: ConfinedTemperatures) -> Temperatures:
    name = f"lang_temperatures[{lang!r}]"
    if not isinstance(entry, Mapping) or not set(entry) <= {"temperature", "temperature_by_options"}:
        raise _error(f"{name} must be a dict with 'temperature', 'temperature_by_options' or both, got {entry!r}")
    by_type = entry.get("temperature", fallback.by_type)
    if not isinstance(by_type, list | tuple) or len(by_type) != len(KINDS):
        raise _error(f"{name}['temperature'] must be three numbers, for choice, score and noul, got {by_type!r}")
    by_bucket = entry.get("temperature_by_options", fallback.by_bucket)
    if not isinstance(by_bucket, Mapping) or not set(by_bucket) <= set(BUCKETS):
        raise _error(f"{name}['temperature_by_options'] may have the keys {', '.join(BUCKETS)}, got {by_bucket!r}")
    choice, score, noul = (confined.confine(f"{lang}:{kind}", t) for kind, t in zip(KINDS, by_type, strict=True))
    return Temperatures(
        (choice, score, noul), {key: confined.confine(f"{lang}:{key}", t) for key, t in by_bucket.items()}
    )
