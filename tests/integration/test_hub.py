"""Checkpoints are fetched by the real Hub client, from a Hub on the loopback interface."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.loopback_hub import LoopbackHub

ROOT = Path(__file__).parents[2]
ENGLISH = ROOT / "tests" / "data" / "checkpoints" / "english"
REPO = "convaiinnovations/laya"
NAMES = (
    "rl_agent_config.json",
    "encoder/config.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer/tokenizer.json",
    "model.safetensors",
)

# Ends the process at the first attempt to leave the loopback interface.
LOADER = """
import json, os, sys

def stay_home(event, args):
    if event == "socket.connect" and args[1][0] != "127.0.0.1":
        os.write(2, f"connection to {args[1]}".encode())
        os._exit(99)

sys.addaudithook(stay_home)
call = json.loads(sys.argv[1])
if call["file_limit"]:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (call["file_limit"], resource.RLIM_INFINITY))
from laya._checkpoints.source import resolve_checkpoint
from laya.errors import LayaError
try:
    files = resolve_checkpoint(**call["arguments"])
except LayaError as error:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    print(json.dumps({"kinds": kinds, "message": str(error)}))
else:
    print(json.dumps({"root": str(files.root), "revision": files.revision, "model_id": files.model_id}))
"""


@dataclass(frozen=True)
class Loaded:
    """A checkpoint that another process resolved."""

    root: Path
    revision: str
    model_id: str


@dataclass(frozen=True)
class Failed:
    """The error that another process got."""

    kinds: list[str]
    message: str


@dataclass(frozen=True)
class Machine:
    """A user's machine: a Hub endpoint, and a cache that starts empty."""

    hub: LoopbackHub
    home: Path

    def resolve(
        self, repo: str = REPO, *, file_limit: int = 0, env: dict[str, str] | None = None, **arguments: Any
    ) -> Loaded | Failed:
        """Resolve a checkpoint in a process of its own, which reads the variables at its start."""
        call = {"arguments": {"model_id_or_path": repo, **arguments}, "file_limit": file_limit}
        done = subprocess.run(
            [sys.executable, "-c", LOADER, json.dumps(call)],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "HOME": str(self.home),
                "HF_HOME": str(self.home / "hf"),
                "HF_ENDPOINT": self.hub.url,
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                **(env or {}),
            },
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        if "message" in result:
            return Failed(**result)
        return Loaded(Path(result["root"]), result["revision"], result["model_id"])

    def load(self, repo: str = REPO, **arguments: Any) -> Loaded:
        """Resolve a checkpoint that is expected to be there."""
        result = self.resolve(repo, **arguments)
        assert isinstance(result, Loaded), result
        return result

    def fail(self, repo: str = REPO, **arguments: Any) -> Failed:
        """Resolve a checkpoint that is expected not to be there."""
        result = self.resolve(repo, **arguments)
        assert isinstance(result, Failed), result
        return result


def checkpoint(prefix: str = "", *, mark: bytes = b"") -> dict[str, bytes]:
    """Return the files of a checkpoint, and beside them those that nobody needs."""
    files = {prefix + name: (ENGLISH / name).read_bytes() for name in NAMES}
    files[prefix + "rl_agent_config.json"] += mark
    unneeded = {prefix + name: bytes(300_000) for name in ("README.md", "pytorch_model.bin", "laya.onnx")}
    return files | unneeded


def assert_same_files(root: Path, files: dict[str, bytes], prefix: str = "") -> None:
    """Compare what was fetched, byte by byte, with what was pushed."""
    for name in NAMES:
        assert (root / name).read_bytes() == files[prefix + name], name


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    """Run a Hub for the length of a test."""
    with LoopbackHub() as running:
        yield running


@pytest.fixture
def machine(hub: LoopbackHub, tmp_path: Path) -> Machine:
    """Give a machine that knows this Hub and no other."""
    return Machine(hub, tmp_path)


