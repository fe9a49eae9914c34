"""Temperatures: what a question's logits are divided by before they become probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laya._checkpoints.config import KINDS, CheckpointConfig, bucket, confine_temperature
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
    """Read `{language code: {bucket or type: temperature}}`; what a language leaves out is the checkpoint's.

    Raises `OptionError` for an unknown key or a temperature that is no number within [0.5, 5].
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OptionError(f"lang_temperatures must be a dict of language code to temperatures, got {value!r}")
    return {language_key(lang): _one_language(lang, entry, fallback) for lang, entry in value.items()}


def language_key(lang: Any) -> str:
    """The first subtag of a language code, in lower case: `de` of `de_AT.UTF-8`."""
    if not isinstance(lang, str):
        raise OptionError(f"lang must be a language code such as 'de', got {type(lang).__name__}")
    return lang.strip().lower().replace("_", "-").replace(".", "-").split("-")[0]


def _one_language(lang: Any, entry: Any, fallback: Temperatures) -> Temperatures:
    if not isinstance(entry, Mapping):
        raise OptionError(f"lang_temperatures[{lang!r}] must be a dict of bucket to temperature, got {entry!r}")
    by_type = list(fallback.by_type)
    # A language that sets a type's temperature overrules the checkpoint's buckets of that type.
    by_bucket = {key: t for key, t in fallback.by_bucket.items() if key.split(":")[0] not in entry}
    for key, temperature in entry.items():
        if confine_temperature(temperature) != temperature or isinstance(temperature, bool):
            raise OptionError(f"lang_temperatures[{lang!r}][{key!r}] must be a number from 0.5 to 5, got {temperature!r}")
        if key in KINDS:
            by_type[KINDS.index(key)] = float(temperature)
        elif key in BUCKETS:
            by_bucket[key] = float(temperature)
        else:
            raise OptionError(
                f"lang_temperatures[{lang!r}] has the unknown key {key!r}; use one of {', '.join((*KINDS, *BUCKETS))}"
            )
    return Temperatures((by_type[0], by_type[1], by_type[2]), by_bucket)
