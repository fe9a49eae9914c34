"""Local checkpoints: what is found, what is refused, and what is never done."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import laya
from laya._checkpoints.source import FILES, resolve_checkpoint
from laya.errors import CheckpointIntegrityError, CheckpointNotFoundError, OptionError

ENGLISH = Path(__file__).parents[2] / "data" / "checkpoints" / "english"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep a path that was mistaken for a Hub id from reaching the network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Give a checkpoint to spoil."""
    return shutil.copytree(ENGLISH, tmp_path / "checkpoint")


def digests(root: Path) -> dict[str, str]:
    """Compute the digests of all five files."""
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in FILES}


@pytest.mark.parametrize("form", ["str", "path", "relative", "trailing slash", "home"])
def test_a_directory_is_found_in_any_form(checkpoint: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Strings, path objects, relative paths and those under the home directory all lead to the files."""
    monkeypatch.chdir(checkpoint.parent)
    monkeypatch.setenv("HOME", str(checkpoint.parent))
    monkeypatch.setenv("USERPROFILE", str(checkpoint.parent))
    forms: dict[str, str | Path] = {
        "str": str(checkpoint),
        "path": checkpoint,
        "relative": "checkpoint",
        "trailing slash": f"{checkpoint}/",
        "home": "~/checkpoint",
    }
    files = resolve_checkpoint(forms[form])
    assert files.root.resolve() == checkpoint.resolve()
    assert files.model_id == str(forms[form])
    assert files.revision is None
    assert files.config == files.root / "rl_agent_config.json"
    assert files.weights == files.root / "model.safetensors"
    assert files.encoder_config == files.root / "encoder" / "config.json"
    assert files.tokenizer == files.root / "tokenizer" / "tokenizer.json"
    assert files.tokenizer_config == files.root / "tokenizer" / "tokenizer_config.json"
    for path in (files.config, files.weights, files.encoder_config, files.tokenizer, files.tokenizer_config):
        assert path.is_file()


def test_the_shipped_name_means_the_same_everywhere(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of that name doesn't stand in its way; its path does lead to it."""
    checkpoint.rename(checkpoint.with_name("laya-mini"))
    monkeypatch.chdir(checkpoint.parent)
    shipped = resolve_checkpoint("laya-mini")
    assert shipped.root == Path(laya.__file__).parent / "checkpoints" / "laya-mini"
    assert shipped.model_id == "laya-mini" and shipped.revision is None
    assert resolve_checkpoint("./laya-mini").root.resolve() == (checkpoint.parent / "laya-mini").resolve()
    assert resolve_checkpoint(Path("laya-mini")).root.resolve() == (checkpoint.parent / "laya-mini").resolve()


@pytest.mark.parametrize("name", ["laya_mini", "Laya-Mini", "laya-mni", "layamini"])
def test_a_slip_in_the_shipped_name_is_pointed_out(name: str) -> None:
    """It doesn't become a Hub id."""
    with pytest.raises(CheckpointNotFoundError, match="did you mean 'laya-mini'"):
        resolve_checkpoint(name)


@pytest.mark.parametrize("subfolder", ["checkpoint", "./checkpoint/", "checkpoint/.", "a/../checkpoint"])
def test_a_subfolder_is_joined(checkpoint: Path, subfolder: str) -> None:
    """It may be written in several ways, but not lead upwards."""
    if ".." in subfolder:
        with pytest.raises(OptionError, match="subfolder"):
            resolve_checkpoint(checkpoint.parent, subfolder=subfolder)
    else:
        assert resolve_checkpoint(checkpoint.parent, subfolder=subfolder).root == checkpoint


@pytest.mark.parametrize("subfolder", ["..", "../checkpoint", "/etc", "a\\..\\b", "C:/x", "a\0b", 3, b"x"])
def test_a_subfolder_that_leads_elsewhere_is_refused(checkpoint: Path, subfolder: Any) -> None:
    """Neither upwards nor to another root, on disk or on the Hub."""
    for place in (checkpoint, "convaiinnovations/laya"):
        with pytest.raises(OptionError, match="subfolder") as raised:
            resolve_checkpoint(place, subfolder=subfolder)
        assert raised.value.option == "subfolder"


@pytest.mark.parametrize("subfolder", [None, "", "."])
def test_no_subfolder_is_the_checkpoint_itself(checkpoint: Path, subfolder: str | None) -> None:
    """All ways to give none mean the root."""
    assert resolve_checkpoint(checkpoint, subfolder=subfolder).root == checkpoint


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_with_its_directory(checkpoint: Path, name: str) -> None:
    """The error says which file is missing, and where it was looked for."""
    (checkpoint / name).unlink()
    with pytest.raises(CheckpointNotFoundError) as raised:
        resolve_checkpoint(checkpoint)
    assert repr(name) in str(raised.value)
    assert str(checkpoint) in str(raised.value)
    assert raised.value.path == checkpoint / name
    assert isinstance(raised.value, FileNotFoundError)


def test_weights_may_be_missing_where_they_are_not_needed(checkpoint: Path) -> None:
    """A checkpoint exported to ONNX needs no safetensors file beside it."""
    (checkpoint / "model.safetensors").unlink()
    assert resolve_checkpoint(checkpoint, weights=False).config.is_file()


def test_a_directory_in_a_files_place_is_no_file(checkpoint: Path) -> None:
    """It is reported as missing instead of failing at the read."""
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "model.safetensors").mkdir()
    with pytest.raises(CheckpointNotFoundError, match=r"model\.safetensors"):
        resolve_checkpoint(checkpoint)