def test_only_the_five_files_are_fetched(machine: Machine) -> None:
    """A load asks for the files it needs and lists nothing, whatever else the repository holds."""
    commit = machine.hub.push(REPO, checkpoint())
    loaded = machine.load()
    assert sorted(machine.hub.files_requested()) == sorted(NAMES)
    assert not [r.path for r in machine.hub.requests if r.path.startswith("/api/models")]
    assert (loaded.revision, loaded.model_id) == (commit, REPO)
    assert_same_files(loaded.root, checkpoint())


def test_weights_are_not_fetched_where_they_are_not_needed(machine: Machine) -> None:
    """The ONNX runtime has its own weights, so the checkpoint's stay on the Hub."""
    machine.hub.push(REPO, checkpoint())
    loaded = machine.load(weights=False)
    assert sorted(machine.hub.files_requested()) == sorted(set(NAMES) - {"model.safetensors"})
    assert not (loaded.root / "model.safetensors").exists()


def test_a_subfolder_is_fetched_alone(machine: Machine) -> None:
    """Of a repository that holds several checkpoints only the named one is fetched."""
    files = checkpoint() | checkpoint("multilingual/", mark=b" ")
    machine.hub.push(REPO, files)
    loaded = machine.load(subfolder="multilingual")
    assert sorted(machine.hub.files_requested()) == sorted(f"multilingual/{name}" for name in NAMES)
    assert loaded.root.name == "multilingual"
    assert_same_files(loaded.root, files, "multilingual/")


@pytest.mark.parametrize("by", ["commit", "tag"])
def test_a_pinned_revision_is_loaded_after_newer_pushes(machine: Machine, by: str) -> None:
    """A commit or a tag keeps its files when the branch moves on."""
    pinned = machine.hub.push(REPO, checkpoint(mark=b" "), branch="v1.0")
    machine.hub.push(REPO, checkpoint(mark=b"  "))
    loaded = machine.load(revision=pinned if by == "commit" else "v1.0")
    assert loaded.revision == pinned
    assert_same_files(loaded.root, checkpoint(mark=b" "))


def test_a_push_between_two_files_does_not_mix_commits(machine: Machine) -> None:
    """All files are of the commit that the first one came from, though the branch moves meanwhile."""
    first = machine.hub.push(REPO, checkpoint(mark=b" "))
    newer = {name: b"newer" for name in NAMES}
    machine.hub.when_requested("encoder/config.json", lambda: machine.hub.push(REPO, newer))
    loaded = machine.load()
    assert loaded.revision == first
    assert_same_files(loaded.root, checkpoint(mark=b" "))
    assert machine.load().revision != first


@pytest.mark.parametrize("given", ["argument", "argument with a line break", "variable"])
def test_the_token_is_sent_as_bearer(machine: Machine, given: str) -> None:
    """A private repository opens to a token given as an argument or as HF_TOKEN."""
    machine.hub.push(REPO, checkpoint())
    machine.hub.repos[REPO].token = "hf_secret"
    if given == "variable":
        machine.load(env={"HF_TOKEN": "hf_secret"})
    else:
        machine.load(token="hf_secret\n" if "break" in given else "hf_secret")
    sent = {r.authorization for r in machine.hub.requests if r.file is not None and "/resolve/" in r.path}
    assert sent == {"Bearer hf_secret"}


def test_a_dropped_transfer_goes_on_where_it_stopped(machine: Machine) -> None:
    """The second request of the weights asks for the rest, and the file is whole in the end."""
    # The client writes 10 MiB at a time: less than that is lost with the connection.
    weights = random.Random(0).randbytes(25 << 20)
    files = checkpoint() | {"model.safetensors": weights}
    machine.hub.push(REPO, files)
    cut = len(weights) // 2
    machine.hub.cuts["model.safetensors"] = cut
    loaded = machine.load()
    first, second = (r.range for r in machine.hub.requests if r.method == "GET" and "/lfs/" in r.path)
    assert first is None
    assert second is not None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= cut
    assert_same_files(loaded.root, files)


