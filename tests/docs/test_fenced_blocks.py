"""The Python code in the documentation runs as it is printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.markdown_blocks import NO_RUN, Block, find_blocks, missing_names, run_file
from tests.docs.page_process import run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PAGES_WITH_CODE = [page for page in PAGES if any(block.runs for block in find_blocks(page))]
HUB_BLOCKS = [block for page in PAGES for block in find_blocks(page) if not block.runs]
MOST_HUB_BLOCKS = 5

# An example may read what lies in a clone, and writes into a folder of its own.
READABLE = ("tests", "examples", "benchmarks", "docs")


def _page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _block_name(block: Block) -> str:
    return f"{_page_name(block.path)}:{block.line}"


# The first page waits until the packages that all pages share are loaded.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=_page_name)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    """A reader who pastes a page's blocks one after the other gets no error."""
    for name in READABLE:
        if (ROOT / name).exists():
            (tmp_path / name).symlink_to(ROOT / name)
    outcome = run_page(page, tmp_path, seconds=100)
    assert outcome.exit_code == 0, f"{_page_name(page)} failed\n{outcome.output}"


def test_a_page_that_fails_says_where(tmp_path: Path) -> None:
    """The outcome holds the page's own line, what was printed before it, and no success."""
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('before')\n1 / 0\n```\n", encoding="utf-8")
    outcome = run_page(page, tmp_path, seconds=100)
    assert outcome.exit_code == 1
    assert f'"{page}", line 3' in outcome.output and "before" in outcome.output


def test_a_page_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """A block that waits for ever fails its page and no other."""
    page = tmp_path / "page.md"
    page.write_text("```python\nimport time\ntime.sleep(1000)\n```\n", encoding="utf-8")
    assert run_page(page, tmp_path, seconds=0.5).exit_code is None


def test_a_page_that_reaches_for_the_network_fails(tmp_path: Path) -> None:
    """An example that swallows the refused connection is found out."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport contextlib, socket\nwith contextlib.suppress(Exception):\n"
        "    socket.create_connection(('192.0.2.1', 80))\n```\n",
        encoding="utf-8",
    )
    outcome = run_page(page, tmp_path, seconds=100)
    assert outcome.exit_code == 1 and "192.0.2.1" in outcome.output


@pytest.mark.parametrize("block", HUB_BLOCKS, ids=_block_name)
def test_a_block_that_needs_the_hub_compiles_and_imports_what_exists(block: Block) -> None:
    """A block that can't run here at least names nothing that isn't there."""
    block.compile()
    assert missing_names(block) == []


def test_few_blocks_need_the_hub() -> None:
    """Nearly all of the documentation can be tried offline."""
    assert len(HUB_BLOCKS) <= MOST_HUB_BLOCKS, [_block_name(block) for block in HUB_BLOCKS]


def test_the_readme_has_a_block_that_runs() -> None:
    """The first page shows working code, and the search for blocks finds it."""
    assert ROOT / "README.md" in PAGES_WITH_CODE


def test_blocks_are_found_with_their_lines(tmp_path: Path) -> None:
    """Nested fences, indentation, other languages and the comment are told apart."""
    page = tmp_path / "page.md"
    page.write_text(
        f"# Page\n\n```console\n$ ls\n```\n\n- item\n\n    ```python\n    x = 1\n    ```\n\n"
        f"{NO_RUN}\n\n~~~py\ny = 2\n~~~\n\n````python\nz = '```'\n````\n",
        encoding="utf-8",
    )
    assert [(block.line, block.code, block.runs) for block in find_blocks(page)] == [
        (10, "x = 1\n", True),
        (16, "y = 2\n", False),
        (20, "z = '```'\n", True),
    ]


def test_an_unclosed_block_is_an_error(tmp_path: Path) -> None:
    """A fence without an end would hide the rest of the page."""
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md:1: .*never closed"):
        find_blocks(page)


def test_blocks_of_a_page_share_a_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later block uses what an earlier one defined, and a block for the Hub does not run."""
    page = tmp_path / "page.md"
    page.write_text(
        f"```python\nnames = ['a']\n```\n\n{NO_RUN}\n```python\nraise SystemExit\n```\n\n"
        "```python\nnames.append(__name__)\nassert names == ['a', '__main__']\n```\n",
        encoding="utf-8",
    )
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    run_file(page)
    assert sys.modules["__main__"].names == ["a", "__main__"]  # type: ignore[attr-defined]


def test_a_failing_block_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback leads to the line in the Markdown file."""
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\nx / 0\n```\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    with pytest.raises(ZeroDivisionError) as failure:
        run_file(page)
    assert (failure.traceback[-1].path, failure.traceback[-1].lineno + 1) == (page, 5)


def test_missing_names_are_listed() -> None:
    """Modules, attributes and submodules are looked up as the import statement would."""
    code = "import os.path\nimport nowhere\nfrom os import path, nothing\nfrom email import message\n"
    block = Block(Path("page.md"), 1, code, runs=False)
    assert missing_names(block) == ["nowhere", "os.nothing"]
