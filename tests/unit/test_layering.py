"""Who may import whom, read from the source, and what an import loads, seen in a fresh process."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

FRAMEWORKS = (
    "langchain",
    "langchain_core",
    "langchain_community",
    "langgraph",
    "langsmith",
    "llama_index",
    "opentelemetry",
)


class Use(NamedTuple):
    """One name that a file imports, or reaches as an attribute of an imported `laya` module."""

    file: str
    line: int
    name: str
    """Absolute and dotted: `from laya.hooks import dispatch` is `laya.hooks.dispatch`."""


def test_laya_imports_no_framework() -> None:
    """The runtime works without LangChain, LlamaIndex and tracing packages."""
    assert _uses_of("laya", FRAMEWORKS) == []


@pytest.mark.parametrize("forbidden", ["torch", "laya.hooks", "laya._lifecycle", "laya._forward"])
def test_the_pipeline_is_plain_numpy(forbidden: str) -> None:
    """Both runtimes share the pipeline, so it knows neither's tensors nor who watches a call."""
    assert _uses_of("laya/_pipeline", (forbidden,)) == []


@pytest.mark.parametrize("folder", ["laya/hooks", "laya/_routing", "laya/_checkpoints", "laya/_pipeline"])
def test_only_the_forward_pass_and_the_agents_know_torch(folder: str) -> None:
    """Torch stays where tensors are computed."""
    assert _uses_of(folder, ("torch", "onnxruntime"), may_be_missing=True) == []


def test_hooks_import_only_what_imports_nothing() -> None:
    """Hooks can be read and tested on their own."""
    known = ("laya.hooks", "laya.errors", "laya._forks", "laya._numbers")
    assert [use for use in _uses_of("laya/hooks", ("laya",)) if not _within(use.name, known)] == []
    alone = [ROOT / "laya" / f"{name}.py" for name in ("errors", "_forks", "_numbers")]
    assert [use for file in alone for use in _uses(file) if _within(use.name, ("laya",))] == []


def test_routing_knows_neither_models_nor_residency() -> None:
    """A routing rule is a function of texts and names."""
    forbidden = (
        "laya._checkpoints.residency",
        "laya._forward",
        "laya._base_agent",
        "laya.agent",
        "laya.hooks",
    )
    assert _uses_of("laya/_routing", forbidden, may_be_missing=True) == []


def test_the_adapters_use_public_laya_names_only() -> None:
    """What the adapters need, users' own adapters can have."""
    private = [use for use in _uses_of("laya_integrations", ("laya",)) if _is_private(use.name)]
    assert private == []


@pytest.mark.parametrize(("folder", "other"), [("langchain", "llama_index"), ("llama_index", "langchain")])
def test_the_adapters_do_not_know_each_other(folder: str, other: str) -> None:
    """Each framework's adapters work where the other framework is not installed."""
    names = (f"laya_integrations.{other}", *(name for name in FRAMEWORKS if name.startswith(other)))
    assert _uses_of(f"laya_integrations/{folder}", names, may_be_missing=True) == []


def test_what_adapters_share_knows_no_framework() -> None:
    """The private modules beside the adapters' folders import with no extra installed."""
    shared = sorted((ROOT / "laya_integrations").glob("_*.py"))
    assert shared
    assert [use for file in shared for use in _uses(file) if _within(use.name, FRAMEWORKS)] == []


@pytest.mark.parametrize(
    ("package", "unloaded"),
    [
        ("laya", ("torch", "transformers", "onnxruntime", "pydantic", *FRAMEWORKS)),
        ("laya_integrations", ("torch", "transformers", "onnxruntime", *FRAMEWORKS)),
    ],
)
def test_an_import_loads_nothing_heavy(package: str, unloaded: tuple[str, ...]) -> None:
    """Importing a package is quick: what is heavy or optional loads on first use."""
    program = f"import sys, {package}; print(*sys.modules, sep='\\n')"
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = outcome.stdout.split()
    assert package in loaded
    assert [name for name in loaded if _within(name, unloaded)] == []


def test_the_reader_sees_every_way_to_import(tmp_path: Path) -> None:
    """Relative, nested, aliased and attribute uses all count."""
    file = tmp_path / "laya_integrations" / "langchain" / "tools.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import laya as runtime\nfrom .. import _decisions\nfrom ..llama_index.nodes import x\n"
        "def f():\n    import torch.nn\n    return runtime._engine, runtime.load\n",
        encoding="utf-8",
    )
    assert [(use.line, use.name) for use in _uses(file, tmp_path)] == [
        (1, "laya"),
        (2, "laya_integrations._decisions"),
        (3, "laya_integrations.llama_index.nodes.x"),
        (5, "torch.nn"),
        (6, "laya._engine"),
        (6, "laya.load"),
    ]


def _uses_of(folder: str, names: tuple[str, ...], *, may_be_missing: bool = False) -> list[Use]:
    """List the uses of some modules, or of anything inside them, in a folder's files."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files or may_be_missing, f"{folder} holds no Python file"
    return [use for file in files for use in _uses(file) if _within(use.name, names)]


def _uses(file: Path, root: Path = ROOT) -> list[Use]:
    path = file.relative_to(root)
    # The package that a relative import starts from: a package's own __init__ counts as a file in it.
    package = path.parent.parts
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    found = [Use(path.as_posix(), line, name) for line, name in _imports(tree, package)]
    found += [Use(path.as_posix(), line, name) for line, name in _attributes(tree)]
    return sorted(found, key=lambda use: use.line)


def _imports(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def _attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Find `laya.x` where `laya` is the imported package, under whatever name."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    local = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "laya"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in local:
            yield node.lineno, f"laya.{node.attr}"


def _within(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
