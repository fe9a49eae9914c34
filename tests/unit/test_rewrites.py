"""What hooks leave in a context, at every entry point alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import pytest

from laya import Router
from laya.errors import HookError
from laya.hooks import PredictContext
from laya.testing import FakeRunner, RecordingHook

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}
SCHEMA = {"type": "object", "properties": {"urgent": {"type": "boolean", "description": "Is it urgent?"}}}
STATE = "hello my friend"
REQUESTS = [{"state": STATE, "questions": QUESTIONS}, {"state": "b", "questions": QUESTIONS}]
PAYLOAD = {"model": "cached", "answers": {"urgent": {"type": "noul", "noul": 0.9}}}

Run = Callable[..., Any]


def router() -> Router:
    """A Router whose every state goes to a runner for tests."""
    made = Router()
    for name in ("english", "multilingual"):
        made.attach(name, FakeRunner())
    return made


SINGLE: dict[str, Run] = {
    "predict": lambda **hooks: FakeRunner().predict(STATE, QUESTIONS, **hooks),
    "apredict": lambda **hooks: asyncio.run(FakeRunner().apredict(STATE, QUESTIONS, **hooks)),
    "decide": lambda **hooks: FakeRunner().decide(STATE, SCHEMA, **hooks),
    "Router.predict": lambda **hooks: router().predict(STATE, QUESTIONS, **hooks),
    "Router.apredict": lambda **hooks: asyncio.run(router().apredict(STATE, QUESTIONS, **hooks)),
    "Router.predict_batch": lambda **hooks: router().predict_batch(REQUESTS, **hooks),
    "Router.apredict_batch": lambda **hooks: asyncio.run(router().apredict_batch(REQUESTS, **hooks)),
    "Router.predict_long": lambda **hooks: router().predict_long(STATE * 300, QUESTIONS, **hooks),
}
"""Calls that are about one state in each context."""
SEVERAL: dict[str, Run] = {
    "predict_batch": lambda **hooks: FakeRunner().predict_batch(["a", "b", "c"], QUESTIONS, **hooks),
    "apredict_batch": lambda **hooks: asyncio.run(FakeRunner().apredict_batch(["a", "b", "c"], QUESTIONS, **hooks)),
    "predict_long": lambda **hooks: FakeRunner().predict_long("word " * 900, QUESTIONS, **hooks),
}
ENTRIES = pytest.mark.parametrize("entry", [*SINGLE, *SEVERAL])
ODD_RESULTS: dict[str, Any] = {
    "dict": {"answers": {}},
    "str": "x",
    "int": 5,
    "none_in_it": [None],
    "int_in_it": [5],
    "str_in_it": ["x"],
    "empty": [],
    "too_many": [PAYLOAD] * 40,
}


def sets(**fields: Any) -> Callable[[PredictContext], None]:
    """A hook that assigns to fields of its context."""

    def hook(ctx: PredictContext) -> None:
        for name, value in fields.items():
            setattr(ctx, name, value)

    return hook


def empty_results(ctx: PredictContext) -> None:
    """A hook that takes the results out of their list."""
    assert ctx.results is not None
    ctx.results.clear()


def skip_with_text(ctx: PredictContext) -> None:
    """A hook that answers with no results."""
    answers: list[Any] = ["x"] * len(ctx.states)
    ctx.skip(answers)


def refused(entry: str, event: str, hook: Callable[[PredictContext], Any], match: str) -> None:
    """Run a call with this hook on this event; check its error and that the call ended as a failed one does."""
    recorder = RecordingHook()
    with pytest.raises(HookError, match=match) as caught:
        (SINGLE | SEVERAL)[entry](hooks=recorder, **{event: hook})
    assert caught.value.event == event
    assert str(caught.value).startswith(f"{event}: a hook ")
    if event == "on_predict_start":
        (end, *_) = recorder.at("on_predict_end")
        assert (end.error, end.results, end.usage) == (caught.value, None, None)


@ENTRIES
@pytest.mark.parametrize("odd", ODD_RESULTS)
@pytest.mark.parametrize("event", ["on_predict_start", "on_predict_end"])
def test_results_that_are_none_are_refused(entry: str, event: str, odd: str) -> None:
    """Results are a list of dicts, one for each state, or a single one for the whole call."""
    if (event, odd) == ("on_predict_end", "too_many") and entry in SEVERAL:
        return  # an end hook may put back what was set aside
    refused(entry, event, sets(results=ODD_RESULTS[odd]), r"results.*use ctx\.skip\(\.\.\.\)")


@ENTRIES
def test_results_must_not_get_lost_at_the_end(entry: str) -> None:
    """By assignment or in place."""
    refused(entry, "on_predict_end", sets(results=None), r"set ctx\.results to None")
    refused(entry, "on_predict_end", empty_results, "0 results")


@ENTRIES
def test_what_skip_took_is_looked_at(entry: str) -> None:
    """`skip` counts; here it shows that each is a result."""
    refused(entry, "on_predict_start", skip_with_text, r"ctx\.results\[0\] to str")


@ENTRIES
@pytest.mark.parametrize("states", [None, "abc", {"a": 1}, 5])
def test_states_that_are_no_list_are_refused(entry: str, states: Any) -> None:
    """In the hook's name, not the caller's."""
    refused(entry, "on_predict_start", sets(states=states), r"set ctx\.states to")


@pytest.mark.parametrize("entry", SINGLE)
@pytest.mark.parametrize("states", [[], ["x", "y", "z"]])
def test_a_call_about_one_state_keeps_one(entry: str, states: list[str]) -> None:
    """The answers about the others would get lost."""
    refused(entry, "on_predict_start", sets(states=states), f"left {len(states)} states to a call about one")
    if states:
        refused(entry, "on_predict_start", sets(states=states, results=[PAYLOAD] * 3), "3 results")


@pytest.mark.parametrize("entry", SEVERAL)
def test_another_number_of_states_is_answered(entry: str) -> None:
    """Where the call may be about any number."""
    recorder = RecordingHook()
    SEVERAL[entry](hooks=recorder, on_predict_start=sets(states=["x", "y"]))
    (end,) = recorder.at("on_predict_end")
    assert len(end.results or ()) == 2


@ENTRIES
def test_the_start_must_be_a_time(entry: str) -> None:
    """It is subtracted from."""
    for value in (None, "now", float("nan")):
        refused(entry, "on_predict_start", sets(started_at=value), r"set ctx\.started_at to")


@ENTRIES
def test_an_end_hook_may_replace_results(entry: str) -> None:
    """One for each, of any kind of mapping; also a single one for the whole call, and the states."""

    def replace(ctx: PredictContext) -> None:
        assert ctx.results is not None
        ctx.results = [MappingProxyType(PAYLOAD) for _ in ctx.results]  # type: ignore[misc]

    def collapse(ctx: PredictContext) -> None:
        ctx.states, ctx.results = None, [PAYLOAD]  # type: ignore[assignment]

    for hook in (replace, collapse):
        assert (SINGLE | SEVERAL)[entry](on_predict_end=hook)


def test_what_a_start_hook_set_aside_may_come_back() -> None:
    """A cache answers some states of a batch, the model the others; with or without the states that were asked."""
    asked = ["a", "b", "a"]

    def unique(ctx: PredictContext) -> None:
        ctx.states = sorted(set(ctx.states))

    def merge(ctx: PredictContext) -> None:
        known = dict(zip(sorted(set(asked)), ctx.results or (), strict=True))
        ctx.results = [known[state] for state in asked]

    def merge_with_states(ctx: PredictContext) -> None:
        merge(ctx)
        ctx.states = asked

    def only_first(ctx: PredictContext) -> None:
        ctx.states, ctx.results = ctx.states[:1], (ctx.results or [])[:1]

    for end in (merge, merge_with_states):
        results = FakeRunner().predict_batch(asked, QUESTIONS, on_predict_start=unique, on_predict_end=end)
        assert len(results) == 3 and results[0] is results[2]
    assert len(FakeRunner().predict_batch(asked, QUESTIONS, on_predict_end=only_first)) == 1


def test_states_may_be_redacted_once_they_are_answered() -> None:
    """`skip` has counted them."""

    def answer(ctx: PredictContext) -> None:
        ctx.skip([PAYLOAD] * 3)
        ctx.states = []

    assert len(FakeRunner().predict_batch(["a", "b", "c"], QUESTIONS, on_predict_start=answer)) == 3


@ENTRIES
def test_under_a_lenient_policy_what_was_there_stands(entry: str) -> None:
    """A failing hook fails no request: states, results and start are those that the hooks were given."""
    run = (SINGLE | SEVERAL)[entry]
    expected = _without_run_ids(run())
    steps: Iterator[dict[str, Any]] = iter(
        [
            {"on_predict_start": sets(results=5)},
            {"on_predict_start": sets(states=None)},
            {"on_predict_start": sets(started_at=None)},
            {"on_predict_end": empty_results},
        ]
    )
    for step in steps:
        with pytest.warns(RuntimeWarning, match="hook failed: HookError: on_predict_"):
            result = run(hooks_raise=False, **step)
        assert _without_run_ids(result) == expected


def _without_run_ids(results: Any) -> Any:
    listed = results if isinstance(results, list) else [results]
    return [{key: value for key, value in result.items() if key != "run_id"} for result in listed]
