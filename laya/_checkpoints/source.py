"""Where a checkpoint's files are: a directory on disk, or a repository on the Hub."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from laya.errors import CheckpointError, CheckpointIntegrityError, CheckpointNotFoundError, OptionError

CONFIG = "rl_agent_config.json"
WEIGHTS = "model.safetensors"
ENCODER_CONFIG = "encoder/config.json"
TOKENIZER = "tokenizer/tokenizer.json"
TOKENIZER_CONFIG = "tokenizer/tokenizer_config.json"

# The weights come last: whatever is wrong with a small file is known before the big one is fetched.
FILES = (CONFIG, ENCODER_CONFIG, TOKENIZER_CONFIG, TOKENIZER, WEIGHTS)

# Beside the code in every installation; a name here means the same from whatever directory it is asked for.
SHIPPED = {"laya-mini": Path(__file__).parents[1] / "checkpoints" / "laya-mini"}


@dataclass(frozen=True)
class CheckpointFiles:
    """Point at the files of one checkpoint, all of one revision."""

    root: Path
    """Absolute: what is read later is found from another working directory too."""
    model_id: str
    """What the caller asked for: a repository id or a directory."""
    config: Path
    weights: Path
    """It need not exist where the weights were not asked for."""
    encoder_config: Path
    tokenizer: Path
    tokenizer_config: Path
    revision: str | None
    """The commit that all files are of; None for a local directory."""


def resolve_checkpoint(
    model_id_or_path: str | os.PathLike[str],
    *,
    subfolder: str | None = None,
    token: str | bool | None = None,
    revision: str | None = None,
    expected_sha256: Mapping[str, str] | None = None,
    weights: bool = True,
) -> CheckpointFiles:
    """Find the files of a checkpoint, fetching from the Hub those that its cache lacks, and nothing else.

    "laya-mini" is the checkpoint that comes with the package. A path object, an existing directory and a string
    with the looks of a path are local. Neither ever reaches the network; any other string is a repository id.
    `token` and `revision` concern the Hub alone.
    `expected_sha256` maps file names within the checkpoint to digests, checked before anything is parsed;
    a digest of weights that aren't asked for is not.
    """
    digests = _parse_digests(expected_sha256)
    folder = _parse_subfolder(subfolder)
    wanted = FILES if weights else tuple(name for name in FILES if name != WEIGHTS)
    model_id = _parse_model_id(model_id_or_path)
    commit: str | None = None
    if isinstance(model_id_or_path, str) and model_id in SHIPPED:
        root = _local_root(str(SHIPPED[model_id]), folder, wanted)
    elif isinstance(model_id_or_path, os.PathLike) or _is_local(model_id):
        root = _local_root(model_id, folder, wanted)
    else:
        _refuse_near_miss(model_id)
        # Imported for a Hub load only: the client reads HF_HOME, HF_ENDPOINT and the like at import.
        from laya._checkpoints import hub

        snapshot = hub.fetch_snapshot(model_id, folder, wanted, token=token, revision=revision)
        root, commit = snapshot.root, snapshot.commit
    for name in wanted:
        if name in digests:
            _verify_digest(root / name, name, digests[name], model_id)
    return CheckpointFiles(
        root=root,
        model_id=model_id,
        config=root / CONFIG,
        weights=root / WEIGHTS,
        encoder_config=root / ENCODER_CONFIG,
        tokenizer=root / TOKENIZER,
        tokenizer_config=root / TOKENIZER_CONFIG,
        revision=commit,
    )


def _refuse_near_miss(model_id: str) -> None:
    """A shipped name with a slip is not asked for on the Hub, where it would be a long error at best."""
    near = difflib.get_close_matches(model_id.casefold().replace("_", "-"), SHIPPED, n=1, cutoff=0.85)
    if near and "/" not in model_id:
        message = f"no checkpoint {model_id!r}; did you mean {near[0]!r}, which comes with the package?"
        raise CheckpointNotFoundError(message, model_id=model_id, path=model_id)


def _parse_model_id(value: object) -> str:
    model_id = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(model_id, str) or not model_id.strip():
        message = f"model_id_or_path must be a directory or a Hub id ('owner/name'), not {_short(value)}"
        raise OptionError(message, option="model_id_or_path")
    return model_id


def _parse_subfolder(value: object) -> str:
    """Return the subfolder with forward slashes, "" for none; it can't lead out of the checkpoint."""
    if value is None or value == "":
        return ""
    if isinstance(value, str) and "\\" not in value and ":" not in value and "\0" not in value:
        path = PurePosixPath(value)
        if not path.is_absolute() and ".." not in path.parts:
            return "" if path == PurePosixPath(".") else str(path)
    message = f"subfolder must be a relative path with '/' and without '..', not {_short(value)}"
    raise OptionError(message, option="subfolder")


