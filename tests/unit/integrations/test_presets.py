"""The question sets that ship: laya asks each as it stands, and nobody's change reaches the next caller."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import laya
from laya_integrations import presets

FIELDS = {
    "triage": ("message",),
    "email": ("subject", "body"),
    "guard": ("text",),
    "moderation": ("text",),
    "model_routing": ("prompt",),
    "relevance": ("query", "passage"),
    "faithfulness": ("context", "answer"),
}


@pytest.fixture(scope="module")
def agent(checkpoints: Path) -> Any:
    """An agent that checks questions; its answers don't matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # this checkpoint ships a temperature that loading replaces
        return laya.load(str(checkpoints / "english"), device="cpu")


def test_every_preset_is_listed() -> None:
    """The table above speaks of all of them."""
    assert sorted(FIELDS) == presets.__all__


@pytest.mark.parametrize("name", FIELDS)
def test_laya_answers_every_question(name: str, agent: Any) -> None:
    """The set is valid as it is, and no option is lost to the question budget."""
    questions = getattr(presets, name)()
    result = agent.predict({field: "some words" for field in FIELDS[name]}, questions)
    assert list(result["answers"]) == list(questions)
    assert result["usage"].get("options", {}) == {}


@pytest.mark.parametrize("name", FIELDS)
def test_every_question_names_a_field_that_it_reads(name: str) -> None:
    """In its instructions; and all fields together stand in the docstring."""
    preset = getattr(presets, name)
    for question in preset().values():
        assert set(re.findall(r"\w+", question["instructions"].lower())) & set(FIELDS[name]), question
    assert all(f"`{field}`" in preset.__doc__ for field in FIELDS[name])


@pytest.mark.parametrize("name", FIELDS)
def test_every_answer_is_described(name: str) -> None:
    """The docstring lists each question by id, with its type."""
    preset = getattr(presets, name)
    for question_id, question in preset().items():
        assert f"- `{question_id}`: {question['type']}" in preset.__doc__


@pytest.mark.parametrize("name", FIELDS)
def test_each_call_returns_new_questions(name: str) -> None:
    """Also the criteria: a caller may change any of it."""
    preset = getattr(presets, name)
    first = preset()
    before = repr(first)
    for question in first.values():
        question.get("criteria", {}).clear()
        question["instructions"] = "changed"
    assert repr(preset()) == before


def test_presets_load_no_heavy_module() -> None:
    """They are data."""
    script = "import sys, laya_integrations.presets; print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
