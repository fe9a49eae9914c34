"""Does a file that was made from a checkpoint belong to the one at hand?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laya._checkpoints.source import ENCODER_CONFIG, TOKENIZER, WEIGHTS, CheckpointFiles
from laya.errors import CheckpointError, CheckpointIntegrityError

GRAPH_FILES = (ENCODER_CONFIG, TOKENIZER, WEIGHTS)
"""What an exported network is made of, and what its input ids mean. Not the temperatures, which may be fitted anew."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file, as the Hub shows it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}", path=path) from error


def check_belongs(
    exported: Path, recorded: Any, files: CheckpointFiles, expected: Mapping[str, str] | None = None
) -> None:
    """Compare the digests recorded in an exported file with the checkpoint's files that are there.

    Weights need not be there: an exported network has its own. `expected` digests of weights are compared with
    those that the export was made of. A file that records nothing is accepted, unless its weights are expected
    to be some. Raises `CheckpointIntegrityError`.
    """
    digests = recorded if isinstance(recorded, Mapping) else {}
    pinned = (expected or {}).get(WEIGHTS)
    if pinned is not None and digests.get(WEIGHTS) != pinned.lower():
        raise _mismatch(exported, WEIGHTS, digests.get(WEIGHTS), f"expected_sha256 has {pinned}", pinned)
    for name in GRAPH_FILES:
        path = files.root / name
        if name in digests and path.is_file():
            found = file_digest(path)
            if found != digests[name]:
                raise _mismatch(exported, name, digests[name], f"{path} has {found}", found)


def _mismatch(exported: Path, name: str, recorded: str | None, other: str, expected: str) -> CheckpointIntegrityError:
    return CheckpointIntegrityError(
        f"{exported} belongs to another checkpoint: it was exported from a {name} with SHA-256 "
        f"{recorded or 'unknown'}, {other}; export this checkpoint with laya.export_onnx",
        path=exported,
        expected=expected,
        actual=recorded,
    )
