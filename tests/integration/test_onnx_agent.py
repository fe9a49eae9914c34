"""An exported checkpoint answers as the Agent does, through every call, without torch."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest
from pydantic import BaseModel

import laya
from laya.errors import (
    CheckpointFormatError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    LayaError,
    OptionError,
    QuestionError,
)

ROOT = Path(__file__).parents[2]
CHECKPOINTS = ("english", "multilingual", "typed-decisions", "bert")
QUESTIONS = {
    "intent": {
        "type": "choice",
        "instructions": "What does the customer want?",
        "criteria": {"refund": "money back", "exchange": "another one", "information": ""},
    },
    "urgency": {"type": "score", "instructions": "How urgent is it?", "criteria": ["low", "medium", "high"]},
    "complaint": {"type": "noul", "instructions": "The text is a complaint."},
    "topic": {"type": "choice", "instructions": "Pick one.", "criteria": [f"topic {i}" for i in range(8)]},
    "only": {"type": "choice", "instructions": "Say yes.", "criteria": ["yes"]},
}
STATES = [
    "I want my money back, the parcel never came.",
    "",
    "ok",
    {"order": 17, "note": "late", "items": ["lamp", "chair"]},
    [{"role": "user", "content": "hello " * 30}, {"role": "assistant", "content": "yes?"}],
    "Чем я могу помочь?",
    "荷物が届きません。",
    "The invoice is wrong. " * 12,
    "word " * 400,
    12.5,
    ["first", "second"],
    "REFUND NOW!!!",
]

# Two of the small checkpoints hold temperatures that are replaced at load, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie in:RuntimeWarning")


@contextmanager
def expected_warnings() -> Iterator[None]:
    """What the small checkpoints warn of: their temperatures, and that noise in few weights moves their answers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*temperatures must lie in")
        warnings.filterwarnings("ignore", message=".*matrix products could be stored in 8 bits")
        yield


