"""The public surface: names, parameters, order and defaults are promises."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laya import Router, hooks, testing
from laya.hooks import HOOK_EVENTS, AsyncHook, BaseHook, Hook, HookRegistry, PredictContext
from laya.testing import FakeRunner
from tests.docs.markdown_blocks import find_blocks

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
    "agent:Agent.apredict_batch": {
        "states": REQUIRED,
        "questions": REQUIRED,
        "batch_size": None,
        **CALL_HOOKS,
        **BUDGETS,
        "sort_by_length": False,
    },
    "agent:Agent.apredict": {**QUESTION, **CALL_HOOKS, **BUDGETS},
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
    "router:Router.apredict": {**QUESTION, **ROUTE, **CALL_HOOKS, **BUDGETS},
    "router:Router.apredict_batch": {"requests": REQUIRED, "batch_size": None, **CALL_HOOKS},
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
PREDICTIONS = [name for name in SIGNATURES if name.rpartition(".")[2].startswith(("predict", "apredict", "system_one"))]
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

    @pytest.mark.parametrize("path", ["agent:Agent", "agent:load", "onnx_agent:ONNXAgent"])
    def test_an_agent_shares_passes_only_where_it_is_told_to(self, path):
        """By a window."""
        assert inspect.signature(find(path)).parameters["batch_window_ms"].default is None

    @pytest.mark.parametrize("path", RUNTIMES)
    @pytest.mark.parametrize("name", ["predict", "predict_batch"])
    def test_an_awaited_call_takes_what_the_call_takes(self, path, name):
        """By name, order, kind and default."""
        sync, awaited = (inspect.signature(getattr(find(path), prefix + name)) for prefix in ("", "a"))
        assert sync.parameters == awaited.parameters
        assert inspect.iscoroutinefunction(getattr(find(path), "a" + name))

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


class TestTestingSurface:
    """What `laya.testing` offers."""

    def test_the_public_names_are_these(self):
        """Two doubles, and what they keep."""
        assert testing.__all__ == ["FakeCall", "FakeRunner", "RecordedEvent", "RecordingHook"]

    def test_a_fake_runner_takes_a_script_and_a_runtimes_hook_arguments(self):
        """The script by position, the rest by keyword."""
        script, *rest = inspect.signature(FakeRunner).parameters.values()
        assert (script.name, script.default) == ("answers", None)
        assert {p.kind for p in rest} == {inspect.Parameter.KEYWORD_ONLY}
        expected = {"model_id": "fake", "max_len": 512, "head_max_len": 192, **INSTANCE_HOOKS}
        assert {p.name: p.default for p in rest} == expected

    def test_what_is_kept_has_these_fields(self):
        """For a test to look at."""
        assert [field.name for field in dataclasses.fields(testing.FakeCall)] == ["states", "questions"]
        assert [field.name for field in dataclasses.fields(testing.RecordedEvent)] == ["name", "context"]


ROOT = Path(__file__).parents[1]
EXAMPLE = "examples/hooks/cache.py"
TAUGHT = [EXAMPLE, "docs/hooks/api.md", "docs/hooks/patterns.md", "docs/hooks/examples.md"]

URGENT = {"type": "noul", "instructions": "Is it urgent?"}
TEAM = {"type": "choice", "instructions": "Which team?", "criteria": ["billing", "shipping"]}
ASKED = {"urgent": URGENT, "team": TEAM}


def taught_cache(path: str) -> SimpleNamespace:
    """Run the code that teaches the cache: a program, or the block of a page that defines it."""
    if path.endswith(".py"):
        return SimpleNamespace(**runpy.run_path(str(ROOT / path)))
    (block,) = [block for block in find_blocks(ROOT / path) if "def cache_key(" in block.code]
    names: dict[str, Any] = {"__name__": "taught"}
    exec(block.compile(), names)
    return SimpleNamespace(**names)


def varied_contexts() -> list[PredictContext]:
    """Contexts of two states that differ in one thing each, the first in none."""
    base: dict[str, Any] = {
        "states": ["a", {"text": "b", "n": 1}],
        "questions": ASKED,
        "model": "english",
        "max_len": 128,
        "head_max_len": 64,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"states": [["a"], {"n": 1, "text": "b"}]},
        {"states": ["A", {"text": "b", "n": True}]},
        {"questions": {"team": TEAM, "urgent": URGENT}},
        {"questions": {"urgent": URGENT, "team": {**TEAM, "criteria": ["shipping", "billing"]}}},
        {"questions": {"urgent": URGENT, "team": {**TEAM, "criteria": {1: "one", 2: "two"}}}},
        {"questions": {"urgent": URGENT, "team": {**TEAM, "criteria": {"1": "one", "2": "two"}}}},
        {"model": "multilingual"},
        {"model": None},
        {"max_len": 64},
        {"max_len": None},
        {"max_len": 64, "head_max_len": 128},
        {"head_max_len": None},
    ]
    return [PredictContext(**{**base, **change}) for change in changes]


@pytest.fixture(params=TAUGHT)
def taught(request: pytest.FixtureRequest) -> SimpleNamespace:
    """One of the four places, executed."""
    return taught_cache(request.param)


class TestTaughtCache:
    """The cache of the example and of three pages: it may be copied from any of them."""

    def test_all_four_compute_the_same_keys(self):
        """Over states, questions, models and budgets."""
        keys = [
            [place.cache_key(ctx, index) for ctx in varied_contexts() for index in range(2)]
            for place in map(taught_cache, TAUGHT)
        ]
        assert keys[0] == keys[1] == keys[2] == keys[3]

    def test_a_key_covers_all_that_an_answer_depends_on(self, taught):
        """Whatever differs is another key, and only that."""
        keys = [taught.cache_key(ctx, index) for ctx in varied_contexts() for index in range(2)]
        assert len(set(keys)) == len(keys)
        again = [taught.cache_key(ctx, index) for ctx in varied_contexts() for index in range(2)]
        assert again == keys

    def test_a_key_is_a_states_own(self, taught):
        """The same for a state alone and at any place of a batch."""
        batch, single = PredictContext(["a", "b"], ASKED), PredictContext(["b"], ASKED)
        assert taught.cache_key(batch, 1) == taught.cache_key(single, 0)

    def test_a_repeated_batch_costs_no_forward(self, taught):
        """In any order, and each state alone."""
        runner = FakeRunner(hooks=taught.StateCache())
        first = runner.predict_batch(["a", {"text": "b"}, ["c"]], ASKED)
        assert runner.predict_batch([["c"], "a", {"text": "b"}], ASKED) == [first[2], first[0], first[1]]
        assert runner.predict({"text": "b"}, ASKED) == first[1]
        assert [call.states for call in runner.calls] == [["a", {"text": "b"}, ["c"]]]

    def test_a_repeated_batch_of_a_router_costs_no_forward(self, taught):
        """Each answer is given the route of its own call."""
        router, runner = Router(hooks=taught.StateCache()), FakeRunner()
        router.attach("english", runner)
        requests = [{"state": state, "questions": ASKED, "model": "english"} for state in ("a", "b")]
        first = router.predict_batch(requests)
        second = router.predict_batch([{**request, "model": None, "task": "english"} for request in requests])
        assert len(runner.calls) == 1
        assert [result["answers"] for result in second] == [result["answers"] for result in first]
        assert second[0]["routing"]["reason"] != first[0]["routing"]["reason"]

    def test_what_differs_is_inferred(self, taught):
        """Another order of questions, another budget, another state beside a known one."""
        runner = FakeRunner(hooks=taught.StateCache())
        runner.predict("a", ASKED)
        runner.predict("a", dict(reversed(ASKED.items())))
        runner.predict("a", ASKED, max_len=100)
        runner.predict_batch(["a", "b"], ASKED)
        assert len(runner.calls) == 4

    def test_an_empty_batch_is_no_hit(self, taught):
        """It ends as it would without a cache."""
        assert FakeRunner(hooks=taught.StateCache()).predict_batch([], ASKED) == []

    def test_a_gate_is_of_its_call(self, taught):
        """Marks don't come back from the cache, and a hit is gated anew."""
        runner = FakeRunner({"team": {"billing": 0.6, "shipping": 0.4}}, hooks=taught.StateCache())
        assert runner.predict("a", ASKED, min_confidence=0.9)["answers"]["team"]["low_confidence"] is True
        assert "abstention" not in runner.predict("a", ASKED)["answers"]["team"]
        assert runner.predict("a", ASKED, min_confidence=0.5)["answers"]["team"]["abstention"] == "passed"
        assert len(runner.calls) == 1

    def test_nobodys_edit_reaches_the_next_caller(self, taught):
        """Neither of the result that was filed nor of one that was served."""
        runner = FakeRunner({"team": "billing"}, hooks=taught.StateCache())
        for _ in range(3):
            answers = runner.predict("a", ASKED)["answers"]
            assert answers["team"]["choice"] == "billing"
            answers["team"]["choice"] = "edited"
        assert len(runner.calls) == 1

    def test_only_what_was_inferred_is_kept(self, taught):
        """Not another hook's payload, nor what a failed call had."""
        runner = FakeRunner(hooks=taught.StateCache())
        runner.predict("a", ASKED, on_predict_start=lambda ctx: ctx.skip({"answers": {}}))
        runner.script({"team": RuntimeError("no memory")})
        with pytest.raises(RuntimeError):
            runner.predict("a", ASKED)
        runner.script({"team": "billing"})
        assert runner.predict("a", ASKED)["answers"]["team"]["choice"] == "billing"

    def test_a_state_that_was_cut_is_not_kept(self, taught):
        """A Router's `predict` and `predict_long` answer it differently, on equal contexts."""
        router = Router(hooks=taught.StateCache())
        router.attach("english", FakeRunner(max_len=60, head_max_len=40))
        state = "word " * 200
        assert router.predict(state, ASKED, model="english")["usage"]["truncated"] is True
        assert router.predict_long(state, ASKED, model="english")["usage"]["windows"] > 1
        assert router.predict(state, ASKED, model="english")["usage"]["truncated"] is True

    def test_the_full_listing_is_the_program(self):
        """What the page prints is what the example runs."""
        (block,) = [b for b in find_blocks(ROOT / "docs/hooks/examples.md") if "def cache_key(" in b.code]
        listing = block.code[block.code.index("def cache_key(") :].rstrip()
        assert listing in (ROOT / EXAMPLE).read_text(encoding="utf-8")
