"""The ONNX agent: an exported checkpoint, answered by onnxruntime. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from laya._base_agent import BaseAgent
from laya._checkpoints.config import load_config, load_encoder_config, load_tokenizer_names
from laya._checkpoints.identity import check_belongs
from laya._checkpoints.source import CheckpointFiles, resolve_checkpoint
from laya._lifecycle import CallHooks
from laya._pipeline.calibration import check_lang_temperatures
from laya._pipeline.engine import Engine
from laya._pipeline.tokenizer import TextTokenizer
from laya._sharing import parse_window
from laya.errors import CheckpointFormatError, CheckpointNotFoundError, OptionError


class ONNXAgent(BaseAgent):
    """A decision model exported with `laya.export_onnx`, with the calls and answers of `Agent`.

    Args:
        model_id_or_path: The checkpoint that was exported: a directory, or a Hub id. Its configuration and
            tokenizer are needed, its weights are not (and not downloaded).
        onnx_path: The exported file. A relative path is looked for in the current directory, then in the
            checkpoint's; it is never looked for on the Hub.
        subfolder, token, revision: Where the checkpoint is, as for `Agent`.
        hooks, on_predict_start, on_predict_end, hooks_raise, hooks_concurrent, hooks_timeout: As for `Agent`.
        expected_sha256: `{file: digest}`, as for `Agent`; weights are those that the export was made of.
        providers: onnxruntime execution providers, best first; None takes CUDA, ROCm, MIGraphX, DirectML or the
            CPU, the first that is there. One that isn't is a `RuntimeWarning`.
        lang_temperatures, batch_window_ms: As for `Agent`.

    A file made by `laya.export_onnx` records the digests of its checkpoint: another one's configuration, tokenizer
    or weights beside it are a `CheckpointIntegrityError`. A file of other origin is taken as it is.
    """

    def __init__(
        self,
        model_id_or_path: str | os.PathLike[str],
        onnx_path: str | os.PathLike[str] = "laya.onnx",
        subfolder: str | None = None,
        hooks: Any = None,
        on_predict_start: Any = None,
        on_predict_end: Any = None,
        hooks_raise: bool = True,
        hooks_concurrent: bool = True,
        hooks_timeout: float | None = None,
        *,
        token: str | bool | None = None,
        revision: str | None = None,
        expected_sha256: Mapping[str, str] | None = None,
        providers: str | Sequence[str | tuple[str, dict[str, Any]]] | None = None,
        lang_temperatures: Mapping[str, Mapping[str, float]] | None = None,
        batch_window_ms: float | None = None,
    ) -> None:
        # Here, not above: the class can be imported and named without the extra.
        from laya._forward.onnx_forward import OnnxForward, choose_providers
        from laya._forward.rope import positions_on_disk

        installed = CallHooks(hooks, on_predict_start, on_predict_end, hooks_raise, hooks_timeout)
        installed.check()
        parse_window(batch_window_ms)
        check_lang_temperatures(lang_temperatures)
        chosen = choose_providers(providers)
        wanted = _parse_path(onnx_path)
        files = resolve_checkpoint(
            model_id_or_path,
            subfolder=subfolder,
            token=token,
            revision=revision,
            expected_sha256=expected_sha256,
            weights=False,
        )
        path = _find_model(wanted, files)
        config = load_config(files.config)
        tokenizer = TextTokenizer.from_file(files.tokenizer, load_tokenizer_names(files.tokenizer_config))
        encoder_config = load_encoder_config(files.encoder_config)
        tokenizer.check_vocabulary(encoder_config.get("vocab_size"), files.tokenizer)
        forward = OnnxForward(path, chosen, positions_on_disk(encoder_config))
        check_belongs(path, forward.metadata.get("sha256"), files, expected_sha256)
        if forward.actions not in (None, config.actions):
            raise CheckpointFormatError(
                f"{path} scores {forward.actions} actions, {files.config} has {config.actions}; export it again",
                path=path,
            )
        model_id = os.fspath(model_id_or_path)
        engine = Engine(tokenizer, forward, config)
        super().__init__(engine, model_id, installed, hooks_concurrent, lang_temperatures, batch_window_ms)
        self.subfolder = subfolder
        self.revision = files.revision
        self.onnx_path = path
        """The exported file in use."""
        self.providers = forward.providers
        """The execution providers in use, best first."""

    def __repr__(self) -> str:
        where = self.model_id if self.subfolder is None else f"{self.model_id}/{self.subfolder}"
        if self._engine is None:
            return f"ONNXAgent({where!r}, closed)"
        config = self._engine.config
        return (
            f"ONNXAgent({where!r}, onnx_path={str(self.onnx_path)!r}, providers={list(self.providers)}, "
            f"max_len={config.max_len}, head_max_len={config.head_max_len}, hooks={len(self.hooks)})"
        )


def _parse_path(value: Any) -> Path:
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"onnx_path must be the path of an ONNX file, got {type(value).__name__}", option="onnx_path")
    return Path(os.path.expanduser(text))


def _find_model(path: Path, files: CheckpointFiles) -> Path:
    places = [path] if files.revision is not None else [path, files.root / path]
    for place in places:
        if place.is_file():
            return place
    hub = " (ONNX files are not downloaded from the Hub)" if files.revision is not None else ""
    looked = " or ".join(dict.fromkeys(str(place.absolute()) for place in places))
    raise CheckpointNotFoundError(
        f"there is no ONNX file {looked}{hub}; make it with laya.export_onnx({files.model_id!r}, {str(path)!r})",
        model_id=files.model_id,
        path=path,
    )
