"""An agent in the hands of someone who misuses it: named errors early, and no silent nonsense."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from safetensors.torch import load_file, save_file

import laya
from laya.errors import CheckpointError, CheckpointFormatError, HookError, OptionError, QuestionError, StateError

pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")
QUESTIONS = {"late": {"type": "noul", "instructions": "Is it late?"}}


class Parcel(BaseModel):
    """One yes-no field."""

    late: bool


@pytest.fixture(scope="module")
def agent(checkpoints: Path) -> laya.Agent:
    """A small agent, once."""
    return laya.load(checkpoints / "bert", device="cpu")


@pytest.fixture
def spoilt(checkpoints: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may spoil."""
    return Path(shutil.copytree(checkpoints / "english", tmp_path / "english"))


def rewrite(root: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Path:
    """Change the tensors of a checkpoint."""
    path = root / "model.safetensors"
    tensors = load_file(path)
    save_file({name: change(name, tensor) for name, tensor in tensors.items()}, path)
    return root


def test_a_forked_child_predicts(checkpoints: Path) -> None:
    """Also where the parent has computed with several threads, and a pass of another thread runs at the fork."""
    script = f"""
        import os, signal, threading, time, torch, laya
        torch.set_num_threads(2)
        agent = laya.load({str(checkpoints / "bert")!r}, device="cpu")
        questions = {QUESTIONS!r}
        expected = agent.predict("hello", questions)["answers"]
        stop = threading.Event()
        def work():
            while not stop.is_set():
                agent.predict_batch(["word " * 60] * 8, questions)
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.2)
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            os._exit(0 if agent.predict("hello", questions)["answers"] == expected else 3)
        stop.set()
        thread.join()
        assert os.waitpid(pid, 0)[1] == 0, "the child hung or answered otherwise"
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr


def test_a_forked_child_computes_in_any_thread_first(checkpoints: Path) -> None:
    """The thread that forked lets go of the compute threads that stayed behind, whoever has the first pass."""
    script = f"""
        import os, signal, sys, threading, torch, laya
        torch.set_num_threads(2)
        agent = laya.load({str(checkpoints / "english")!r}, device="cpu")
        work = lambda: agent.predict_batch(["word " * 200] * 8, {QUESTIONS!r}, batch_size=8)
        work()
        torch.relu(torch.randn(2000, 2000))
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            work()
            os._exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
def test_an_agent_says_that_it_is_not_pickled(agent: laya.Agent, duplicate: Callable[[Any], Any]) -> None:
    """And what to do instead."""
    with pytest.raises(TypeError, match=r"Agent can't be pickled or copied.*load one in each process"):
        duplicate(agent)


@pytest.mark.parametrize(("damaged_name", "value"), [("scorer.3.bias", "nan"), ("act_head.2.bias", "inf")])
def test_weights_that_give_no_numbers_are_an_error(spoilt: Path, damaged_name: str, value: str) -> None:
    """No answer is made of them, and no action."""
    root = rewrite(spoilt, lambda name, t: torch.full_like(t, float(value)) if name == damaged_name else t)
    damaged = laya.load(root, device="cpu")
    with pytest.raises(CheckpointError, match="computed NaN or infinity"):
        damaged.predict("hello", QUESTIONS)


def test_budgets_of_numpy_leave_results_json(agent: laya.Agent) -> None:
    """A count that NumPy made is a number like any other."""
    budgets: dict[str, Any] = {"max_len": np.int64(64), "head_max_len": np.int32(24)}
    short = agent.predict("word " * 90, QUESTIONS, **budgets)
    long = agent.predict_long("word " * 90, QUESTIONS, **budgets, window=np.int64(30), stride=np.int16(20))  # type: ignore[arg-type]
    for result in (short, long):
        assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64])
def test_weights_that_are_no_floats_are_refused(spoilt: Path, dtype: torch.dtype) -> None:
    """They would convert without a word."""
    root = rewrite(spoilt, lambda name, t: t.to(dtype) if name == "type_emb.weight" else t)
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors: type_emb\.weight holds"):
        laya.load(root, device="cpu")


def test_a_tokenizer_with_ids_beyond_the_embedding_is_refused(spoilt: Path, checkpoints: Path) -> None:
    """At load, rather than at the first text that uses one."""
    config = spoilt / "encoder" / "config.json"
    config.write_text(config.read_text().replace('"vocab_size": 900', '"vocab_size": 800'))
    with pytest.raises(CheckpointFormatError, match="the encoder embeds 800 tokens"):
        laya.load(spoilt, device="cpu")


