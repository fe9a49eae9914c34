"""What counts as a hook, and in which order hook arguments run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import pytest

from laya.errors import HookError
from laya.hooks import HOOK_EVENTS, AsyncHook, BaseHook, PredictContext, dispatch, normalise_hooks


class Start:
    """A hook with the smallest surface."""

    def on_predict_start(self, ctx: PredictContext) -> None: ...


class BrokenEnd:
    """A hook with an event that can't be called."""

    on_predict_end = 3

    def on_predict_start(self, ctx: PredictContext) -> None: ...


class NoneEnd:
    """An object whose only event is None."""

    on_predict_end = None


class TupleHook(NamedTuple):
    """A hook that is a tuple, too."""

    path: str

    def on_predict_end(self, ctx: PredictContext) -> None: ...


def ctx() -> PredictContext:
    """Return the context of a call with one state."""
    return PredictContext(["a"], {})


def test_nothing_given_is_an_empty_list():
    """None and empty sequences add nothing."""
    assert normalise_hooks() == []
    assert normalise_hooks([], (), []) == []
    assert normalise_hooks(None, None, None) == []


@pytest.mark.parametrize("sequence", [list, tuple])
def test_hooks_may_be_one_object_or_a_list_or_tuple(sequence):
    """The objects themselves come back, in order."""
    first, second = Start(), BaseHook()
    assert normalise_hooks(first) == [first]
    assert normalise_hooks(sequence([first, second])) == [first, second]


def test_the_given_list_is_not_the_returned_one():
    """A later change of the caller's list changes nothing."""
    given = [Start()]
    assert normalise_hooks(given) is not given


def test_callables_come_after_hooks_start_before_end():
    """hooks=, then on_predict_start=, then on_predict_end=."""
    seen: list[str] = []
    hook = SimpleNamespace(on_predict_start=lambda ctx: seen.append("hook"))
    hooks = normalise_hooks(
        hook,
        [lambda ctx: seen.append("first"), lambda ctx: seen.append("second")],
        lambda ctx: seen.append("end"),
    )
    assert len(hooks) == 4
    dispatch(hooks, "on_predict_start", ctx())
    dispatch(hooks, "on_predict_end", ctx())
    assert seen == ["hook", "first", "second", "end"]


def test_a_wrapped_callable_has_its_event_only():
    """A start callable doesn't see the end."""
    (hook,) = normalise_hooks(on_predict_start=print)
    assert [event for event in HOOK_EVENTS if hasattr(hook, event)] == ["on_predict_start"]


def test_a_hook_may_have_other_names_and_be_callable():
    """Only the six events are read."""

    class Callable(Start):
        on_predict_later = 3

        def __call__(self) -> None: ...

    hook = Callable()
    assert normalise_hooks(hook) == [hook]


def test_a_tuple_with_events_is_a_hook():
    """A NamedTuple that implements an event isn't taken apart."""
    hook = TupleHook("somewhere")
    assert normalise_hooks(hook)[0] is hook


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (print, "on_predict_start="),
        (lambda ctx: None, "on_predict_start="),
        (Start, "class Start; pass an instance"),
        (object(), "none of the hook events"),
        ({"on_predict_start": print}, "dict"),
        ("on_predict_start", "str"),
        ({1}, "set"),
        ([None], "NoneType"),
        ([[Start()]], "list"),
        ([Start(), Start], "class Start"),
        (BrokenEnd(), "BrokenEnd, whose on_predict_end is int"),
        (NoneEnd(), "NoneEnd, whose on_predict_end is NoneType"),
    ],
)
def test_what_is_no_hook_is_refused(given, message):
    """The error says what came and what to pass instead."""
    with pytest.raises(TypeError, match=message) as caught:
        normalise_hooks(given)
    assert isinstance(caught.value, HookError)
    assert caught.value.option == "hooks"


@pytest.mark.parametrize("option", ["on_predict_start", "on_predict_end"])
@pytest.mark.parametrize("given", [Start(), 3, [print, 3], {"a": print}])
def test_a_callable_argument_that_is_not_callable_is_refused(option, given):
    """The error names the argument and points hook objects to hooks=."""
    with pytest.raises(TypeError, match=rf"{option} .*hooks="):
        normalise_hooks(**{option: given})


def test_a_base_hook_does_nothing_on_any_event():
    """A subclass overrides what it needs and may call super."""
    before = ctx()
    fields = dict(vars(before))
    for event in HOOK_EVENTS:
        dispatch([BaseHook()], event, before)
    assert vars(before) == fields


def test_a_base_hook_subclass_sees_what_it_overrides():
    """The other five events stay silent."""

    class Audit(BaseHook):
        def on_predict_end(self, ctx: PredictContext) -> None:
            super().on_predict_end(ctx)
            seen.append(ctx.run_id)

    seen: list[str] = []
    call = ctx()
    for event in HOOK_EVENTS:
        dispatch([Audit()], event, call)
    assert seen == [call.run_id]


@pytest.mark.parametrize("given", [Start, print, object(), BrokenEnd()])
def test_an_async_hook_wraps_hook_objects_only(given):
    """What isn't a hook can't be wrapped into one."""
    with pytest.raises(TypeError, match="hook got"):
        AsyncHook(given)


def test_an_async_hook_runs_async_and_plain_methods():
    """A method that isn't async just runs, an absent event does nothing."""

    class Remote:
        async def on_predict_end(self, ctx: PredictContext) -> None:
            seen.append("end")

        def on_error(self, ctx: PredictContext) -> None:
            seen.append("error")

    seen: list[str] = []
    hook = AsyncHook(Remote())
    for event in HOOK_EVENTS:
        assert getattr(hook, event)(ctx()) is None
    assert seen == ["end", "error"]


def test_a_hook_may_be_a_simple_namespace_or_a_module_like_object():
    """Any object with an event will do."""
    hook = SimpleNamespace(on_load=print)
    assert normalise_hooks([hook]) == [hook]
