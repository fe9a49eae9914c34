"""What may be attached to a Router, and what it asks of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laya import Agent, Router, hooks
from laya.errors import LayaError, OptionError
from tests.integration.router.recording import URGENT, NotingAgent, Recorder, plain
from tests.integration.test_conformance import differences, revive

STATE = "Where is my parcel?"
CASES = json.loads((Path(__file__).parents[2] / "data" / "cases" / "predict.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def published(checkpoints: Path) -> Router:
    """A Router over the four small checkpoints, one of them under a name of its own."""
    return Router({path.name: path for path in sorted(checkpoints.iterdir())}, device="cpu", max_loaded=4)


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case["id"])
def test_recorded_answers_come_through_a_router(published: Router, case: dict[str, Any]) -> None:
    """Every recorded number, label and count, and the routing beside them."""
    result = published.predict(**revive(case["args"]), model=case["checkpoint"])
    assert list(differences(revive(case["result"]), result)) == []
    assert result["routing"]["model"] == case["checkpoint"]


def answer(state: Any, **more: Any) -> dict[str, Any]:
    """What a foreign agent answers."""
    return {"model": "foreign", "answers": {}, "usage": {"input_tokens": 1, "output_tokens": 0}, "state": state, **more}


class OneByOne:
    """A foreign agent with one call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def system_one(self, state: Any, questions: Any, **options: Any) -> Any:
        """Answer one state."""
        self.calls.append((state, questions, options))
        return answer(state)


class OnlyPredict(OneByOne):
    """The same under its other name."""

    predict = OneByOne.system_one
    system_one = None  # type: ignore[assignment]


