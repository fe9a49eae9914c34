"""The test doubles that ship: a runner without a model behaves as an Agent does, and a hook remembers all it saw."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from laya import Router
from laya.errors import OptionError, QuestionError, StateError
from laya.testing import FakeCall, FakeRunner, RecordingHook

QUESTIONS: dict[str, Any] = {
    "urgent": {"type": "noul", "instructions": "Is it urgent?"},
    "team": {"type": "choice", "instructions": "Which team?", "criteria": ["billing", "shipping", "sales"]},
    "mood": {"type": "score", "instructions": "How is the mood?", "criteria": ["calm", "cross", "furious"]},
}


def answers(runner: FakeRunner, state: Any = "where is it", **options: Any) -> dict[str, Any]:
    """The answers about one state."""
    return runner.predict(state, QUESTIONS, **options)["answers"]  # type: ignore[return-value]


class TestFakeRunner:
    """A runner for the tests of code that decides."""

    def test_it_answers_from_its_script(self) -> None:
        """A label, a truth and a level are what the answers say."""
        given = answers(FakeRunner({"urgent": False, "team": "sales", "mood": 2}))
        assert given["urgent"]["noul"] == 0.03
        assert given["team"]["choice"] == "sales"
        assert given["team"]["probabilities"] == {"billing": 0.015, "shipping": 0.015, "sales": 0.97}
        assert given["mood"]["probabilities"] == {"0": 0.015, "1": 0.015, "2": 0.97}

    def test_probabilities_can_be_scripted(self) -> None:
        """For tests of what happens when the model is in doubt."""
        given = answers(FakeRunner({"urgent": 0.4, "team": {"billing": 3, "sales": 1}, "mood": {0: 0.5, 2: 0.5}}))
        assert given["urgent"]["noul"] == 0.4
        assert given["team"]["probabilities"] == {"billing": 0.75, "shipping": 0.0, "sales": 0.25}
        assert given["mood"]["score"] == 1.0

    def test_a_function_answers_by_the_state(self) -> None:
        """It gets each state of a batch."""
        runner = FakeRunner({"urgent": lambda state: "now" in state})
        results = runner.predict_batch(["come now", "no hurry"], QUESTIONS)
        assert [result["answers"]["urgent"]["noul"] for result in results] == [0.97, 0.03]

    def test_an_id_can_be_a_number(self) -> None:
        """The script knows a question by the id that it is asked by."""
        result = FakeRunner({1: True}).predict("a", {1: QUESTIONS["urgent"]})  # type: ignore[dict-item]
        assert [answer["noul"] for answer in result["answers"].values()] == [0.97]

    def test_an_exception_is_raised(self) -> None:
        """The call fails as a model's failure would, and its hooks see it."""
        hook, failure = RecordingHook(), RuntimeError("out of memory")
        with pytest.raises(RuntimeError) as caught:
            answers(FakeRunner({"urgent": failure}, hooks=hook))
        assert caught.value is failure
        assert hook.names == ["on_predict_start", "on_error", "on_predict_end"]

    def test_the_script_can_change(self) -> None:
        """From the next call on, and for the given ids only."""
        runner = FakeRunner({"team": "sales", "urgent": True})
        runner.script({"team": "billing"})
        given = answers(runner)
        assert (given["team"]["choice"], given["urgent"]["noul"]) == ("billing", 0.97)

    def test_what_isnt_scripted_follows_from_the_state(self) -> None:
        """Other words give other numbers; a batch gives those of single calls."""
        runner = FakeRunner()
        states = ["one", "two", {"text": "three"}, ["four", "five"]]
        batch = [result["answers"] for result in runner.predict_batch(states, QUESTIONS, batch_size=4)]
        assert batch == [answers(runner, state) for state in states]
        assert len({result["urgent"]["noul"] for result in batch}) == len(states)

    def test_the_numbers_are_the_same_in_every_process(self) -> None:
        """A test may compare with a number that it holds."""
        assert answers(FakeRunner(), "where is it")["urgent"]["noul"] == 0.1885

    def test_calls_list_what_was_inferred(self) -> None:
        """A call that a hook answered costs nothing and isn't listed."""
        runner = FakeRunner()
        runner.predict_batch(["a", "b"], QUESTIONS)
        runner.predict("c", QUESTIONS, on_predict_start=lambda ctx: ctx.skip({"answers": {}}))
        assert runner.calls == [FakeCall(["a", "b"], QUESTIONS)]

    def test_calls_are_listed_as_they_were(self) -> None:
        """What the caller does to a state or a question later isn't in them."""
        runner, asked = FakeRunner(), {"urgent": dict(QUESTIONS["urgent"])}
        state = {"order": {"late": True}}
        runner.predict(state, asked)
        state["order"]["late"] = False
        asked["urgent"]["instructions"] = "Is it late?"
        assert runner.calls == [FakeCall([{"order": {"late": True}}], {"urgent": QUESTIONS["urgent"]})]

    @pytest.mark.parametrize(
        ("script", "named"),
        [
            ({"team": "support"}, "'team' is 'support'; it must be one of 'billing', 'shipping', 'sales'"),
            ({"urgent": "yes"}, "'urgent' is 'yes'; it must be a bool, or P"),
            ({"urgent": 1.5}, "'urgent' is 1.5;"),
            ({"mood": 3}, "'mood' is 3; it must be one of '0', '1', '2'"),
            ({"mood": {7: 1}}, "'mood' is dict; it must be shares of '0', '1', '2'"),
            ({"team": {}}, "'team' is dict;"),
            ({"team": {"billing": float("nan")}}, "'team' is dict; it must be shares of .*, each a finite number"),
            ({"team": {"billing": 1.0, "sales": float("nan")}}, "'team' is dict;"),
            ({"team": {"billing": float("inf")}}, "'team' is dict;"),
            ({"team": {"billing": 1e308, "sales": 1e308}}, "'team' is dict;"),
            ({"mood": {0: "most"}}, "'mood' is dict;"),
            ({"mood": {0: -1, 1: 2}}, "'mood' is dict;"),
        ],
    )
    def test_a_script_that_no_model_could_play_is_refused(self, script: dict[str, Any], named: str) -> None:
        """The message names the question and what it can be."""
        with pytest.raises(OptionError, match=named):
            answers(FakeRunner(script))

    def test_questions_and_states_are_checked(self) -> None:
        """A test finds the mistake that the model would have found."""
        with pytest.raises(QuestionError):
            FakeRunner().predict("a", {"q": {"type": "choice", "instructions": "?"}})
        with pytest.raises(StateError):
            FakeRunner().predict(None, QUESTIONS)
        with pytest.raises(OptionError, match="max_len"):
            FakeRunner(max_len=0)

    def test_budgets_cut_long_states(self) -> None:
        """In words; predict_long reads all of them, in windows."""
        runner, state = FakeRunner(max_len=100, head_max_len=40), "word " * 200
        assert runner.predict(state, QUESTIONS)["usage"]["truncated"] is True
        assert runner.predict_long(state, QUESTIONS)["usage"]["windows"] > 1

    def test_a_gate_marks_doubtful_answers(self) -> None:
        """As an Agent's does."""
        given = answers(FakeRunner({"urgent": 0.55, "team": "sales"}), min_confidence=0.6)
        assert given["urgent"]["low_confidence"] is True
        assert given["team"]["abstention"] == "passed"

    def test_it_decides_by_a_schema(self) -> None:
        """Code that wants objects can be tested as well."""

        class Ticket(BaseModel):
            urgent: bool
            team: Literal["billing", "sales"]

        assert FakeRunner({"urgent": True, "team": "sales"}).decide("x", Ticket) == Ticket(urgent=True, team="sales")

    def test_a_router_takes_it(self) -> None:
        """Routing, hooks and batches of a Router are tested without a checkpoint."""
        router, hook = Router(), RecordingHook()
        english, other = FakeRunner({"urgent": True}), FakeRunner({"urgent": False})
        router.attach("english", english)
        router.attach("multilingual", other)
        requests = [{"state": text, "questions": QUESTIONS} for text in ("Where is my parcel?", "Где моя посылка?")]
        results = router.predict_batch(requests, hooks=hook)
        assert [result["answers"]["urgent"]["noul"] for result in results] == [0.97, 0.03]
        assert [len(english.calls), len(other.calls)] == [1, 1]
        assert [ctx.decision["model"] for ctx in hook.at("on_route")] == ["english", "multilingual"]

    def test_no_torch_is_loaded(self) -> None:
        """Tests that use it start quickly."""
        script = (
            "import sys; from laya.testing import FakeRunner\n"
            "FakeRunner().predict('a', {'q': {'type': 'noul', 'instructions': '?'}})\n"
            "print(sorted({'torch', 'transformers', 'tokenizers', 'onnxruntime'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("[]\n", "")


class TestRecordingHook:
    """A hook that remembers."""

    def test_it_keeps_each_context_as_it_was(self) -> None:
        """Later events don't reach back."""
        hook = RecordingHook()
        runner = FakeRunner(hooks=[hook, ShoutingHook()])
        runner.predict({"text": "hello"}, QUESTIONS)
        (start,), (end,) = hook.at("on_predict_start"), hook.at("on_predict_end")
        assert start.states == [{"text": "hello"}] and end.states == [{"text": "HELLO"}]
        assert start.results is None and end.results is not None
        assert start.run_id == end.run_id and end.agent is runner

    def test_a_handler_acts_after_the_recording(self) -> None:
        """It sees the real context."""
        hook = RecordingHook(on_predict_start=lambda ctx: ctx.skip({"answers": {"urgent": "cached"}}))
        assert FakeRunner(hooks=hook).predict("a", QUESTIONS)["answers"] == {"urgent": "cached"}
        assert hook.at("on_predict_start")[0].results is None

    def test_a_handler_of_no_event_is_refused(self) -> None:
        """A misspelt event would never fire."""
        with pytest.raises(OptionError, match="'on_end' is no event"):
            RecordingHook(on_end=print)

    def test_it_can_forget(self) -> None:
        """For the next part of a test."""
        hook = RecordingHook()
        FakeRunner(hooks=hook).predict("a", QUESTIONS)
        hook.clear()
        assert hook.events == []


class ShoutingHook:
    """A hook that changes the states in place, as it should not."""

    def on_predict_start(self, ctx: Any) -> None:
        ctx.states[0]["text"] = ctx.states[0]["text"].upper()