def test_a_mask_token_that_is_the_cls_token_is_refused(spoilt: Path) -> None:
    """Options could not be told from the start of the sequence."""
    config = spoilt / "tokenizer" / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"mask_token": "[MASK]"', '"mask_token": "[CLS]"'))
    with pytest.raises(CheckpointFormatError, match="options need their own"):
        laya.load(spoilt, device="cpu")


def test_a_path_that_is_too_long_is_a_checkpoint_error() -> None:
    """Shortened in the message."""
    with pytest.raises(CheckpointError) as caught:
        laya.load("/" + "a" * 5000)
    assert len(str(caught.value)) < 200


def test_lang_temperatures_are_refused_before_the_weights_are_read(spoilt: Path) -> None:
    """A damaged weights file is not reached."""
    (spoilt / "model.safetensors").write_bytes(b"")
    with pytest.raises(OptionError, match="lang_temperatures") as caught:
        laya.load(spoilt, device="cpu", lang_temperatures={"de": {"choice": 1.0}})
    assert caught.value.option == "lang_temperatures"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_len", 0),
        ("head_max_len", "x"),
        ("min_confidence", 2),
        ("min_confidence", {}),
        ("min_confidence", {"x": 1}),
        ("lang", 5),
    ],
)
def test_an_option_error_carries_the_option(agent: laya.Agent, option: str, value: Any) -> None:
    """For callers that show it beside a form's field."""
    with pytest.raises(OptionError) as caught:
        agent.predict("x", QUESTIONS, **{option: value})
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("option", "value"), [("window", 0), ("stride", "x"), ("aggregate", "mean"), ("batch_size", 0)]
)
def test_a_scan_option_error_carries_the_option(agent: laya.Agent, option: str, value: Any) -> None:
    """As those of `predict`."""
    with pytest.raises(OptionError) as caught:
        agent.predict_long("x", QUESTIONS, **{option: value})
    assert caught.value.option == option


def test_whole_numbers_of_numpy_are_whole_numbers(agent: laya.Agent) -> None:
    """For every count that a call takes."""
    count: Any = np.int64
    batch = agent.predict_batch(["a", "b"], QUESTIONS, batch_size=count(1), max_len=count(60))
    long = agent.predict_long("word " * 100, QUESTIONS, window=count(20), stride=count(20))
    assert len(batch) == 2
    assert long["usage"]["windows"] > 1


def test_a_state_error_carries_the_index(agent: laya.Agent) -> None:
    """The state at fault is found without reading the message."""
    for bad in (None, b"bytes"):
        with pytest.raises(StateError) as caught:
            agent.predict_batch(["fine", bad], QUESTIONS)
        assert caught.value.index == 1


def test_states_that_are_no_list_are_told_to_be_one(agent: laya.Agent) -> None:
    """A generator holds several states: `predict` would be the wrong advice."""
    with pytest.raises(StateError, match=r"list\(states\)"):
        agent.predict_batch((text for text in "ab"), QUESTIONS)  # type: ignore[arg-type]


def test_results_that_a_hook_set_to_no_list_are_refused(agent: laya.Agent) -> None:
    """A bare payload would be read by its first key."""

    def answer(ctx: Any) -> None:
        ctx.results = {"answers": {}}

    with pytest.raises(HookError, match=r"use ctx\.skip"):
        agent.predict("x", QUESTIONS, on_predict_start=answer)


def test_decide_returns_the_type_it_was_given(agent: laya.Agent) -> None:
    """Also to a type checker."""
    assert isinstance(assert_type(agent.decide("x", Parcel), Parcel), Parcel)
    assert assert_type(agent.decide_batch(["x"], Parcel), list[Parcel])
    schema = {"type": "object", "properties": {"late": {"type": "boolean"}}}
    assert set(assert_type(agent.decide("x", schema), dict[str, Any])) == {"late"}


def test_decide_names_the_field_that_a_hooks_payload_lacks(agent: laya.Agent) -> None:
    """Also where the payload has no answers at all."""
    with pytest.raises(QuestionError, match="field 'late' has no answer"):
        agent.decide("x", Parcel, on_predict_start=lambda ctx: ctx.skip([{}]))


def test_a_nan_label_and_a_huge_id_are_refused_in_short(agent: laya.Agent) -> None:
    """NaN finds no answer in a dict; a message stays a line."""
    with pytest.raises(QuestionError, match="NaN"):
        agent.predict("x", {"q": {"type": "choice", "instructions": "x", "criteria": [float("nan"), 1.0]}})
    with pytest.raises(QuestionError) as caught:
        agent.predict("x", {"z" * 100_000: 5})
    assert len(str(caught.value)) < 300


def test_submodules_are_attributes_of_the_package() -> None:
    """Without an import of their own."""
    code = "import laya; print(laya.questions.Levels.__name__, laya.types.Result.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["Levels", "Result"]