class OnlyBatches:
    """A foreign agent that answers lists."""

    def __init__(self, more: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.more = more

    def predict_batch(self, states: Any, questions: Any, **options: Any) -> Any:
        """Answer a list."""
        self.calls.append((list(states), questions, options))
        return [answer(state) for state in states] + [answer("more")] * self.more


@pytest.mark.parametrize("kind", [OneByOne, OnlyPredict, OnlyBatches])
def test_an_agent_needs_one_of_the_calls(kind: Callable[[], Any]) -> None:
    """Both of the Router's are served by what it has; budgets that nobody set are not passed."""
    agent = kind()
    router = Router()
    assert router.attach("mine", agent) is agent
    single = router.predict(STATE, URGENT, model="mine", max_len=90)
    requests = [{"state": state, "questions": URGENT, "model": "mine"} for state in "ab"]
    several = router.predict_batch(requests)
    assert [single["state"], *(result["state"] for result in several)] == [STATE, "a", "b"]
    assert all(result["routing"]["model"] == "mine" for result in [single, *several])
    assert len({result["run_id"] for result in [single, *several]}) == 3
    assert [call[2] for call in agent.calls] == [{"max_len": 90}] + [{}] * (len(agent.calls) - 1)


def test_a_foreign_agent_gets_plain_questions() -> None:
    """Also where a start hook put models."""
    from laya.questions import Noul

    agent = OneByOne()
    router = Router()
    router.attach("mine", agent)
    hook = Recorder(on_predict_start=lambda ctx: setattr(ctx, "questions", {"late": Noul(instructions="Is it late?")}))
    router.predict(STATE, URGENT, model="mine", hooks=hook)
    assert type(agent.calls[0][1]["late"]) is dict


def test_another_number_of_results_is_an_error() -> None:
    """Answers must not reach the wrong request."""
    router = Router()
    router.attach("mine", OnlyBatches(more=1))
    with pytest.raises(LayaError, match=r"OnlyBatches.predict_batch gave 3 results for 2 states"):
        router.predict_batch([{"state": state, "questions": URGENT, "model": "mine"} for state in "ab"])


def test_process_wide_hooks_run_once_through_a_foreign_agent(agents: dict[str, NotingAgent]) -> None:
    """Also where it asks an agent of ours in turn, one state at a time."""

    class Wrapper:
        def system_one(self, state: Any, questions: Any, **options: Any) -> Any:
            return agents["english"].predict(state, questions, **options)

    default = Recorder()
    hooks.set_default_hooks(default)
    router = Router()
    router.attach("mine", Wrapper())
    router.predict_batch([{"state": state, "questions": URGENT, "model": "mine"} for state in "abc"])
    assert [ctx.router for ctx in default.at("on_predict_start")] == [router] * 3


@pytest.mark.parametrize("agent", [None, object(), Agent, Router(), "english"])
def test_what_is_no_agent_is_refused(agent: Any) -> None:
    """A class and another Router too; nothing is registered."""
    router = Router()
    with pytest.raises(OptionError, match="attach takes an agent"):
        router.attach("mine", agent)
    assert router.loaded == []
    with pytest.raises(OptionError, match="mine"):
        router.route(STATE, model="mine")


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_name_must_be_a_name(name: Any) -> None:
    """Nothing is registered under another."""
    router = Router()
    with pytest.raises(OptionError, match="name"):
        router.attach(name, OneByOne())
    assert router.loaded == []


def test_an_alias_attaches_to_its_checkpoint(agents: dict[str, NotingAgent]) -> None:
    """States of that checkpoint go to the attached agent; no event is fired."""
    hook = Recorder()
    router = Router(hooks=hook)
    router.attach(" ML ", agents["multilingual"])
    assert router.loaded == ["multilingual"]
    assert hook.events == []
    result = router.predict("Где мой заказ?", URGENT)
    assert plain(result) == plain(agents["multilingual"].predict("Где мой заказ?", URGENT))


def test_attaching_again_replaces_the_agent(agents: dict[str, NotingAgent]) -> None:
    """The last one answers."""
    router = Router()
    router.attach("english", OneByOne())
    router.attach("en", agents["english"])
    assert router.loaded == ["english"]
    assert router.load("english") is agents["english"]


def test_attaching_makes_room(agents: dict[str, NotingAgent]) -> None:
    """Nobody has to leave for what is attached."""
    hook = Recorder()
    router = Router(max_loaded=1, hooks=hook)
    for name, agent in agents.items():
        router.attach(name, agent)
    assert router.loaded == list(agents)
    assert router.max_loaded == len(agents)
    assert hook.events == []


def test_an_attached_agent_that_has_left_must_be_attached_again() -> None:
    """There is nothing that it could be built from; preload passes it over."""
    router = Router()
    router.attach("mine", OneByOne())
    router.unload("mine")
    with pytest.raises(LayaError, match="attach it again"):
        router.predict(STATE, URGENT, model="mine")
    agent = OneByOne()
    router.attach("MINE", agent)
    assert router.load("mine") is agent
    assert router.loaded == ["mine"]


class Wrapped:
    """A foreign agent that hands everything on."""

    def __init__(self, inner: Agent) -> None:
        self.inner = inner

    def system_one(self, *args: Any, **options: Any) -> Any:
        """Ask about one."""
        return self.inner.system_one(*args, **options)

    def predict_batch(self, *args: Any, **options: Any) -> Any:
        """Ask about many."""
        return self.inner.predict_batch(*args, **options)


async def test_a_language_means_the_same_in_every_call(checkpoints: Path) -> None:
    """Alone, in a batch and awaited, with an agent of ours and with one that hands everything on."""
    temperatures = {"de": {"temperature": [5.0, 5.0, 5.0], "temperature_by_options": {}}}
    agent = Agent(checkpoints / "english", device="cpu", lang_temperatures=temperatures)
    router = Router()
    router.attach("bare", agent)
    router.attach("wrapped", Wrapped(agent))
    confidences = []
    for name in ("bare", "wrapped"):
        request = {"state": STATE, "questions": URGENT, "model": name, "lang": "de"}
        results = [router.predict(**request), *router.predict_batch([request, {**request, "lang": "fr"}])]
        results += [await router.apredict(**request), *await router.apredict_batch([request])]
        confidences.append([result["answers"]["urgent"]["answer_confidence"] for result in results])
    german, batched, french, *awaited = confidences[0]
    assert german != french
    assert [batched, *awaited] == [german] * 3
    assert confidences[1] == confidences[0]


def test_a_language_is_no_option_for_an_agent_that_takes_none() -> None:
    """It still routes."""

    class Narrow:
        def system_one(self, state: Any, questions: Any, max_len: int | None = None) -> Any:
            return answer(state)

    router = Router()
    router.attach("multilingual", Narrow())
    request = {"state": STATE, "questions": URGENT, "lang": "de"}
    assert router.predict(**request)["state"] == router.predict_batch([request])[0]["state"] == STATE
