"""What importing the LlamaIndex adapters loads, and what they say where LlamaIndex is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import laya_integrations
from laya_integrations import llama_index


def run(code: str) -> str:
    """The output of a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, timeout=100)
    return done.stdout.strip()


def test_the_package_loads_no_framework() -> None:
    """The classes are loaded where they are named."""
    loaded = run("import sys, laya_integrations as li; li.llama_index; print(*sys.modules)").split()
    assert "laya_integrations.llama_index" in loaded
    assert not {"llama_index", "langchain_core", "torch", "pydantic"} & set(loaded)


def test_the_adapters_load_no_torch() -> None:
    """A model is loaded where it is used, which may be another process."""
    code = "import sys; from laya_integrations.llama_index import *; print('LayaTool' in dir(), *sys.modules)"
    has_tool, *loaded = run(code).split()
    assert has_tool == "True" and not {"torch", "transformers"} & set(loaded)


def test_a_missing_framework_names_its_extra() -> None:
    """The message holds the command that installs it."""
    code = """
import sys
sys.modules["llama_index"] = None
try:
    from laya_integrations.llama_index import LayaSingleSelector
except ImportError as error:
    print(error)
"""
    said = run(code)
    assert "pip install 'laya-integrations[llama-index]'" in said and "laya_integrations.llama_index needs" in said


@pytest.mark.parametrize("name", llama_index.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """From the package, which is the path to import from."""
    assert getattr(llama_index, name) is not None and name in dir(llama_index)


def test_unknown_names_are_attribute_errors() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="no_such"):
        llama_index.no_such
    assert "llama_index" in dir(laya_integrations)
