"""Installed hooks and process-wide defaults."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from laya.hooks import (
    BaseHook,
    HookRegistry,
    PredictContext,
    add_default_hook,
    clear_default_hooks,
    compose_hooks,
    default_hooks,
    dispatch,
    set_default_hooks,
)


@pytest.fixture(autouse=True)
def _no_defaults() -> Iterator[None]:
    clear_default_hooks()
    yield
    clear_default_hooks()


class Equal(BaseHook):
    """A hook equal to every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def hooks(count: int) -> list[BaseHook]:
    """Return `count` hooks."""
    return [BaseHook() for _ in range(count)]


def test_a_registry_holds_its_constructor_arguments_in_order():
    """hooks=, then the start callables, then the end callables."""
    hook = BaseHook()
    registry = HookRegistry(hook, print, [print, print])
    assert registry.hooks[0] is hook
    assert len(registry.hooks) == 4


def test_a_subclass_without_constructor_call_starts_empty():
    """The mixin needs no set-up."""

    class Runtime(HookRegistry):
        def __init__(self) -> None:
            pass

    runtime, other = Runtime(), Runtime()
    hook = BaseHook()
    assert runtime.add_hook(hook).hooks == [hook]
    assert other.hooks == []


def test_construction_refuses_what_is_no_hook():
    """A mistake shows before the first call."""
    with pytest.raises(TypeError):
        HookRegistry(print)


def test_add_hook_appends_and_returns_its_registry():
    """One hook or a sequence; calls chain."""
    a, b, c = hooks(3)
    registry = HookRegistry()
    assert registry.add_hook(a).add_hook([b, c]).add_hook(None).add_hook([]) is registry
    assert registry.hooks == [a, b, c]


def test_add_hook_adds_all_or_none():
    """A bad hook at the end leaves the good ones before it out, too."""
    registry = HookRegistry()
    with pytest.raises(TypeError):
        registry.add_hook([BaseHook(), print])
    assert registry.hooks == []


def test_hooks_is_a_copy():
    """Changing the list that was read changes nothing."""
    registry = HookRegistry(BaseHook())
    registry.hooks.clear()
    assert len(registry.hooks) == 1


def test_remove_hook_goes_by_identity():
    """An equal hook isn't the same hook."""
    installed, equal = Equal(), Equal()
    registry = HookRegistry(installed)
    assert registry.remove_hook(equal) is False
    assert registry.remove_hook(installed) is True
    assert registry.remove_hook(installed) is False
    assert registry.hooks == []


def test_remove_hook_removes_every_place():
    """A hook installed twice is gone after one removal."""
    a, b = hooks(2)
    registry = HookRegistry([a, b, a])
    assert registry.remove_hook(a) is True
    assert registry.hooks == [b]


def test_a_block_installs_its_hooks_and_gives_the_list_back():
    """Objects and sequences, after those installed before."""
    a, b, c = hooks(3)
    registry = HookRegistry(a)
    with registry.hooks_installed(b, [c]) as entered:
        assert entered is registry
        assert registry.hooks == [a, b, c]
    assert registry.hooks == [a]


def test_a_block_that_raises_gives_the_list_back():
    """The hooks of a block never outlive it."""
    registry = HookRegistry(BaseHook())
    before = registry.hooks
    with pytest.raises(KeyError), registry.hooks_installed(BaseHook()):
        raise KeyError
    assert registry.hooks == before


def test_a_block_refuses_what_is_no_hook_and_installs_nothing():
    """All hooks are checked first."""
    registry = HookRegistry()
    with pytest.raises(TypeError):
        registry.hooks_installed(BaseHook(), print)
    assert registry.hooks == []


def test_overlapping_blocks_lose_nothing():
    """The block that began first may end first."""
    a, b, c = hooks(3)
    registry = HookRegistry(a)
    first, second = registry.hooks_installed(b), registry.hooks_installed(c)
    first.__enter__()
    second.__enter__()
    assert registry.hooks == [a, b, c]
    first.__exit__(None, None, None)
    assert registry.hooks == [a, c]
    second.__exit__(None, None, None)
    assert registry.hooks == [a]