def test_a_load_that_broke_off_leaves_the_cache_usable(machine: Machine) -> None:
    """What a failed load left behind doesn't spoil the next one, and whole files are not fetched again."""
    files = checkpoint()
    machine.hub.push(REPO, files)
    assert "HubError" in machine.fail(file_limit=256 * 1024).kinds
    with LoopbackHub() as elsewhere:
        gone = elsewhere.url
    assert "cannot get 'model.safetensors'" in machine.fail(env={"HF_ENDPOINT": gone}).message
    machine.hub.requests.clear()
    loaded = machine.load()
    assert machine.hub.files_requested("GET") == ["model.safetensors"]
    assert_same_files(loaded.root, files)


def test_a_warm_cache_costs_one_request_and_no_transfer(machine: Machine) -> None:
    """Only the branch is looked up again; the files of its commit are on disk."""
    machine.hub.push(REPO, checkpoint())
    machine.load()
    machine.hub.requests.clear()
    machine.load()
    asked = [(r.method, r.file) for r in machine.hub.requests if r.file is not None]
    assert asked == [("HEAD", "rl_agent_config.json")]


@pytest.mark.parametrize("revision", [None, "v1.0"])
def test_a_cached_checkpoint_loads_without_a_network(machine: Machine, revision: str | None) -> None:
    """With the Hub gone the cached snapshot is used, with and without HF_HUB_OFFLINE."""
    machine.hub.push(REPO, checkpoint(), branch=revision or "main")
    online = machine.load(revision=revision)
    machine.hub.stop()
    assert machine.load(revision=revision) == online
    assert machine.load(revision=revision, env={"HF_HUB_OFFLINE": "1"}) == online


def test_offline_mode_sends_nothing(machine: Machine) -> None:
    """HF_HUB_OFFLINE is obeyed though the Hub is there."""
    machine.hub.push(REPO, checkpoint())
    machine.load()
    machine.hub.requests.clear()
    machine.load(env={"HF_HUB_OFFLINE": "1"})
    assert machine.hub.requests == []


def test_a_hub_out_of_service_falls_back_to_the_cache(machine: Machine) -> None:
    """A Hub that answers 503 is one that can't be reached."""
    machine.hub.push(REPO, checkpoint())
    online = machine.load()
    machine.hub.outage = True
    assert machine.load() == online


@pytest.mark.slow
def test_an_outage_amid_an_update_falls_back_to_the_whole_snapshot(machine: Machine) -> None:
    """Where a newer commit can't be fetched completely, the complete older one answers."""
    older = machine.hub.push(REPO, checkpoint())
    machine.load()
    machine.hub.push(REPO, checkpoint(mark=b" ") | {"encoder/config.json": b"{}"})
    machine.hub.when_requested("encoder/config.json", machine.hub.go_down)
    loaded = machine.load()
    assert loaded.revision == older
    assert_same_files(loaded.root, checkpoint())


def test_offline_without_a_cache_names_file_and_next_step(machine: Machine) -> None:
    """Offline mode and an empty cache can't give a checkpoint, and the error says what would."""
    failed = machine.fail(env={"HF_HUB_OFFLINE": "1"})
    assert "HubError" in failed.kinds
    assert "OSError" in failed.kinds
    for part in (REPO, "rl_agent_config.json", "HF_HUB_OFFLINE", "local directory", str(machine.home / "hf")):
        assert part in failed.message


def test_an_unreachable_hub_without_a_cache_names_the_endpoint(machine: Machine) -> None:
    """A refused connection is reported with endpoint and cause, before the client's own retries."""
    machine.hub.stop()
    started = time.monotonic()
    failed = machine.fail()
    assert time.monotonic() - started < 20
    assert "HubError" in failed.kinds
    for part in (REPO, "rl_agent_config.json", machine.hub.url, "Connect", "HF_ENDPOINT"):
        assert part in failed.message


