"""Several calls whose rows go through passes as one set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laya._pipeline.batches import PassCost
from laya._pipeline.calibration import Temperatures
from laya._pipeline.engine import Engine
from laya.errors import QuestionError, StateError
from tests.unit.pipeline.conftest import load_tokenizer
from tests.unit.pipeline.test_engine import ALL, CHOICE, CONFIG, NOUL, CountingForward


@pytest.fixture
def forward() -> CountingForward:
    """A forward under observation."""
    return CountingForward()


@pytest.fixture
def engine(checkpoints: Path, forward: CountingForward) -> Engine:
    """With a real tokenizer."""
    return Engine(load_tokenizer(checkpoints / "english"), forward, CONFIG)


def test_calls_that_ask_different_things_are_answered_as_alone(engine: Engine, forward: CountingForward) -> None:
    """Each with its own questions, budgets and temperatures."""
    warm = Temperatures((1.0, 1.0, 2.0), {})
    asked: list[tuple[Any, ...]] = [
        (["short"], {"n": NOUL}, (None, None), None),
        (["a longer state " * 30, {"a": 1}], ALL, (100, 40), None),
        ([["one turn", "another " * 90]], {"c": CHOICE}, (None, None), None),
        (["short"], {"n": NOUL}, (None, None), warm),
    ]
    alone = [engine.infer(*call[:3], temperatures=call[3]) for call in asked]
    forward.shapes.clear()
    calls = [engine.prepare(*call) for call in asked]
    assert forward.shapes == []
    rows = [call for call in calls if call is not None]
    assert not any(call.answered for call in rows)
    for _ in engine.run_together(rows):
        pass
    assert [call.results() for call in rows] == alone
    assert sum(count for count, _ in forward.shapes) == 1 + 2 * 3 + 1 + 1
    assert alone[0] != alone[3]


def test_rows_of_several_calls_share_a_pass(engine: Engine, forward: CountingForward) -> None:
    """Equal lengths need no more than one."""
    rows = [call for call in (engine.prepare(["same"], {"n": NOUL}) for _ in range(20)) if call is not None]
    assert len(list(engine.run_together(rows))) == 1
    assert [count for count, _ in forward.shapes] == [20]
    assert {call.tokens for call in rows} == {forward.lengths[0][0]}


def test_the_first_call_is_answered_first(checkpoints: Path) -> None:
    """A long row doesn't wait for the short ones that came after it, where no padding is computed."""
    forward = CountingForward(PassCost(40, 128, padded=False))
    engine = Engine(load_tokenizer(checkpoints / "english"), forward, CONFIG)
    asked = [(["a long state " * 30], {"n": NOUL})] + [(["short"], {"n": NOUL})] * 20
    rows = [call for call in (engine.prepare(*call) for call in asked) if call is not None]
    answered = [[call.answered for call in rows] for _ in engine.run_together(rows)]
    assert len(answered) > 2 and answered[0][0] and not all(answered[0])
    assert all(seen == sorted(seen, reverse=True) for seen in answered)


def test_passes_that_run_again_change_nothing(engine: Engine) -> None:
    """Usage counts each row once."""
    call = engine.prepare(["same"], ALL)
    assert call is not None
    found = []
    for _ in range(2):
        for _ in engine.run_together([call]):
            pass
        found.append(call.results())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("states", "questions"),
    [([], ALL), (["a"], {}), (["a"] * 100, ALL), (["word " * 90_000, "b", "c"], {"n": NOUL})],
    ids=["no states", "no questions", "many rows", "much text"],
)
def test_some_calls_are_better_inferred_alone(engine: Engine, states: list[Any], questions: dict[str, Any]) -> None:
    """Nothing to compute, or enough for passes of their own."""
    assert engine.prepare(states, questions) is None


def test_a_bad_call_fails_before_it_joins(engine: Engine) -> None:
    """So no other call ever sees its error."""
    with pytest.raises(StateError):
        engine.prepare([None], ALL)
    with pytest.raises(StateError):
        engine.prepare([{"a": object()}], ALL)
    with pytest.raises(QuestionError):
        engine.prepare(["a"], {"q": {"type": "bogus"}})


def test_a_failed_pass_is_told_with_its_calls(checkpoints: Path) -> None:
    """The others are answered; a call of several passes fails with one of them."""

    class Failing(CountingForward):
        def __call__(self, batch: Any) -> Any:
            if len(self.shapes) == 1:
                self.shapes.append((0, 0))
                raise ArithmeticError
            return super().__call__(batch)

    engine = Engine(load_tokenizer(checkpoints / "english"), Failing(PassCost(40, 128, padded=False)), CONFIG)
    asked = [["a long state " * 30], ["a long state " * 30] * 2, ["a long state " * 30]]
    rows = [call for call in (engine.prepare(states, {"n": NOUL}) for states in asked) if call is not None]
    outcomes = list(engine.run_together(rows))
    assert len(outcomes) == 4
    (failed,) = [outcome for outcome in outcomes if outcome is not None]
    assert failed[0] == [rows[1]]
    assert isinstance(failed[1], ArithmeticError)
    assert [call.answered for call in rows] == [True, False, True]
