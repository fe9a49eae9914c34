"""Real tokenizers of the small checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from laya._checkpoints.config import load_tokenizer_names
from laya._pipeline.tokenizer import TextTokenizer


def load_tokenizer(folder: Path) -> TextTokenizer:
    """The tokenizer of a checkpoint's folder."""
    names = load_tokenizer_names(folder / "tokenizer" / "tokenizer_config.json")
    return TextTokenizer.from_file(folder / "tokenizer" / "tokenizer.json", names)


@pytest.fixture(scope="session")
def english(checkpoints: Path) -> TextTokenizer:
    """`[CLS] [SEP] [MASK] [PAD]`."""
    return load_tokenizer(checkpoints / "english")


@pytest.fixture(scope="session")
def multilingual(checkpoints: Path) -> TextTokenizer:
    """`<bos> <eos> <mask> <pad>`."""
    return load_tokenizer(checkpoints / "multilingual")