@pytest.fixture(scope="session")
def exported(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An F32 export of each small checkpoint."""
    folder = tmp_path_factory.mktemp("onnx")
    with expected_warnings():
        return {name: laya.export_onnx(checkpoints / name, folder / f"{name}.onnx") for name in CHECKPOINTS}


@pytest.fixture
def bert(checkpoints: Path, exported: dict[str, Path]) -> laya.ONNXAgent:
    """The smallest of them."""
    return laya.ONNXAgent(checkpoints / "bert", exported["bert"])


def numbers(results: Any) -> list[float]:
    """Every probability and expectation, in order."""
    found: list[float] = []
    for result in results:
        for answer in result["answers"].values():
            found += [answer[key] for key in ("noul", "score", "confidence", "answer_confidence") if key in answer]
            found += answer.get("probabilities", {}).values()
            found.append(answer["action"]["act_probability"])
    return found


def probabilities(results: Any) -> list[float]:
    """Every probability, in order."""
    answers = [answer for result in results for answer in result["answers"].values()]
    return [p for a in answers for p in [*a.get("probabilities", {"true": a.get("noul")}).values()]]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_call_answers_as_the_agent_does(name, checkpoints, exported):
    """predict, predict_batch in each order of passes, and predict_long; usage is the same."""
    agent = laya.Agent(checkpoints / name, device="cpu")
    other = laya.ONNXAgent(checkpoints / name, exported[name])
    calls = [
        lambda a: [a.predict(state, QUESTIONS) for state in STATES],
        lambda a: a.predict_batch(STATES, QUESTIONS),
        lambda a: a.predict_batch(STATES, QUESTIONS, batch_size=5, sort_by_length=True),
        lambda a: [a.predict_long("The invoice is wrong. " * 150, {"complaint": QUESTIONS["complaint"]})],
    ]
    for call in calls:
        expected, found = call(agent), call(other)
        assert numbers(found) == pytest.approx(numbers(expected), abs=1e-3)
        assert [result["usage"] for result in found] == [result["usage"] for result in expected]


@pytest.mark.parametrize("name", [*(pytest.param(c, marks=pytest.mark.slow) for c in CHECKPOINTS[:3]), "bert"])
def test_int8_answers_stay_near(name, checkpoints, exported, tmp_path):
    """Within 0.03 of F32, on texts that the export didn't look at; some of the weights are 8 bits."""
    with expected_warnings():
        path = laya.export_onnx(checkpoints / name, tmp_path / "int8[1].onnx", quantize="int8")
    expected = laya.ONNXAgent(checkpoints / name, exported[name]).predict_batch(STATES, QUESTIONS)
    found = laya.ONNXAgent(checkpoints / name, path).predict_batch(STATES, QUESTIONS)
    assert probabilities(found) == pytest.approx(probabilities(expected), abs=0.03)
    assert path.stat().st_size < exported[name].stat().st_size
    operators = {node.op_type for node in onnx.load(str(path)).graph.node}
    assert "MatMulInteger" in operators


def test_an_agent_exports_its_own_checkpoint(checkpoints, tmp_path):
    """As its directory does, byte for byte."""
    agent = laya.Agent(checkpoints / "bert", device="cpu")
    first = laya.export_onnx(agent, tmp_path / "agent.onnx")
    second = laya.export_onnx(str(checkpoints / "bert"), str(tmp_path / "path.onnx"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.onnx", "path.onnx"]


def test_any_name_is_written(checkpoints, tmp_path):
    """Also one that would be a pattern."""
    path = laya.export_onnx(checkpoints / "bert", tmp_path / "laya[v1]*.onnx")
    assert [file.name for file in tmp_path.iterdir()] == [path.name] == ["laya[v1]*.onnx"]


def test_an_agent_exports_what_it_was_loaded_from(checkpoints, exported, tmp_path, monkeypatch):
    """A folder with the name of the shipped checkpoint, seen from another working directory."""
    shutil.copytree(checkpoints / "bert", tmp_path / "laya-mini")
    monkeypatch.chdir(tmp_path)
    agent = laya.Agent(Path("laya-mini"), device="cpu")
    monkeypatch.chdir(tmp_path.parent)
    path = laya.export_onnx(agent, tmp_path / "own.onnx")
    assert path.read_bytes() == exported["bert"].read_bytes()


def test_it_works_where_torch_is_not_installed(checkpoints, exported):
    """Neither torch nor transformers is imported, and none can be."""
    program = f"""
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
import laya
with laya.ONNXAgent({str(checkpoints / "bert")!r}, {str(exported["bert"])!r}) as agent:
    questions = {{"q": {{"type": "noul", "instructions": "Is it late?"}}}}
    print(agent.predict("late again", questions)["answers"]["q"]["noul"])
    long = agent.predict_long("a " * 500, questions)
    print(len(agent.predict_batch(["a", "b"], questions)), long["usage"]["windows"])
assert not [name for name in sys.modules if name.startswith(("torch.", "transformers."))]
"""
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    first, second = outcome.stdout.splitlines()
    assert 0.0 < float(first) < 1.0
    assert second.split()[0] == "2"
    assert int(second.split()[1]) > 1


class Recorder(laya.BaseHook):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []

    def on_predict_start(self, ctx):
        """Note the start."""
        self.seen.append(("start", ctx.run_id, ctx.agent))

    def on_predict_end(self, ctx):
        """Note the end, and that there was time and usage."""
        self.seen.append(("end", ctx.run_id, ctx.usage and ctx.usage["input_tokens"]))

    def on_error(self, ctx):
        """Note the error."""
        self.seen.append(("error", ctx.run_id, ctx.error))


def test_predict_hooks_fire_once_a_call(bert):
    """Start and end share the result's run_id."""
    recorder = Recorder()
    with bert.hooks_installed(recorder):
        result = bert.predict("hello", QUESTIONS)
    run_id = result["run_id"]
    assert recorder.seen == [("start", run_id, bert), ("end", run_id, result["usage"]["input_tokens"])]


def test_an_error_reaches_hooks_before_the_end(bert):
    """And is raised."""
    recorder = Recorder()
    with pytest.raises(QuestionError) as caught:
        bert.predict("hello", {"q": {"type": "guess", "instructions": "x"}}, hooks=recorder)
    assert [event for event, _, _ in recorder.seen] == ["start", "error", "end"]
    assert recorder.seen[1][2] is caught.value
    assert len({run_id for _, run_id, _ in recorder.seen}) == 1


def test_a_skipped_call_runs_no_model(bert):
    """A hook's payload is passed on."""
    payload = {"model": "cache", "answers": {}, "usage": {}}
    assert bert.predict("x", QUESTIONS, on_predict_start=lambda ctx: ctx.skip([payload])) is payload


def test_decide_gives_an_instance(bert):
    """As on an Agent."""

    class Decision(BaseModel):
        """A decision."""

        complaint: bool

    assert isinstance(bert.decide("It is broken.", Decision).complaint, bool)


def test_threads_share_an_agent(bert):
    """Each gets its own answer."""
    expected = [bert.predict(state, QUESTIONS)["answers"] for state in STATES]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda state: bert.predict(state, QUESTIONS)["answers"], STATES))
    assert found == expected


def test_a_closed_agent_says_so(checkpoints, exported):
    """Closing is what leaving a with block does."""
    with laya.ONNXAgent(checkpoints / "bert", exported["bert"]) as agent:
        assert "bert.onnx" in repr(agent)
    assert "closed" in repr(agent)
    with pytest.raises(LayaError, match="closed"):
        agent.predict("x", QUESTIONS)


def test_more_tokens_than_positions_are_refused(bert):
    """BERT's positions are a table."""
    with pytest.raises(OptionError, match="256 positions"):
        bert.predict("x", QUESTIONS, max_len=257)


def test_a_relative_path_is_looked_for_here_then_in_the_checkpoint(checkpoints, exported, tmp_path, monkeypatch):
    """In this order, and under its default name."""
    folder = shutil.copytree(checkpoints / "bert", tmp_path / "bert")
    shutil.copy(exported["bert"], folder / "laya.onnx")
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    assert laya.ONNXAgent(folder).onnx_path == folder / "laya.onnx"
    shutil.copy(exported["bert"], "laya.onnx")
    assert laya.ONNXAgent(folder).onnx_path.absolute() == tmp_path / "cwd" / "laya.onnx"


def test_weights_are_not_needed(checkpoints, exported, tmp_path):
    """The exported file has its own."""
    folder = shutil.copytree(checkpoints / "bert", tmp_path / "bert", ignore=shutil.ignore_patterns("*.safetensors"))
    assert laya.ONNXAgent(folder, exported["bert"]).predict("x", QUESTIONS)["answers"]


def test_a_missing_file_says_how_to_make_one(checkpoints, tmp_path, monkeypatch):
    """It is a FileNotFoundError that names both places."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointNotFoundError, match=r"laya\.export_onnx") as caught:
        laya.ONNXAgent(checkpoints / "bert")
    assert isinstance(caught.value, FileNotFoundError)
    assert str(tmp_path / "laya.onnx") in str(caught.value)
    assert str(checkpoints / "bert" / "laya.onnx") in str(caught.value)


def test_another_checkpoints_file_is_refused(checkpoints, exported):
    """Both digests are named."""
    with pytest.raises(CheckpointIntegrityError, match="belongs to another checkpoint") as caught:
        laya.ONNXAgent(checkpoints / "english", exported["typed-decisions"])
    assert str(exported["typed-decisions"]) in str(caught.value)
    assert str(checkpoints / "english") in str(caught.value)


def test_changed_weights_are_refused(checkpoints, exported, tmp_path):
    """One bit is enough."""
    folder = shutil.copytree(checkpoints / "bert", tmp_path / "bert")
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointIntegrityError, match=r"model\.safetensors"):
        laya.ONNXAgent(folder, exported["bert"])


def test_new_temperatures_need_no_new_export(checkpoints, exported, tmp_path, bert):
    """They are applied outside the graph."""
    folder = shutil.copytree(checkpoints / "bert", tmp_path / "bert")
    config = json.loads((folder / "rl_agent_config.json").read_text())
    (folder / "rl_agent_config.json").write_text(json.dumps({**config, "temperature": [3, 3, 3]}))
    question = {"q": QUESTIONS["intent"]}
    flat, sharp = (agent.predict("x", question) for agent in (laya.ONNXAgent(folder, exported["bert"]), bert))
    assert max(probabilities([flat])) < max(probabilities([sharp]))


def test_expected_weights_are_those_of_the_export(checkpoints, exported):
    """A pinned digest holds for an exported network too."""
    digest = json.loads({entry.key: entry.value for entry in onnx.load(str(exported["bert"])).metadata_props}["laya"])[
        "sha256"
    ]["model.safetensors"]
    pinned = {"model.safetensors": digest.upper()}
    assert laya.ONNXAgent(checkpoints / "bert", exported["bert"], expected_sha256=pinned).max_len == 128
    with pytest.raises(CheckpointIntegrityError, match="expected_sha256"):
        laya.ONNXAgent(checkpoints / "bert", exported["bert"], expected_sha256={"model.safetensors": "0" * 64})


def test_a_file_of_other_origin_is_taken_as_it_is(checkpoints, exported, tmp_path, bert):
    """It records nothing that could be compared; its positions are those of the encoder's configuration."""
    model = onnx.load(str(exported["bert"]))
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "foreign.onnx")
    foreign = laya.ONNXAgent(checkpoints / "bert", tmp_path / "foreign.onnx")
    assert foreign.predict("x", QUESTIONS)["answers"] == bert.predict("x", QUESTIONS)["answers"]
    with pytest.raises(OptionError, match="256 positions"):
        foreign.predict("x", QUESTIONS, max_len=300)


