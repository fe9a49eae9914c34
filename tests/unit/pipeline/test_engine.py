"""The steps from states to results, over a forward that can be computed by hand."""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from laya._checkpoints.config import CheckpointConfig
from laya._pipeline.batches import Batch, PassCost
from laya._pipeline.calibration import Temperatures
from laya._pipeline.engine import BatchOptions, Engine
from laya._pipeline.tokenizer import TextTokenizer
from laya.errors import OptionError, QuestionError, StateError
from tests.unit.pipeline.conftest import load_tokenizer

NOUL = {"type": "noul", "instructions": "Is it urgent?"}
SCORE = {"type": "score", "instructions": "How urgent is it?", "criteria": ["low", "mid", "high"]}
CHOICE = {"type": "choice", "instructions": "Which?", "criteria": {"a": "first", "b": "second"}}
ALL = {"n": NOUL, "s": SCORE, "c": CHOICE}
COST = PassCost(24, 4096)
CONFIG = CheckpointConfig(160, 64, 2, (1.0, 1.0, 1.0), {}, 2, "bf16", None, {})


class CountingForward:
    """Logit of an option: its slot, plus the row's length over 100. Remembers the shapes it saw."""

    def __init__(self, cost: PassCost = COST, positions: int | None = None) -> None:
        self.cost = cost
        self.max_positions = positions
        self.min_options = 1
        self.shapes: list[tuple[int, int]] = []
        self.lengths: list[list[int]] = []

    def __call__(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        rows, width = batch.input_ids.shape
        lengths = batch.attention_mask.sum(1)
        self.shapes.append((rows, width))
        self.lengths.append(lengths.tolist())
        slots = np.arange(batch.marker_mask.shape[1])[None, :] * (lengths[:, None] / 100)
        return slots.astype(np.float32), np.zeros((rows, 2), np.float32)


class CountingTokenizer(TextTokenizer):
    """Counts how often each text is encoded."""

    def __init__(self, inner: TextTokenizer) -> None:
        super().__init__(inner._tokenizer, inner.special, inner._mask_token)
        self.seen: Counter[str] = Counter()
        self.together: list[int] = []

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        self.seen.update(texts)
        self.together.append(len(texts))
        return super().encode(texts)


@pytest.fixture
def tokenizer(checkpoints: Path) -> CountingTokenizer:
    """A real tokenizer under observation."""
    return CountingTokenizer(load_tokenizer(checkpoints / "english"))


@pytest.fixture
def forward() -> CountingForward:
    """A forward under observation."""
    return CountingForward()


@pytest.fixture
def engine(tokenizer: CountingTokenizer, forward: CountingForward) -> Engine:
    """Both, put together."""
    return Engine(tokenizer, forward, CONFIG)


def texts(words: Iterable[int]) -> list[str]:
    """States of so many words, each of its own kind."""
    return [f"s{index} " + "word " * count for index, count in enumerate(words)]


def noul_of(tokens: int) -> float:
    """P(true) that `CountingForward` gives a row of so many tokens."""
    return round(1 / (1 + math.exp(-tokens / 100)), 4)


def test_results_keep_input_order(engine: Engine) -> None:
    """However the rows were sorted into passes."""
    states = texts([50, 1, 80, 3, 20, 0])
    results = engine.infer(states, {"n": NOUL})
    assert [result["answers"]["n"]["noul"] for result in results] == [
        noul_of(result["usage"]["input_tokens"]) for result in results
    ]
    alone = [engine.infer([state], {"n": NOUL})[0] for state in states]
    assert results == alone


def test_usage_counts_the_real_tokens_of_all_rows(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """Padding is none of them."""
    states = texts([2, 30])
    results = engine.infer(states, ALL)
    heads = engine.heads(ALL)
    for state, result in zip(states, results, strict=True):
        count = len(tokenizer.encode([state])[0])
        usage = result["usage"]
        assert usage["input_tokens"] == sum(len(head.ids) + count + 1 for head in heads)
        assert (usage["output_tokens"], usage["state_tokens"]) == (0, count)
        assert (usage["truncated"], usage["truncated_questions"], usage["state_tokens_dropped"]) == (False, [], 0)


def test_usage_names_the_questions_that_cut_the_state(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """The worst question decides how many tokens were dropped."""
    rooms = {head.question.id: head.room for head in engine.heads(ALL)}
    assert len(set(rooms.values())) == 3
    state = "word " * 160
    count = len(tokenizer.encode([state])[0])
    between = sorted(rooms.values())[1]
    for budget in (None, 160 + count - between):
        (result,) = engine.infer([state], ALL, (budget, None))
        extra = 0 if budget is None else budget - 160
        cut = [qid for qid, room in rooms.items() if count > room + extra]
        assert result["usage"]["truncated_questions"] == cut
        assert result["usage"]["state_tokens_dropped"] == count - min(rooms.values()) - extra
        assert result["usage"]["truncated"] is True


def test_options_that_read_the_same_are_reported(engine: Engine) -> None:
    """Only then, and only of the question they belong to."""
    long = {"type": "choice", "instructions": "?", "criteria": [f"the same long beginning of it {i}" for i in range(9)]}
    (result,) = engine.infer(["x"], {"n": NOUL, "long": long})
    assert result["usage"]["options"] == {"long": {"total": 9, "distinct": 1, "tokens_per_option": 5}}
    assert "options" not in engine.infer(["x"], ALL)[0]["usage"]


def test_heads_and_states_are_tokenized_once(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """Whatever the number of the others."""
    states = texts(range(30))
    engine.infer(states, ALL)
    assert set(tokenizer.seen.values()) == {1}
    tokenizer.seen.clear()
    engine.infer(states[:3], ALL)
    assert set(tokenizer.seen) == set(states[:3])


def test_a_reused_head_keeps_the_callers_own_id(engine: Engine) -> None:
    """1 and True are equal, but not the same key of a JSON answer."""
    for qid in (1, True, 1):
        (found,) = engine.infer(["x"], {qid: NOUL})[0]["answers"]
        assert type(found) is type(qid)


def test_the_runtime_chooses_passes_within_the_token_budget(tokenizer: CountingTokenizer) -> None:
    """Padding is counted, and short rows are not padded to long ones."""
    forward = CountingForward(PassCost(24, 300))
    Engine(tokenizer, forward, CONFIG).infer(texts([1, 100, 2, 90, 3, 1, 2, 2] * 4), {"n": NOUL})
    assert sum(rows for rows, _ in forward.shapes) == 32
    assert all(rows == 1 or rows * width <= 300 for rows, width in forward.shapes)
    assert len({width for _, width in forward.shapes}) > 1


def test_batch_size_is_so_many_states_a_pass(engine: Engine, forward: CountingForward) -> None:
    """In input order, with all the questions of a state."""
    states = texts([40, 1, 30, 2, 20])
    engine.infer(states, ALL, options=BatchOptions(batch_size=2))
    assert [rows for rows, _ in forward.shapes] == [6, 6, 3]
    alone = [engine.infer([state], ALL)[0]["usage"]["input_tokens"] for state in states]
    firsts = [sum(lengths) for lengths in forward.lengths[:3]]
    assert firsts == [alone[0] + alone[1], alone[2] + alone[3], alone[4]]


def test_batch_size_with_sort_by_length_goes_by_length(engine: Engine, forward: CountingForward) -> None:
    """Shortest first; results stay in input order."""
    states = texts([40, 1, 30, 2, 20])
    plain = engine.infer(states, {"n": NOUL})
    forward.lengths.clear()
    assert engine.infer(states, {"n": NOUL}, options=BatchOptions(2, sort_by_length=True)) == plain
    order = [length for lengths in forward.lengths for length in lengths]
    assert order == sorted(order)
    assert [len(lengths) for lengths in forward.lengths] == [2, 2, 1]


def test_a_batch_size_beyond_the_states_is_one_pass(engine: Engine, forward: CountingForward) -> None:
    """An explicit number is obeyed, whatever the token budget."""
    engine.infer(texts([20] * 50), {"n": NOUL}, options=BatchOptions(10**9))
    assert [rows for rows, _ in forward.shapes] == [50]


def test_a_conversation_loses_its_oldest_tokens(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """A tuple, a dict and a string lose their last ones."""
    turns = [f"turn {index} with a few words" for index in range(60)]
    seen: list[list[int]] = []

    def remember(batch: Batch) -> Any:
        seen.extend(row[row != tokenizer.special.pad].tolist() for row in batch.input_ids)
        return CountingForward()(batch)

    engine.forward = remember  # type: ignore[assignment]
    remember.cost, remember.max_positions, remember.min_options = PassCost(24, 4096), None, 1  # type: ignore[attr-defined]
    engine.infer([turns], {"n": NOUL})
    engine.infer([tuple(turns)], {"n": NOUL})
    left, right = (tokenizer.decode(ids) for ids in seen)
    assert "turn 59" in left
    assert "turn 0 " not in left
    assert "turn 0 " in right
    assert "turn 59" not in right


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (5, "5"),
        (True, "true"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        ("", ""),
        ([], "[]"),
        ({}, "{}"),
        (("ü", None), '["ü", null]'),
        ({"a": {"b": [1, "é"]}, 2: None}, '{"a": {"b": [1, "é"]}, "2": null}'),
    ],
)
def test_a_state_that_is_no_string_is_json(engine: Engine, tokenizer: CountingTokenizer, state: Any, text: str) -> None:
    """With blanks after separators, without ASCII escapes."""
    engine.infer([state], {"n": NOUL})
    assert tokenizer.seen[text] == 1


def test_empty_inputs_neither_tokenize_nor_run(
    engine: Engine, tokenizer: CountingTokenizer, forward: CountingForward
) -> None:
    """No states: nothing; no questions: one empty payload a state, whatever the budgets."""
    assert engine.infer([], ALL) == []
    empty = {"model": "laya-rl-agent", "answers": {}, "usage": {"input_tokens": 0, "output_tokens": 0}}
    assert engine.infer(["a", {"b": 1}], {}, (-3, None)) == [empty, empty]
    assert not tokenizer.seen
    assert not forward.shapes


@pytest.mark.parametrize("states", [None, "abc", b"abc", {"a": 1}, {"a"}, 5], ids=repr)
@pytest.mark.parametrize("questions", [{}, ALL], ids=["none", "some"])
def test_states_are_a_list(engine: Engine, states: Any, questions: Any) -> None:
    """A string would be taken letter by letter."""
    with pytest.raises(StateError):
        engine.infer(states, questions)


def test_a_missing_state_is_named_before_a_bad_question(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """None says that the caller lost a value."""
    with pytest.raises(TypeError, match=r"states\[1\]"):
        engine.infer(["a", None], {"q": {"type": "bogus"}})
    with pytest.raises(TypeError, match=r"states\[0\]"):
        engine.infer([None], {})
    assert not tokenizer.seen


@pytest.mark.parametrize("state", [{1, 2}, b"x", object(), [np.int64(1)], {"a": {("t",): 1}}, {("k",): 1}], ids=repr)
def test_a_state_that_is_no_json_is_refused_before_any_pass(
    engine: Engine, forward: CountingForward, state: Any
) -> None:
    """The error names its place, and no value."""
    with pytest.raises(StateError, match=r"states\[2\]"):
        engine.infer(["secret words", "b", state], {"n": NOUL})
    assert not forward.shapes


def test_a_circular_state_is_refused(engine: Engine) -> None:
    """JSON has no circles."""
    state: list[Any] = []
    state.append(state)
    with pytest.raises(StateError):
        engine.infer([state], {"n": NOUL})


def test_a_bad_question_is_refused_before_tokenizing(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """Also where it is the last of many."""
    with pytest.raises(QuestionError, match="'bad'"):
        engine.infer(["a"], {**ALL, "bad": {"type": "noul"}})
    assert not tokenizer.seen


def test_max_len_beyond_absolute_positions_is_refused(tokenizer: CountingTokenizer) -> None:
    """torch would fail with an index error."""
    engine = Engine(tokenizer, CountingForward(positions=256), CONFIG)
    engine.infer(["a"], {"n": NOUL}, (256, None))
    with pytest.raises(OptionError, match=r"max_len=257.*256"):
        engine.infer(["a"], {"n": NOUL}, (257, None))


def test_temperatures_of_a_call_replace_the_checkpoints(engine: Engine) -> None:
    """Twice the temperature, half the logit."""
    (plain,) = engine.infer(["a"], {"n": NOUL})
    (warm,) = engine.infer(["a"], {"n": NOUL}, temperatures=Temperatures((1.0, 1.0, 2.0), {}))
    tokens = plain["usage"]["input_tokens"]
    assert plain["answers"]["n"]["noul"] == noul_of(tokens)
    assert warm["answers"]["n"]["noul"] == round(1 / (1 + math.exp(-tokens / 200)), 4)


def test_progress_counts_states(engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Each once, when the last of its questions is answered."""
    import tqdm.auto

    bars: list[Any] = []

    class Bar(tqdm.auto.tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.steps: list[int] = []
            bars.append(self)

        def update(self, n: float | None = 1) -> bool | None:
            self.steps.append(int(n or 0))
            return super().update(n)

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    engine.forward.cost = PassCost(0, 300)  # type: ignore[misc]
    engine.infer(texts([1, 50, 3, 70, 5]), ALL, options=BatchOptions(show_progress=True))
    (bar,) = bars
    assert (bar.total, bar.n) == (5, 5)
    assert len(bar.steps) > 1
    assert "state" in capsys.readouterr().err
    engine.infer(texts([1]), ALL)
    assert len(bars) == 1


def test_states_are_encoded_in_bounded_runs(engine: Engine, tokenizer: CountingTokenizer) -> None:
    """The tokenizer never holds a whole large call."""
    engine.infer(texts([1] * 5000), {"n": NOUL})
    assert max(tokenizer.together) <= 64
    assert sum(tokenizer.seen.values()) >= 5000


def test_passes_start_before_the_last_state_is_encoded(tokenizer: CountingTokenizer) -> None:
    """States are streamed: a run is answered before the next is read."""
    seen_at_first_pass: list[int] = []

    class Noting(CountingForward):
        def __call__(self, batch: Batch) -> Any:
            seen_at_first_pass.append(sum(tokenizer.together))
            return super().__call__(batch)

    Engine(tokenizer, Noting(), CONFIG).infer(texts([1] * 6000), {"n": NOUL})
    assert seen_at_first_pass[0] < 3000
    assert seen_at_first_pass[-1] >= 6000


def test_twenty_thousand_states_need_the_memory_of_their_results(tokenizer: CountingTokenizer) -> None:
    """Beside the results, only one run of states is held at a time."""
    live: list[int] = []

    class Weighing(CountingForward):
        def __call__(self, batch: Batch) -> Any:
            live.append(sys.getallocatedblocks())
            return super().__call__(batch)

    engine = Engine(tokenizer, Weighing(), CONFIG)
    states = ["a short state"] * 20_000
    engine.infer(states[:10], {"n": NOUL})
    results = engine.infer(states, {"n": NOUL})
    assert len(results) == 20_000
    assert max(live) - sys.getallocatedblocks() < 5 * 20_000


def test_an_interrupt_in_a_pass_leaves_the_engine_usable(engine: Engine, forward: CountingForward) -> None:
    """No state is kept between passes."""
    expected = engine.infer(texts([1, 2, 3]), ALL)

    class Interrupted(CountingForward):
        def __call__(self, batch: Batch) -> Any:
            if self.shapes:
                raise KeyboardInterrupt
            return super().__call__(batch)

    engine.forward = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        engine.infer(texts([1, 2, 3]), ALL, options=BatchOptions(1))
    engine.forward = forward
    assert engine.infer(texts([1, 2, 3]), ALL) == expected


def test_heads_may_be_built_by_many_threads(engine: Engine) -> None:
    """The cache is shared, and bounded."""
    errors: list[BaseException] = []

    def ask(offset: int) -> None:
        try:
            for index in range(150):
                (result,) = engine.infer(["x"], {"q": {**NOUL, "instructions": f"{offset} {index}"}})
                assert result["answers"]["q"]["type"] == "noul"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(engine._heads._values) <= 512
