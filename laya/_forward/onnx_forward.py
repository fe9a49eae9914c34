"""Forward passes with onnxruntime; nothing here loads torch."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laya._exit import native_code
from laya._forks import in_forked_child
from laya._pipeline.batches import Batch, PassCost
from laya.errors import CheckpointFormatError, OptionError

try:
    import onnxruntime
except ImportError as error:
    raise ImportError("ONNX models need onnxruntime; install it with: pip install 'laya-integrations[onnx]'") from error

INPUTS = ("input_ids", "attention_mask", "marker_pos", "marker_mask", "qtype")
OUTPUTS = ("logits", "act_logits")
CPU = "CPUExecutionProvider"

METADATA = "laya"
"""Key of what an exported file says of itself, as JSON: `{"sha256": {file: digest}, "max_positions", ...}`."""

_PREFERENCE = (
    "CUDAExecutionProvider",
    "ROCMExecutionProvider",
    "MIGraphXExecutionProvider",
    "DmlExecutionProvider",
    CPU,
)
# As for the torch devices: where one more pass costs as much as that many tokens of padding.
_CPU_COST = PassCost(overhead=24, budget=4096)
_ACCELERATOR_COST = PassCost(overhead=2048, budget=65536)


class OnnxForward:
    """Runs an exported network. Passes are serialised: one already uses all cores."""

    min_options = 2

    def __init__(self, path: Path, providers: Any = None, max_positions: int | None = None) -> None:
        """`max_positions` is for a file that doesn't say how many positions its encoder has."""
        chosen = choose_providers(providers)
        self._session = _open(path, chosen)
        self._lock = Lock()
        in_forked_child(self._renew_lock)
        self.path = path
        self.providers: tuple[str, ...] = tuple(self._session.get_providers())
        self.cost = _CPU_COST if self.providers[0] == CPU else _ACCELERATOR_COST
        self.metadata = _metadata(self._session, path)
        """What the export says of itself; empty for a file that laya didn't write."""
        self.max_positions: int | None = self.metadata.get("max_positions", max_positions)
        self.actions = _check_signature(self._session, path)
        """Width of the action logits; None where the file leaves it open."""

    def __call__(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Option logits `[n, K]` and action logits `[n, A]`, as F32 arrays."""
        with native_code.turn(self._lock):
            logits, act_logits = self._session.run(OUTPUTS, batch._asdict())
        return logits, act_logits

    def _renew_lock(self) -> None:
        self._lock = Lock()


def choose_providers(requested: Any = None) -> list[Any]:
    """The execution providers asked for, the CPU last; by default the best accelerator that is there, and the CPU.

    One that isn't there is a `RuntimeWarning`, and the best there is takes its place. Raises `OptionError` for
    what names no provider.
    """
    available = onnxruntime.get_available_providers()
    best = [next(name for name in _PREFERENCE if name in available)]
    if requested is None:
        return _with_cpu(best)
    wanted = [requested] if isinstance(requested, str) else requested
    if not isinstance(wanted, Sequence) or not wanted:
        raise OptionError(f"providers must be a list of provider names, got {requested!r:.80}", option="providers")
    usable = []
    for entry in wanted:
        name = entry[0] if isinstance(entry, tuple) and len(entry) == 2 else entry
        if name not in onnxruntime.get_all_providers():
            raise OptionError(
                f"providers: {name!r:.80} is no onnxruntime provider; available here: {', '.join(available)}",
                option="providers",
            )
        if name in available:
            usable.append(entry)
        else:
            message = f"provider {name!r} is not available here; using {', '.join(available)}"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
    return _with_cpu(usable or best)


def _with_cpu(providers: list[Any]) -> list[Any]:
    names = [entry[0] if isinstance(entry, tuple) else entry for entry in providers]
    return providers if CPU in names else [*providers, CPU]


def _open(path: Path, providers: list[Any]) -> Any:
    options = onnxruntime.SessionOptions()
    # Every batch has another shape: plans kept for each would only pile up.
    options.enable_mem_pattern = False
    # Without VNNI, int8 products saturate; onnxruntime then takes a type that doesn't.
    options.add_session_config_entry("session.x64quantprecision", "1")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():  # onnxruntime has threads of its own, which the variable doesn't reach
        options.intra_op_num_threads = int(threads)
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # its error types are private, and their base is Exception
        raise CheckpointFormatError(
            f"{path} is no whole ONNX model that this onnxruntime can run ({error}); export it again with "
            "laya.export_onnx, and keep a .data file beside it",
            path=path,
        ) from error


def _metadata(session: Any, path: Path) -> dict[str, Any]:
    text = session.get_modelmeta().custom_metadata_map.get(METADATA)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CheckpointFormatError(
            f"{path}: its {METADATA!r} metadata is no JSON; export it again", path=path
        ) from error
    return found if isinstance(found, dict) else {}


def _check_signature(session: Any, path: Path) -> int | None:
    inputs, outputs = ({item.name for item in items} for items in (session.get_inputs(), session.get_outputs()))
    if inputs != set(INPUTS) or not outputs.issuperset(OUTPUTS):
        raise CheckpointFormatError(
            f"{path} takes {', '.join(sorted(inputs))} and gives {', '.join(sorted(outputs))}; a decision model takes "
            f"{', '.join(INPUTS)} and gives {', '.join(OUTPUTS)}",
            path=path,
        )
    shape = next(item.shape for item in session.get_outputs() if item.name == "act_logits")
    return shape[-1] if shape and isinstance(shape[-1], int) else None
