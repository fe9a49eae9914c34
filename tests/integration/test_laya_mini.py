"""The checkpoint that comes with the package: there without a network, small, and sensible."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel

import laya
from training.evaluate import ask, load_decisions

ROOT = Path(laya.__file__).parent / "checkpoints" / "laya-mini"
EVALUATION = Path(__file__).parents[2] / "training" / "eval"
MOST_WRONG = 0.08
"""Share of the guides' questions that may be answered wrongly: 19 of 310 are."""


@pytest.fixture(scope="module")
def mini() -> laya.Agent:
    """The checkpoint by its name; loading it gives no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return laya.load("laya-mini", device="cpu")


def test_it_is_small() -> None:
    """Five files of at most 56 MB together."""
    files = [path for path in ROOT.rglob("*") if path.is_file()]
    assert len(files) == 5 and sum(path.stat().st_size for path in files) <= 56e6


def test_it_has_every_tensor_of_its_encoder() -> None:
    """As the layout wants: `AutoModel` finds each of them, also those that answer nothing."""
    settings = json.loads((ROOT / "encoder" / "config.json").read_text(encoding="utf-8"))
    kind = settings.pop("model_type")
    with torch.device("meta"):
        encoder = AutoModel.from_config(AutoConfig.for_model(kind, **settings))
    with safe_open(str(ROOT / "model.safetensors"), framework="pt") as file:
        held = {name.removeprefix("encoder.") for name in file.keys() if name.startswith("encoder.")}  # noqa: SIM118
    assert held == {name for name, _ in encoder.named_parameters()}


def test_a_router_and_an_agent_know_its_name(mini: laya.Agent) -> None:
    """Both give the same answer."""
    questions = {"refund": {"type": "noul", "instructions": "Does the customer want money back?"}}
    routed = laya.Router(models={"english": "laya-mini"}, device="cpu").predict("Please refund me.", questions)
    assert routed["routing"]["repo"] == "laya-mini"
    assert routed["answers"] == mini.predict("Please refund me.", questions)["answers"]


def test_the_questions_of_the_guides_are_answered_in_other_words() -> None:
    """Each question of the quickstart and of the presets, on texts it wasn't trained on, in five wordings."""
    decisions = [decision for decision in load_decisions(EVALUATION) if decision.suite == "wordings"]
    wrong = [
        (decision.question["instructions"], decision.state, given)
        for decision, given in zip(decisions, ask("laya-mini", decisions), strict=True)
        if given.index(max(given)) != decision.gold
    ]
    assert len(decisions) >= 300 and len(wrong) <= MOST_WRONG * len(decisions), wrong


def test_the_quickstart_is_answered_as_a_reader_would(mini: laya.Agent) -> None:
    """The answers that the first page of the documentation shows."""
    questions = {
        "topic": {
            "type": "choice",
            "instructions": "What is the customer writing about?",
            "criteria": {"refund": "wants money back", "delivery": "asks where a parcel is", "other": None},
        },
        "urgent": {"type": "noul", "instructions": "Does the customer need an answer today?"},
        "anger": {
            "type": "score",
            "instructions": "How angry is the customer?",
            "criteria": ["calm", "annoyed", "furious"],
        },
    }
    upset = mini.predict("My parcel arrived broken. I want my money back, and I need an answer today!", questions)[
        "answers"
    ]
    polite = mini.predict("Hello, could you tell me where my parcel is? No hurry.", questions)["answers"]
    assert upset["topic"]["choice"] == "refund" and polite["topic"]["choice"] == "delivery"
    assert upset["urgent"]["noul"] > 0.5 > polite["urgent"]["noul"]
    assert upset["anger"]["score"] > polite["anger"]["score"]


@pytest.mark.parametrize("codes", ["12", "ab", "AB"])
def test_labels_that_say_nothing_leave_it_to_their_descriptions(mini: laya.Agent, codes: str) -> None:
    """Wherever the right one stands."""
    for first, second, right in (("a dog", "a cat", codes[1]), ("a cat", "a dog", codes[0])):
        criteria = {codes[0]: first, codes[1]: second}
        question = {"type": "choice", "instructions": "Which animal is it?", "criteria": criteria}
        answer = mini.predict("The pet on the sofa says meow.", {"animal": question})["answers"]["animal"]
        assert answer["choice"] == right, criteria
