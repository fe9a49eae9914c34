"""Links of the Markdown files that the site is not built from lead to files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE_THE_SITE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def dead_links(page: Path) -> list[str]:
    """The relative link targets of a page that aren't there; an anchor is looked for among the target's headings."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    targets = [match["target"] for match in _LINK.finditer(text)]
    return [target for target in targets if "://" not in target and not _exists(page, target)]


def _exists(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    return file.exists() and (not anchor or anchor in _anchors(file))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OUTSIDE_THE_SITE, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    """A reader who follows a link on the first pages finds the file, and the heading."""
    assert dead_links(page) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    """A missing file and a missing heading are told from what is there, from code and from the web."""
    (tmp_path / "other.md").write_text("# Load it, twice!\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n[a](other.md) [b](other.md#load-it-twice) [c](#page) [d](https://example.org/x)\n"
        "[e](gone.md) [f](other.md#gone) `[g](code.md)`\n```text\n[h](fenced.md)\n```\n",
        encoding="utf-8",
    )
    assert dead_links(page) == ["gone.md", "other.md#gone"]
