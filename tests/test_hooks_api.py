"""The public surface: names, parameters, order and defaults are promises."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import subprocess
import sys
from typing import Any

import pytest

from laya import hooks
from laya.hooks import HOOK_EVENTS, AsyncHook, BaseHook, Hook, HookRegistry, PredictContext

REQUIRED = inspect.Parameter.empty
CALL_HOOKS = {
    "hooks": None,
    "on_predict_start": None,
    "on_predict_end": None,
    "hooks_raise": None,
    "hooks_timeout": None,
}
INSTANCE_HOOKS = {
    "hooks": None,
    "on_predict_start": None,
    "on_predict_end": None,
    "hooks_raise": True,
    "hooks_concurrent": True,
    "hooks_timeout": None,
}
BUDGETS = {"max_len": None, "head_max_len": None}
ROUTE = {"model": None, "task": None, "lang": None, "lang_guess": None}
QUESTION = {"state": REQUIRED, "questions": REQUIRED}
WINDOWS = {"window": None, "stride": None, "aggregate": "auto", "batch_size": None}
AGENT = {
    "model_id_or_path": "convaiinnovations/laya",
    "device": None,
    "token": None,
    "subfolder": None,
    "fast": False,
    "compile": False,
    **INSTANCE_HOOKS,
}


def assert_signature(function: Any, expected: dict[str, Any]) -> None:
    """Hold the listed parameters by name, order and default; others may follow by keyword only."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    listed = parameters[: len(expected)]
    assert [(p.name, p.default) for p in listed] == list(expected.items())
    assert {p.kind for p in listed} <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    for parameter in parameters[len(expected) :]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, parameter
        assert parameter.default is not REQUIRED, parameter


class TestHooksSurface:
    """What `laya.hooks` offers."""

    def test_the_public_names_are_these(self):
        """One flat face; what isn't listed is private."""
        assert sorted(hooks.__all__) == [
            "AsyncHook",
            "BaseHook",
            "HOOK_EVENTS",
            "Hook",
            "HookRegistry",
            "PredictContext",
            "PredictHook",
            "add_default_hook",
            "aggregate_usage",
            "clear_default_hooks",
            "compose_hooks",
            "default_hooks",
            "dispatch",
            "normalise_hooks",
            "run_coroutine_sync",
            "set_default_hooks",
        ]
        assert all(hasattr(hooks, name) for name in hooks.__all__)

    def test_importing_it_loads_no_heavy_module(self):
        """Hooks may be written without the runtime."""
        script = (
            "import sys, laya.hooks\n"
            "heavy = {'torch', 'transformers', 'pydantic', 'numpy', 'langchain_core', 'llama_index'}\n"
            "print(sorted(heavy & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("[]\n", "")

    def test_the_six_events_stand_in_this_order(self):
        """A tuple of names."""
        assert HOOK_EVENTS == (
            "on_predict_start",
            "on_predict_end",
            "on_route",
            "on_load",
            "on_evict",
            "on_error",
        )

    def test_the_fields_of_a_context_are_these(self):
        """In this order; all but the first two may be left out."""
        names = [field.name for field in dataclasses.fields(PredictContext)]
        assert names == [
            "states",
            "questions",
            "run_id",
            "results",
            "decision",
            "model",
            "agent",
            "router",
            "max_len",
            "head_max_len",
            "usage",
            "started_at",
            "elapsed_ms",
            "error",
        ]
        parameters = inspect.signature(PredictContext).parameters
        assert list(parameters) == names
        assert [name for name in names if parameters[name].default is REQUIRED] == ["states", "questions"]

    def test_a_context_is_filled_with_none(self):
        """Only run_id and started_at have values of their own."""
        states, questions = ["a"], {"q": {"type": "noul"}}
        values = vars(PredictContext(states, questions))
        assert values["states"] is states
        assert values["questions"] is questions
        assert isinstance(values["run_id"], str)
        assert isinstance(values["started_at"], float)
        rest = {name for name in values if name not in {"states", "questions", "run_id", "started_at"}}
        assert {name for name in rest if values[name] is not None} == set()

    def test_a_context_compares_by_identity_and_hashes(self):
        """Equal content is another call."""
        one, other = (PredictContext([], {}, run_id="r", started_at=1.0) for _ in range(2))
        assert one == one
        assert one != other
        assert len({one, other}) == 2

    @pytest.mark.parametrize("kind", [Hook, BaseHook, AsyncHook])
    def test_every_hook_type_has_the_six_events(self, kind):
        """Each takes the context alone."""
        for event in HOOK_EVENTS:
            assert list(inspect.signature(getattr(kind, event)).parameters) == ["self", "ctx"]

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (hooks.normalise_hooks, {"hooks": None, "on_predict_start": None, "on_predict_end": None}),
            (hooks.set_default_hooks, {"hooks": None, "on_predict_start": None, "on_predict_end": None}),
            (hooks.add_default_hook, {"hook": REQUIRED}),
            (hooks.clear_default_hooks, {}),
            (hooks.default_hooks, {}),
            (
                hooks.compose_hooks,
                {"installed": REQUIRED, "hooks": None, "on_predict_start": None, "on_predict_end": None},
            ),
            (hooks.aggregate_usage, {"results": REQUIRED}),
            (hooks.run_coroutine_sync, {"coro": REQUIRED, "loop": None}),
            (AsyncHook, {"hook": REQUIRED, "loop": None}),
            (HookRegistry.add_hook, {"hook": REQUIRED}),
            (HookRegistry.remove_hook, {"hook": REQUIRED}),
            (PredictContext.skip, {"results": REQUIRED}),
        ],
        ids=lambda value: getattr(value, "__qualname__", ""),
    )
    def test_function_signatures(self, function, expected):
        """Names, order and defaults."""
        assert_signature(function, expected)

    def test_dispatch_takes_its_options_by_keyword(self):
        """Hooks, event and context by position, the rest by name."""
        parameters = inspect.signature(hooks.dispatch).parameters
        assert [(p.name, p.default, p.kind.name) for p in parameters.values()] == [
            ("hooks", REQUIRED, "POSITIONAL_OR_KEYWORD"),
            ("event", REQUIRED, "POSITIONAL_OR_KEYWORD"),
            ("ctx", REQUIRED, "POSITIONAL_OR_KEYWORD"),
            ("raise_errors", True, "KEYWORD_ONLY"),
            ("lock", None, "KEYWORD_ONLY"),
            ("timeout", None, "KEYWORD_ONLY"),
        ]

    def test_hooks_installed_takes_any_number_of_hooks(self):
        """By position."""
        (_, parameter) = inspect.signature(HookRegistry.hooks_installed).parameters.values()
        assert (parameter.name, parameter.kind.name) == ("hooks", "VAR_POSITIONAL")