def test_another_number_of_actions_is_refused(checkpoints, exported, tmp_path):
    """Where the file alone says so."""
    model = onnx.load(str(exported["english"]))
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "foreign.onnx")
    with pytest.raises(CheckpointFormatError, match="scores 2 actions"):
        laya.ONNXAgent(checkpoints / "bert", tmp_path / "foreign.onnx")


def test_bad_hooks_are_refused_before_anything_is_loaded(tmp_path):
    """As by an Agent."""
    with pytest.raises(TypeError, match="hooks"):
        laya.ONNXAgent(tmp_path / "nowhere", hooks=3)
    with pytest.raises(OptionError, match="onnx_path"):
        laya.ONNXAgent(tmp_path / "nowhere", 3)


def test_a_router_answers_with_onnx_files(checkpoints, exported, tmp_path):
    """By a path that ends in .onnx beside the checkpoint's files, and by attach."""
    folder = shutil.copytree(checkpoints / "bert", tmp_path / "bert")
    shutil.copy(exported["bert"], folder / "small.onnx")
    attached = laya.ONNXAgent(checkpoints / "bert", exported["bert"])
    expected = laya.Agent(folder, device="cpu").predict("hello", QUESTIONS)
    with laya.Router({"english": str(folder / "small.onnx")}, device="cpu", max_loaded=2) as router:
        router.attach("mine", attached)
        for name in ("english", "mine"):
            result = router.predict("hello", QUESTIONS, model=name)
            assert result["routing"]["model"] == name
            assert numbers([result]) == pytest.approx(numbers([expected]), abs=1e-3)
        assert isinstance(router.load("english"), laya.ONNXAgent)
        batch = router.predict_batch([{"state": s, "questions": QUESTIONS, "model": "english"} for s in STATES])
        assert len(batch) == len(STATES)


async def test_concurrent_callers_share_passes(checkpoints: Path, exported: dict[str, Path]) -> None:
    """With the answers that each gets alone."""
    question = {"q": {"type": "noul", "instructions": "Is it urgent?"}}
    with laya.ONNXAgent(checkpoints / "bert", exported["bert"], batch_window_ms=200) as agent:
        passes: list[int] = []
        forward = agent._open_engine().run_together
        assert agent._shared is not None

        def counting(calls: Any) -> Any:
            passes.append(len(calls))
            return forward(calls)

        agent._shared._run = counting
        states = [f"state {index}" for index in range(20)]
        results = await asyncio.gather(*(agent.apredict(state, question) for state in states))
        alone = agent.predict_batch(states, question, batch_size=1)
    assert sum(passes) == 20 > 4 >= len(passes)
    assert numbers(results) == pytest.approx(numbers(alone), abs=2e-4)