def test_what_is_added_inside_a_block_stays():
    """So does what is removed inside it."""
    a, b, c = hooks(3)
    registry = HookRegistry(a)
    with registry.hooks_installed(b):
        registry.add_hook(c)
        registry.remove_hook(a)
    assert registry.hooks == [c]


def test_a_block_takes_out_its_own_place_only():
    """A hook that was installed before stays where it was."""
    a, b = hooks(2)
    registry = HookRegistry([a, b])
    with registry.hooks_installed(a):
        with registry.hooks_installed(a, a):
            assert registry.hooks == [a, b, a, a, a]
        assert registry.hooks == [a, b, a]
    assert registry.hooks == [a, b]


def test_a_hook_removed_inside_its_block_is_no_error_at_the_end():
    """The end of the block finds nothing to take out."""
    a = BaseHook()
    registry = HookRegistry()
    with registry.hooks_installed(a):
        assert registry.remove_hook(a) is True
    assert registry.hooks == []


def test_threads_lose_no_hook():
    """Blocks, adds and removals from many threads end in exactly what was added."""
    registry = HookRegistry()
    added = hooks(8)
    ready = threading.Barrier(8)

    def change(own: BaseHook) -> None:
        ready.wait()
        registry.add_hook(own)
        for _ in range(100):
            extra = BaseHook()
            with registry.hooks_installed(extra):
                registry.add_hook(extra)
            registry.remove_hook(extra)

    threads = [threading.Thread(target=change, args=(hook,)) for hook in added]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(hook) for hook in registry.hooks} == {id(hook) for hook in added}
    assert len(registry.hooks) == 8


def test_a_call_in_flight_keeps_its_snapshot():
    """A hook that installs another doesn't make it run in the same call."""

    class Installer(BaseHook):
        def on_predict_start(self, ctx: PredictContext) -> None:
            seen.append("installer")
            registry.add_hook(Installer())

    seen: list[str] = []
    registry = HookRegistry(Installer())
    dispatch(compose_hooks(registry.hooks), "on_predict_start", PredictContext(["a"], {}))
    assert seen == ["installer"]
    assert len(registry.hooks) == 2


def test_defaults_run_first_then_installed_then_the_calls_own():
    """The order of one call's hooks."""
    default, installed, own = hooks(3)
    add_default_hook(default)
    assert compose_hooks([installed], own) == [default, installed, own]
    assert compose_hooks([installed]) == [default, installed]
    assert compose_hooks([], [], (), None) == [default]
    assert compose_hooks(None) == [default]


def test_composed_callables_come_last():
    """Per-call callables follow per-call hooks."""
    installed, own = hooks(2)
    composed = compose_hooks([installed], own, print, print)
    assert composed[:2] == [installed, own]
    assert hasattr(composed[2], "on_predict_start")
    assert hasattr(composed[3], "on_predict_end")


def test_a_bad_hook_of_a_call_is_refused_at_the_call():
    """Per-call hooks are checked when they are composed."""
    with pytest.raises(TypeError):
        compose_hooks([], print)


def test_defaults_can_be_left_out():
    """An inner call doesn't run them a second time."""
    default, installed = hooks(2)
    add_default_hook(default)
    assert compose_hooks([installed], process_defaults=False) == [installed]


def test_composing_copies():
    """The composed list is the call's own."""
    installed = hooks(1)
    composed = compose_hooks(installed)
    composed.append(BaseHook())
    assert len(installed) == 1
    assert default_hooks() == []


def test_set_default_hooks_replaces_and_add_appends():
    """One or a sequence, with the callables of hooks= arguments."""
    a, b, c, d = hooks(4)
    set_default_hooks([a], on_predict_start=print)
    assert len(default_hooks()) == 2
    set_default_hooks(b)
    add_default_hook([c, d])
    assert default_hooks() == [b, c, d]
    clear_default_hooks()
    assert default_hooks() == []


def test_bad_defaults_leave_the_old_ones():
    """Defaults are checked before they replace others."""
    a = BaseHook()
    set_default_hooks(a)
    with pytest.raises(TypeError):
        set_default_hooks(print)
    with pytest.raises(TypeError):
        add_default_hook([BaseHook(), print])
    assert default_hooks() == [a]


def test_default_hooks_is_a_copy():
    """Changing what was read changes no default."""
    add_default_hook(BaseHook())
    default_hooks().clear()
    assert len(default_hooks()) == 1