def test_checkpoints_in_subfolders_are_pointed_out(checkpoint: Path) -> None:
    """Whoever names the directory above learns the subfolder."""
    with pytest.raises(CheckpointNotFoundError, match="subfolder='checkpoint'"):
        resolve_checkpoint(checkpoint.parent)


@pytest.mark.parametrize(
    "path",
    [
        "./gone",
        "../gone",
        ".gone",
        "~/gone",
        "~nobody-here/gone",
        "/gone",
        "a/b/c",
        "gone/",
        "a\\gone",
        "https://x.y/z",
    ],
)
def test_a_mistyped_path_is_no_such_directory(path: str) -> None:
    """A string that looks like a path is one, and the error says what to give instead."""
    with pytest.raises(CheckpointNotFoundError, match=r"no such directory.*owner/name"):
        resolve_checkpoint(path)


def test_a_missing_path_object_is_no_hub_id() -> None:
    """A path object is local, even if its text could be a repository id."""
    with pytest.raises(CheckpointNotFoundError, match="no such directory"):
        resolve_checkpoint(Path("convaiinnovations/laya"))


def test_a_file_is_told_from_a_directory(checkpoint: Path) -> None:
    """Giving the config instead of its directory is a likely slip."""
    with pytest.raises(CheckpointNotFoundError, match="this is a file"):
        resolve_checkpoint(checkpoint / "rl_agent_config.json")


@pytest.mark.parametrize("name", ["a b", "laya!", "ünï/laya", "own--er/laya", "laya\0", "owner/laya.git"])
def test_what_is_neither_path_nor_hub_id_is_refused(name: str) -> None:
    """The name is refused before any look at the network."""
    with pytest.raises(CheckpointNotFoundError, match="no existing directory and no Hub id"):
        resolve_checkpoint(name)


@pytest.mark.parametrize("value", [None, 3, "", "  ", b"convaiinnovations/laya", ["a/b"]])
def test_a_model_id_of_another_type_is_refused(value: Any) -> None:
    """The argument is named."""
    with pytest.raises(OptionError, match="model_id_or_path"):
        resolve_checkpoint(value)


@pytest.mark.parametrize("revision", ["", " ", "../../x", "/etc/passwd", 3])
def test_a_revision_that_git_refuses_is_refused(revision: Any) -> None:
    """It would name a file outside the cache."""
    with pytest.raises(OptionError, match="revision"):
        resolve_checkpoint("convaiinnovations/laya", revision=revision)


def test_a_token_of_another_type_is_refused() -> None:
    """The type is named, the token isn't."""
    with pytest.raises(OptionError, match="token must be a string, not bytes") as raised:
        resolve_checkpoint("convaiinnovations/laya", token=b"hf_secret")  # type: ignore[arg-type]
    assert "hf_secret" not in str(raised.value)


def test_matching_digests_are_accepted_in_any_case(checkpoint: Path) -> None:
    """All five files may be pinned, in upper or lower case, and none has to be."""
    expected = digests(checkpoint)
    assert resolve_checkpoint(checkpoint, expected_sha256=expected).root == checkpoint
    upper = {name: digest.upper() for name, digest in expected.items()}
    assert resolve_checkpoint(checkpoint, expected_sha256=upper).root == checkpoint
    assert resolve_checkpoint(checkpoint, expected_sha256={}).root == checkpoint


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_fails_its_digest(checkpoint: Path, name: str) -> None:
    """The error names the file, what was expected and what was found, and nothing is parsed before."""
    expected = digests(checkpoint)
    path = checkpoint / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointIntegrityError) as raised:
        resolve_checkpoint(checkpoint, expected_sha256=expected)
    actual = hashlib.sha256(content).hexdigest()
    for part in (repr(name), expected[name], actual, str(path)):
        assert part in str(raised.value)
    assert (raised.value.expected, raised.value.actual) == (expected[name], actual)
    assert isinstance(raised.value, ValueError)


def test_digests_of_unneeded_weights_are_not_checked(checkpoint: Path) -> None:
    """Where the weights aren't loaded they need not be there either."""
    expected = digests(checkpoint) | {"model.safetensors": "0" * 64}
    (checkpoint / "model.safetensors").unlink()
    assert resolve_checkpoint(checkpoint, expected_sha256=expected, weights=False).root == checkpoint


@pytest.mark.parametrize(
    "value",
    [
        "0" * 64,
        ["model.safetensors"],
        {"model.bin": "0" * 64},
        {"/etc/passwd": "0" * 64},
        {"multilingual/model.safetensors": "0" * 64},
        {3: "0" * 64},
        {"model.safetensors": "0" * 63},
        {"model.safetensors": "g" * 64},
        {"model.safetensors": "0" * 64 + "\n"},
        {"model.safetensors": None},
        {"model.safetensors": b"0" * 64},
    ],
)
def test_malformed_digests_are_refused_first(value: Any) -> None:
    """A mapping that could check nothing is refused before the checkpoint is looked for."""
    with pytest.raises(OptionError, match="expected_sha256") as raised:
        resolve_checkpoint("/no/such/directory", expected_sha256=value)
    assert raised.value.option == "expected_sha256"


def test_nothing_is_written_beside_the_checkpoint(checkpoint: Path) -> None:
    """Resolving and checking leave the directory as it was, so that it may be read-only."""

    def listing() -> list[tuple[str, int, int]]:
        paths = [checkpoint, *checkpoint.rglob("*")]
        return sorted((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths)

    before = listing()
    for directory, _, _ in os.walk(checkpoint):
        os.chmod(directory, 0o555)
    try:
        resolve_checkpoint(checkpoint, expected_sha256=digests(checkpoint))
    finally:
        for directory, _, _ in os.walk(checkpoint):
            os.chmod(directory, 0o755)
    assert listing() == before