SIGNATURES: dict[str, dict[str, Any]] = {
    "agent:Agent": AGENT,
    "agent:load": AGENT,
    "agent:Agent.predict_batch": {
        "states": REQUIRED,
        "questions": REQUIRED,
        "batch_size": None,
        **CALL_HOOKS,
        **BUDGETS,
        "sort_by_length": False,
    },
    "agent:Agent.system_one": {**QUESTION, **CALL_HOOKS, **BUDGETS},
    "agent:Agent.predict": {**QUESTION, **CALL_HOOKS, **BUDGETS},
    "agent:Agent.predict_long": {**QUESTION, **WINDOWS, "lang": None, **CALL_HOOKS},
    "router:Router": {
        "models": None,
        "device": None,
        "token": None,
        "max_loaded": 2,
        "default": "english",
        "auto_task_detection": False,
        "standalone_repos": False,
        "preload": False,
        "lang_guess": None,
        **INSTANCE_HOOKS,
    },
    "router:Router.route": {
        "state": REQUIRED,
        "questions": None,
        **ROUTE,
        "hooks": None,
        "hooks_raise": None,
    },
    "router:Router.predict": {**QUESTION, **ROUTE, **CALL_HOOKS, **BUDGETS},
    "router:Router.system_one": {**QUESTION, **ROUTE, **CALL_HOOKS, **BUDGETS},
    "router:Router.predict_batch": {"requests": REQUIRED, "batch_size": None, **CALL_HOOKS},
    "router:Router.route_batch": {"requests": REQUIRED, "hooks": None, "hooks_raise": None},
    "router:Router.predict_long": {**QUESTION, **WINDOWS, **ROUTE, **CALL_HOOKS},
    "router:Router.load": {"name": REQUIRED},
    "router:Router.preload": {"names": None},
    "router:Router.unload": {"name": None},
    "router:Router.attach": {"name": REQUIRED, "agent": REQUIRED},
    "onnx_agent:ONNXAgent": {
        "model_id_or_path": REQUIRED,
        "onnx_path": "laya.onnx",
        "subfolder": None,
        **INSTANCE_HOOKS,
    },
    "onnx_agent:ONNXAgent.system_one": {**QUESTION, **CALL_HOOKS, **BUDGETS},
    "onnx_agent:ONNXAgent.predict": {**QUESTION, **CALL_HOOKS, **BUDGETS},
}
PREDICTIONS = [name for name in SIGNATURES if name.rpartition(".")[2].startswith(("predict", "system_one"))]
RUNTIMES = ["agent:Agent", "router:Router", "onnx_agent:ONNXAgent"]


def find(path: str) -> Any:
    """Return what `path` names, such as `agent:Agent.predict`."""
    module, _, name = path.partition(":")
    found = importlib.import_module(f"laya.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


class TestRuntimeSignatures:
    """What `Agent`, `Router` and `ONNXAgent` take."""

    @pytest.mark.parametrize("path", SIGNATURES)
    def test_the_listed_parameters(self, path):
        """By name, order and default; what else there is goes by keyword."""
        assert_signature(find(path), SIGNATURES[path])

    @pytest.mark.parametrize("path", PREDICTIONS)
    @pytest.mark.parametrize("name", ["min_confidence", "lang"])
    def test_every_prediction_takes_a_gate_and_a_language(self, path, name):
        """Both default to None."""
        assert inspect.signature(find(path)).parameters[name].default is None

    @pytest.mark.parametrize("path", RUNTIMES)
    def test_every_runtime_is_a_hook_registry(self, path):
        """Hooks may be added after construction."""
        assert issubclass(find(path), HookRegistry)

    def test_what_a_router_holds_is_a_property(self):
        """The resident checkpoints, read without a call."""
        assert isinstance(inspect.getattr_static(find("router:Router"), "loaded"), property)

    @pytest.mark.parametrize(
        "name",
        [
            "Agent",
            "AsyncHook",
            "BaseHook",
            "Hook",
            "ONNXAgent",
            "PredictContext",
            "PredictHook",
            "Router",
            "export_onnx",
            "hooks",
            "load",
            "__version__",
        ],
    )
    def test_laya_offers_the_common_names(self, name):
        """From the package itself."""
        assert hasattr(importlib.import_module("laya"), name)