def _parse_digests(value: object) -> dict[str, str]:
    """Check names and shapes of the digests, before any file is looked at."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        message = f"expected_sha256 must map file names to SHA-256 digests, not {_short(value)}"
        raise OptionError(message, option="expected_sha256")
    for name, digest in value.items():
        if name not in FILES:
            message = f"expected_sha256: {_short(name)} is no checkpoint file; use one of {', '.join(FILES)}"
            raise OptionError(message, option="expected_sha256")
        if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
            message = f"expected_sha256[{name!r}] must be 64 hexadecimal digits, not {_short(digest)}"
            raise OptionError(message, option="expected_sha256")
    return {name: digest.lower() for name, digest in value.items()}


def _is_local(model_id: str) -> bool:
    """Tell a path from a repository id, which has at most one slash and never these beginnings."""
    looks_like_path = (
        model_id.startswith((".", "~"))
        or os.path.isabs(model_id)
        or "\\" in model_id
        or model_id.endswith("/")
        or model_id.count("/") > 1
    )
    return looks_like_path or os.path.exists(model_id)


def _local_root(model_id: str, folder: str, wanted: tuple[str, ...]) -> Path:
    root = Path(os.path.expanduser(model_id)) / folder
    try:
        found, is_file = root.is_dir(), root.is_file()
    except OSError as error:
        # A name that is too long, a folder that may not be entered.
        raise CheckpointError(f"{_short(str(root))}: {error.strerror}", model_id=model_id, path=root) from error
    if not found:
        problem = "this is a file, not a directory" if is_file else "no such directory"
        message = f"{problem}: {str(root)!r}; give the directory that holds {CONFIG}, or a Hub id ('owner/name')"
        raise CheckpointNotFoundError(message, model_id=model_id, path=root)
    missing = [name for name in wanted if not _is_file(root / name, model_id)]
    if missing:
        message = f"no file {', '.join(map(repr, missing))} in directory {str(root)!r}{_hint(root, missing)}"
        raise CheckpointNotFoundError(message, model_id=model_id, path=root / missing[0])
    return root.absolute()


def _is_file(path: Path, model_id: str) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}", model_id=model_id, path=path) from error


def _hint(root: Path, missing: list[str]) -> str:
    """Say what to do next: where there is no config, checkpoints may lie in subfolders."""
    if CONFIG in missing:
        inside = sorted(child.name for child in root.iterdir() if (child / CONFIG).is_file())
        if inside:
            return f"; it has checkpoints in subfolders: pass subfolder={inside[0]!r}" + (
                f" (or one of {', '.join(inside[1:])})" if inside[1:] else ""
            )
    return "; a checkpoint needs it: copy or download the checkpoint again"


def _verify_digest(path: Path, name: str, expected: str, model_id: str) -> None:
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise CheckpointError(message, model_id=model_id, path=path) from error
    if actual != expected:
        message = (
            f"{name!r} of {model_id!r} is not the expected file: SHA-256 expected {expected}, got {actual} "
            f"({path}); delete that file and get it again, or correct expected_sha256"
        )
        raise CheckpointIntegrityError(message, model_id=model_id, path=path, expected=expected, actual=actual)


def _short(value: object) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 60 else shown[:57] + '...'}"
