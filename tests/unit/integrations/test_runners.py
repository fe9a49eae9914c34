"""The runners that adapters make themselves."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from laya_integrations import _runners
from laya_integrations._decisions import Decisions
from laya_integrations._fields import RunnerFields
from laya_integrations._runners import default_runner

QUESTIONS = {"angry": {"type": "noul", "instructions": "Is the customer angry?"}}


class Offline:
    """A runner whose checkpoint cannot be had."""

    def predict(self, state: Any, questions: Any, **options: Any) -> Any:
        raise ConnectionError("no route to the Hub")

    def predict_batch(self, states: Any, questions: Any, **options: Any) -> Any:
        raise ConnectionError("no route to the Hub")


def test_a_call_option_among_the_fields_is_pointed_to_options() -> None:
    """Options have a place of their own."""
    with pytest.raises(ValueError, match=r"options=CallOptions\(min_confidence=\.\.\.\)"):
        RunnerFields(min_confidence=0.5)  # type: ignore[call-arg]


def test_there_is_one_default_router_in_a_process() -> None:
    """Threads that ask at the same time get the same one."""
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(default_runner())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(runner) for runner in found}) == 1
    assert type(found[0]).__name__ == "Router"


def test_fields_without_runner_and_model_stand_for_the_default_router() -> None:
    """Also after pickling: nothing was left behind."""
    assert RunnerFields()._loaded_runner() is default_runner()
    assert pickle.loads(pickle.dumps(RunnerFields()))._loaded_runner() is default_runner()


def test_a_lost_runner_is_no_default_router() -> None:
    """What was made with a runner and unpickled without it says so, however often it is pickled."""
    fields = RunnerFields(runner=Offline())
    for _ in range(2):
        fields = pickle.loads(pickle.dumps(fields))
        with pytest.raises(RuntimeError, match="unpickled without its runner"):
            fields._loaded_runner()


@pytest.mark.parametrize("ask", [lambda d: d.one("hi"), lambda d: d.many(["hi", "ho"])])
def test_an_offline_default_router_names_the_shipped_model(monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    """The Hub's own words stay in the message and in the chain."""
    offline = Offline()
    monkeypatch.setattr(_runners, "_default", [offline])
    with pytest.raises(OSError, match=r'model="laya-mini".*no route to the Hub') as caught:
        ask(Decisions(offline, QUESTIONS))
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_other_runners_keep_their_own_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint about the default Router would mislead there."""
    monkeypatch.setattr(_runners, "_default", [object()])
    with pytest.raises(ConnectionError):
        Decisions(Offline(), QUESTIONS).one("hi")
