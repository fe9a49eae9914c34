"""The API reference lists what the packages export."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

PACKAGES = {
    "laya": ["laya.md", "hooks.md", "questions.md"],
    "laya.hooks": ["hooks.md"],
    "laya.questions": ["questions.md"],
    "laya_integrations.langchain": ["langchain.md"],
    "laya_integrations.llama_index": ["llama-index.md"],
    "laya_integrations.opentelemetry": ["opentelemetry.md"],
}
"""Packages with the pages that list their names one by one; other pages show a module as a whole."""

NOT_LISTED = {"laya": {"__version__", "hooks"}, "laya.questions": {"QuestionModel"}}

_LISTED = re.compile(r"^(?:::: [\w.]+\.|        - )(?P<name>\w+)$", re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    """A name that is exported can be looked up."""
    pages = [(REFERENCE / page).read_text(encoding="utf-8") for page in PACKAGES[package]]
    listed = {match["name"] for page in pages for match in _LISTED.finditer(page)}
    exported = set(importlib.import_module(package).__all__) - NOT_LISTED.get(package, set())
    assert exported - listed == set()


def test_every_class_of_the_errors_is_in_the_reference() -> None:
    """An error that a caller meets can be looked up."""
    errors = importlib.import_module("laya.errors")
    defined = {name for name, value in vars(errors).items() if getattr(value, "__module__", None) == errors.__name__}
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    assert {name for name in defined if f"::: laya.errors.{name}\n" not in page + "\n"} == set()
