"""The tokenizer as the pipeline sees it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path

import pytest

from laya._checkpoints.config import SpecialTokens
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import CheckpointFormatError


def test_texts_are_encoded_without_special_tokens(english: TextTokenizer) -> None:
    """The pipeline frames them itself."""
    ids = english.encode(["", "hello there"])
    assert ids[0] == []
    assert not {english.special.cls, english.special.sep} & set(ids[1])


def test_ids_are_those_of_the_transformers_tokenizer(english: TextTokenizer, checkpoints: Path) -> None:
    """A reference that reads the same file."""
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(checkpoints / "english" / "tokenizer")
    texts = ["Hi, we were billed twice.", "請求書 größer 😀", " leading", "a\n\nb\t", "[SEP] x [PAD]"]
    assert english.encode(texts) == [reference(text, add_special_tokens=False)["input_ids"] for text in texts]
    ids = english.encode(texts)
    assert [english.decode(one) for one in ids] == [reference.decode(one) for one in ids]


def test_decoding_gives_the_text_back(english: TextTokenizer) -> None:
    """Special tokens that the text names stay, as the model reads them."""
    text = "a [SEP] b  größer\n😀 . ,"
    assert english.decode(english.encode([text])[0]) == text


def test_the_mask_token_of_this_tokenizer_is_blanked(english: TextTokenizer, multilingual: TextTokenizer) -> None:
    """Another tokenizer's mask token is plain text."""
    assert english.encode(["a [MASK] b"]) == english.encode(["a   b"])
    assert multilingual.encode(["a <mask> b"]) == multilingual.encode(["a   b"])
    assert multilingual.special.mask not in multilingual.encode(["a [MASK] b"])[0]


def test_a_lone_surrogate_reads_as_a_replacement_character(english: TextTokenizer) -> None:
    """JSON can hold half a pair; the model gets U+FFFD."""
    assert english.encode(["x \ud83d y", "ok"]) == english.encode(["x \ufffd y", "ok"])


def test_truncation_and_padding_of_the_file_are_off(checkpoints: Path, tmp_path: Path) -> None:
    """Budgets are the pipeline's own."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoints / "english" / "tokenizer" / "tokenizer.json"))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = TextTokenizer.from_file(tmp_path / "tokenizer.json", SpecialTokens("[CLS]", "[SEP]", "[MASK]", "[PAD]"))
    short, long = loaded.encode(["a", "one two three four five six seven"])
    assert len(short) < 3 < len(long)


def test_a_missing_special_token_names_the_file(checkpoints: Path) -> None:
    """tokenizer_config.json may belong to another tokenizer."""
    path = checkpoints / "english" / "tokenizer" / "tokenizer.json"
    with pytest.raises(CheckpointFormatError, match=r"tokenizer\.json.*'<bos>'.*cls"):
        TextTokenizer.from_file(path, SpecialTokens("<bos>", "<eos>", "<mask>", "<pad>"))


def test_a_broken_tokenizer_file_is_named(checkpoints: Path, tmp_path: Path) -> None:
    """The Rust error alone would not say which file."""
    path = tmp_path / "tokenizer.json"
    shutil.copy(checkpoints / "english" / "tokenizer" / "tokenizer.json", path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointFormatError, match=str(path)) as caught:
        TextTokenizer.from_file(path, SpecialTokens("[CLS]", "[SEP]", "[MASK]", "[PAD]"))
    assert caught.value.path == path


def test_a_vocabulary_without_its_unknown_token_is_refused(checkpoints: Path, tmp_path: Path) -> None:
    """At the load: the first word that isn't in it would fail a prediction."""
    content = json.loads((checkpoints / "bert" / "tokenizer" / "tokenizer.json").read_text())
    letters = {letter: place for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    content["model"] |= {"vocab": letters, "merges": [], "unk_token": "[NONE]"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointFormatError, match=str(path)):
        TextTokenizer.from_file(path, SpecialTokens("[CLS]", "[SEP]", "[MASK]", "[PAD]"))


def test_other_threads_run_while_a_long_text_is_read(checkpoints: Path) -> None:
    """Also an event loop's, whose timeouts would come late."""
    path = checkpoints / "english" / "tokenizer" / "tokenizer.json"
    tokenizer = TextTokenizer.from_file(path, SpecialTokens("[CLS]", "[SEP]", "[MASK]", "[PAD]"))
    beats: list[float] = []
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.005):
            beats.append(time.perf_counter())

    thread = threading.Thread(target=beat)
    thread.start()
    started = time.perf_counter()
    [ids] = tokenizer.encode(["word " * 100_000])
    ended = time.perf_counter()
    done.set()
    thread.join()
    assert len(ids) > 100_000
    assert sum(started < at < ended for at in beats) >= 3
