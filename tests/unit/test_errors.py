"""The error tree."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from laya import errors

BUILTINS = {
    "CheckpointNotFoundError": FileNotFoundError,
    "CheckpointFormatError": ValueError,
    "CheckpointIntegrityError": ValueError,
    "HubError": OSError,
    "QuestionError": ValueError,
    "StateError": TypeError,
    "OptionError": ValueError,
    "HookError": TypeError,
    "HookTimeoutError": TimeoutError,
}
ALL = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}


def test_every_error_is_drawn_in_the_tree():
    """The module's docstring is the map."""
    assert ALL.keys() == {*BUILTINS, "LayaError", "CheckpointError"}
    assert all(name in (errors.__doc__ or "") for name in ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_error_is_a_laya_error_and_the_builtin_that_callers_expect(name):
    """One except clause catches them all, and an old one still catches its own."""
    assert issubclass(ALL[name], errors.LayaError)
    assert issubclass(ALL[name], BUILTINS.get(name, Exception))


@pytest.mark.parametrize("name", ALL)
def test_a_message_alone_makes_an_error(name):
    """Details are optional, and the message is the whole text."""
    assert str(ALL[name]("what is wrong")) == "what is wrong"


@pytest.mark.parametrize("name", ALL)
def test_details_survive_pickling_and_copying(name):
    """An error may cross a process."""
    parameters = list(inspect.signature(ALL[name].__init__).parameters.values())
    details = {p.name: f"the {p.name}" for p in parameters if p.kind is p.KEYWORD_ONLY}
    error = ALL[name]("what is wrong", **details)
    assert {key: vars(error)[key] for key in details} == details
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == "what is wrong"
        assert {key: vars(twin)[key] for key in details} == details


def test_a_laya_error_of_an_integrity_check_holds_both_digests():
    """What was asked for and what was found."""
    error = errors.CheckpointIntegrityError("differs", path="model.safetensors", expected="aa", actual="bb")
    assert (error.path, error.expected, error.actual) == ("model.safetensors", "aa", "bb")
