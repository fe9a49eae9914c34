"""The PyTorch agent: one checkpoint, loaded from a directory or the Hub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from laya._base_agent import BaseAgent
from laya._checkpoints.config import load_config, load_encoder_config, load_tokenizer_names
from laya._checkpoints.source import resolve_checkpoint
from laya._forward.device import choose_device
from laya._forward.fast import load_forward
from laya._lifecycle import CallHooks
from laya._pipeline.calibration import check_lang_temperatures
from laya._pipeline.engine import Engine
from laya._pipeline.tokenizer import TextTokenizer
from laya._sharing import parse_window

DEFAULT_MODEL = "convaiinnovations/laya"


class Agent(BaseAgent):
    """A decision model on one device.

    Args:
        model_id_or_path: "laya-mini", a checkpoint's directory, or its Hub id (`subfolder`, `token` and `revision` as
            there).
        device: A torch device; None takes CUDA, MPS, XPU or the CPU, the first that is there. One that isn't is
            a `RuntimeWarning`, and the best there is takes its place.
        fast: Store the weights in a narrow type, BF16 or F16, where the device is faster in it and no probability
            about a few built-in texts moves by more than 0.01; the load tries it.
        compile: Compile the network with `torch.compile`; the first calls are slow.
        hooks, on_predict_start, on_predict_end: Installed hooks, see `laya.hooks`.
        hooks_raise: False turns a failing hook into a `RuntimeWarning`.
        hooks_concurrent: False lets one hook of this agent run at a time.
        hooks_timeout: Seconds that a hook may take; None for no bound.
        expected_sha256: `{file: digest}`, compared before any file is parsed.
        lang_temperatures: For calls with `lang=`: `{language: {"temperature": [choice, score, noul],
            "temperature_by_options": {bucket: t}}}`, either key or both, as in `rl_agent_config.json`.
        batch_window_ms: Calls from different threads or tasks that arrive within so many milliseconds share
            passes, whatever they ask; a call that comes alone is that much slower. 0 shares only what gathers
            while a pass runs. None for passes of each call's own, as calls with a `batch_size` always have.

    In a forked process a prediction on the CPU uses one thread; an agent is not pickled, load one in each process.

    Raises `CheckpointError`s that name the file at fault, see `laya.errors`.
    """

    def __init__(
        self,
        model_id_or_path: str | os.PathLike[str] = DEFAULT_MODEL,
        device: str | torch.device | None = None,
        token: str | bool | None = None,
        subfolder: str | None = None,
        fast: bool = False,
        compile: bool = False,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
        *,
        revision: str | None = None,
        expected_sha256: Mapping[str, str] | None = None,
        lang_temperatures: Mapping[str, Mapping[str, Any]] | None = None,
        batch_window_ms: float | None = None,
    ) -> None:
        installed = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        installed.check()
        parse_window(batch_window_ms)
        chosen = choose_device(device)
        files = resolve_checkpoint(
            model_id_or_path,
            subfolder=subfolder,
            token=token,
            revision=revision,
            expected_sha256=expected_sha256,
        )
        config = load_config(files.config)
        # Refused here rather than after the weights have been read.
        check_lang_temperatures(lang_temperatures)
        tokenizer = TextTokenizer.from_file(files.tokenizer, load_tokenizer_names(files.tokenizer_config))
        tokenizer.check_vocabulary(load_encoder_config(files.encoder_config).get("vocab_size"), files.tokenizer)
        forward = load_forward(files, config, tokenizer, chosen, fast, compile)
        model_id = os.fspath(model_id_or_path)
        engine = Engine(tokenizer, forward, config)
        super().__init__(engine, model_id, installed, hooks_concurrent, lang_temperatures, batch_window_ms)
        self.device = chosen
        self.subfolder = subfolder
        self.revision = files.revision
        self._files = files
        self._weights = f"{forward.parameters / 1e6:.1f}M parameters, {forward.precision}"

    def __repr__(self) -> str:
        where = self.model_id if self.subfolder is None else f"{self.model_id}/{self.subfolder}"
        if self._engine is None:
            return f"Agent({where!r}, closed)"
        config = self._engine.config
        return (
            f"Agent({where!r}, device={str(self.device)!r}, {self._weights}, "
            f"max_len={config.max_len}, head_max_len={config.head_max_len}, hooks={len(self.hooks)})"
        )


def load(
    model_id_or_path: str | os.PathLike[str] = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    token: str | bool | None = None,
    subfolder: str | None = None,
    fast: bool = False,
    compile: bool = False,
    hooks: Any = None,
    on_predict_start: Any = None,
    on_predict_end: Any = None,
    hooks_raise: bool = True,
    hooks_concurrent: bool = True,
    hooks_timeout: float | None = None,
    *,
    revision: str | None = None,
    expected_sha256: Mapping[str, str] | None = None,
    lang_temperatures: Mapping[str, Mapping[str, Any]] | None = None,
    batch_window_ms: float | None = None,
) -> Agent:
    """Load an agent; the arguments are those of `Agent`."""
    return Agent(
        model_id_or_path,
        device,
        token,
        subfolder,
        fast,
        compile,
        hooks,
        on_predict_start,
        on_predict_end,
        hooks_raise,
        hooks_concurrent,
        hooks_timeout,
        revision=revision,
        expected_sha256=expected_sha256,
        lang_temperatures=lang_temperatures,
        batch_window_ms=batch_window_ms,
    )