@pytest.mark.parametrize("case", ["private", "gated", "wrong token", "gated with a token", "missing"])
def test_a_refused_repository_says_how_to_give_a_token(machine: Machine, case: str) -> None:
    """401 and 403 name the repository and the ways to authenticate, and never the token."""
    if case != "missing":
        machine.hub.push(REPO, checkpoint())
        machine.hub.repos[REPO].token = "hf_right"
        machine.hub.repos[REPO].gated = "gated" in case
    failed = machine.fail(token="hf_wrong" if "token" in case else None)
    assert "HubError" in failed.kinds
    for part in (REPO, "rl_agent_config.json", "token=", "HF_TOKEN", "40"):
        assert part in failed.message
    assert "hf_wrong" not in failed.message


def test_a_missing_repository_is_named(machine: Machine) -> None:
    """A signed-in user learns that the repository doesn't exist."""
    failed = machine.fail("convaiinnovations/lya", token="hf_any")
    assert "CheckpointNotFoundError" in failed.kinds
    assert "FileNotFoundError" in failed.kinds
    for part in ("'convaiinnovations/lya'", machine.hub.url, "spelling", "local directory"):
        assert part in failed.message


def test_a_missing_revision_is_named(machine: Machine) -> None:
    """A branch that doesn't exist is named with its repository."""
    machine.hub.push(REPO, checkpoint())
    failed = machine.fail(revision="v9")
    assert "CheckpointNotFoundError" in failed.kinds
    for part in (REPO, "'v9'", "no such branch"):
        assert part in failed.message


@pytest.mark.parametrize("name", ["rl_agent_config.json", "model.safetensors"])
def test_a_missing_file_is_named(machine: Machine, name: str) -> None:
    """A repository that lacks one of the files is no checkpoint, and the error names the file."""
    files = checkpoint()
    del files[name]
    machine.hub.push(REPO, files)
    failed = machine.fail()
    assert "CheckpointNotFoundError" in failed.kinds
    for part in (REPO, repr(name), "no such file", "subfolder"):
        assert part in failed.message


def test_a_full_disk_names_the_cache(machine: Machine) -> None:
    """A cache file that can't grow any further is reported with file, place and next step."""
    machine.hub.push(REPO, checkpoint())
    failed = machine.fail(file_limit=256 * 1024)
    assert "HubError" in failed.kinds
    for part in (REPO, "model.safetensors", str(machine.home / "hf"), "no room", "HF_HOME"):
        assert part in failed.message


def test_a_full_file_system_names_the_cache(machine: Machine) -> None:
    """The same on a file system that really is full, where one may be mounted."""
    cache = machine.home / "hf"
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(cache)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs Linux and root")
    try:
        machine.hub.push(REPO, checkpoint())
        failed = machine.fail()
    finally:
        subprocess.run(["umount", "-l", str(cache)], check=True)
    assert "HubError" in failed.kinds
    for part in (REPO, "model.safetensors", str(cache), "No space left on device", "HF_HOME"):
        assert part in failed.message


def test_a_digest_is_checked_on_what_the_hub_sent(machine: Machine) -> None:
    """Weights with another digest than the pinned one are refused, also when they come from the cache."""
    files = checkpoint()
    machine.hub.push(REPO, files)
    right = hashlib.sha256(files["model.safetensors"]).hexdigest()
    machine.load(expected_sha256={"model.safetensors": right})
    for _ in range(2):
        failed = machine.fail(expected_sha256={"model.safetensors": "0" * 64})
        assert "CheckpointIntegrityError" in failed.kinds
        for part in (REPO, "model.safetensors", "0" * 64, right):
            assert part in failed.message


def test_a_mistyped_path_never_reaches_the_network(machine: Machine) -> None:
    """What looks like a path is looked for on disk alone."""
    failed = machine.fail("./convaiinnovations/laya")
    assert "CheckpointNotFoundError" in failed.kinds
    assert "no such directory" in failed.message
    assert machine.hub.requests == []
