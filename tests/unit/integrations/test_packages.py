"""What importing the adapters loads, and what they say where a framework is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from laya_integrations._extras import installed_by

_NAMES = (
    "AnswerParser, CallOptions, GuardrailError, GuardrailVerdict, LangChainHook, LayaClassifierResponse, "
    "LayaDecisionModel, LayaEvaluator, LayaGuardrail, LayaMessage, LayaRouter, LayaRunnable, LayaTool, RouteOutcome, "
    "Violation, laya_evaluator, laya_tools, state_of"
)


def run(code: str) -> str:
    """The output of a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, timeout=100)
    return done.stdout.strip()


def test_the_package_loads_no_framework() -> None:
    """Only the folder that is used loads its framework."""
    code = "import sys, laya_integrations as li; li.langchain; print(*sorted(sys.modules))"
    loaded = run(code).split()
    assert "laya_integrations.langchain" in loaded
    assert not {"langchain_core", "llama_index", "torch", "pydantic"} & set(loaded)


def test_the_adapters_load_no_torch() -> None:
    """A model is loaded where it is used, which may be another process."""
    code = f"import sys; from laya_integrations.langchain import {_NAMES}; print(*sys.modules)"
    assert not {"torch", "transformers", "langchain"} & set(run(code).split())


def test_a_missing_framework_names_its_extra() -> None:
    """The message holds the command that installs it."""
    code = """
import sys
sys.modules["langchain_core"] = None
try:
    from laya_integrations.langchain import LayaRunnable
except ImportError as error:
    print(error)
"""
    assert "pip install 'laya-integrations[langchain]'" in run(code)


def test_the_middlewares_name_the_package_of_agents() -> None:
    """It is no dependency of the extra, without which the other classes work."""
    code = f"""
import sys
import laya_integrations.langchain
sys.modules["langchain"] = sys.modules["langgraph"] = None
from laya_integrations.langchain import {_NAMES}
for name in ("LayaGuardrailMiddleware", "LayaToolSelectorMiddleware"):
    try:
        getattr(laya_integrations.langchain, name)
    except ImportError as error:
        print(error)
"""
    said = run(code)
    assert said.count("pip install 'langchain>=1.5,<2'") == 2 and "laya-integrations[" not in said


def test_a_missing_module_of_laya_is_no_missing_extra() -> None:
    """A broken installation is not mended by an extra."""
    with pytest.raises(ModuleNotFoundError) as raised, installed_by("langchain"):
        import laya_integrations.no_such_module  # noqa: F401
    assert "pip install" not in str(raised.value)


def test_unknown_names_are_attribute_errors() -> None:
    """As for any module."""
    import laya_integrations
    import laya_integrations.langchain

    for module in (laya_integrations, laya_integrations.langchain):
        with pytest.raises(AttributeError, match="no_such"):
            module.no_such
        assert {"LayaTool", "langchain"} & set(dir(module))
