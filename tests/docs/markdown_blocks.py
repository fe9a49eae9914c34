"""Find the fenced Python blocks of a Markdown file, run them, or check the names that they import."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NO_RUN = "<!-- no-run: needs the Hub -->"
"""The comment that a block follows when it can't run offline."""

_OPENING = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?:python|py)\b[^`]*$")


@dataclass(frozen=True)
class Block:
    """One fenced block of Python code."""

    path: Path
    line: int
    """The line of the first line of code, from 1."""
    code: str
    runs: bool
    """False after the `NO_RUN` comment."""

    def compile(self) -> types.CodeType:
        """Compile the block so that tracebacks show the Markdown file's own lines."""
        return compile("\n" * (self.line - 1) + self.code, str(self.path), "exec", dont_inherit=True)


def find_blocks(path: Path) -> list[Block]:
    """List a Markdown file's Python blocks in order; a fence that is never closed is a ValueError."""
    return list(_find_blocks(path))


def _find_blocks(path: Path) -> Iterator[Block]:
    lines = path.read_text(encoding="utf-8").splitlines()
    last_text = ""
    number = 0
    while number < len(lines):
        opening = _OPENING.match(lines[number])
        if opening is None:
            last_text = lines[number].strip() or last_text
            number += 1
            continue
        end = _closing_line(path, lines, number, opening["fence"])
        code = textwrap.dedent("\n".join(lines[number + 1 : end]) + "\n")
        yield Block(path, number + 2, code, runs=last_text != NO_RUN)
        last_text = ""
        number = end + 1


def _closing_line(path: Path, lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        text = lines[number].strip()
        if text.startswith(fence) and set(text) == {fence[0]}:
            return number
    raise ValueError(f"{path}:{start + 1}: the code block is never closed; add a line with {fence}")


def missing_names(block: Block) -> list[str]:
    """Import what a block imports and list the names that aren't there, without running the block."""
    missing = []
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.Import):
            missing += [alias.name for alias in node.names if not _exists(alias.name, None)]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            missing += [f"{module}.{alias.name}" for alias in node.names if not _exists(module, alias.name)]
    return missing


def _exists(module: str, name: str | None) -> bool:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    return name is None or hasattr(loaded, name) or _exists(f"{module}.{name}", None)


def run_file(path: Path) -> None:
    """Run a file's blocks in order as one program: one namespace, which is the module `__main__`."""
    # Pydantic and typing look annotations up in the module that a class names.
    program = types.ModuleType("__main__")
    program.__file__ = str(path)
    sys.modules["__main__"] = program
    for block in find_blocks(path):
        if block.runs:
            exec(block.compile(), program.__dict__)
