"""Names, aliases and places of the checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laya._checkpoints.catalog import Catalog, Source
from laya.errors import OptionError

ALIASES = {
    "english": ["english", "en", "laya", "default", "English", "EN", " laya "],
    "multilingual": ["multilingual", "multi", "ml", "laya-multilingual", "ML"],
    "typed-decisions": ["typed-decisions", "typed", "typed_decisions", "laya-typed-decisions", "Decisions"],
}


def test_the_published_names_come_in_order() -> None:
    """Aliases are no names of their own."""
    assert Catalog().names == Catalog.build().names == ("english", "multilingual", "typed-decisions")


@pytest.mark.parametrize(("name", "alias"), [(n, alias) for n, all_ in ALIASES.items() for alias in all_])
def test_aliases_mean_their_checkpoint_in_any_case(name: str, alias: str) -> None:
    """Every alias leads to the same source as the name itself."""
    catalog = Catalog.build()
    assert catalog.resolve_name(alias) == name
    assert catalog.source(alias) == catalog.source(name)


def test_the_published_checkpoints_share_a_repository() -> None:
    """English is at the root, the others in subfolders."""
    catalog = Catalog.build()
    assert catalog.source("english") == Source("convaiinnovations/laya", None)
    assert catalog.source("multilingual") == Source("convaiinnovations/laya", "multilingual")
    assert catalog.source("typed-decisions") == Source("convaiinnovations/laya", "typed-decisions")


def test_standalone_repositories_hold_one_checkpoint_each() -> None:
    """Each is at the root of its own repository."""
    catalog = Catalog.build(standalone_repos=True)
    assert catalog.source("english") == Source("convaiinnovations/laya", None)
    assert catalog.source("multilingual") == Source("convaiinnovations/laya-multilingual", None)
    assert catalog.source("typed-decisions") == Source("convaiinnovations/laya-typed-decisions", None)


@pytest.mark.parametrize("name", ["klingon", "", "   ", "english2", None, 3, ["english"]])
def test_an_unknown_name_is_refused_with_the_choices(name: Any) -> None:
    """The message lists what could have been meant, added checkpoints too."""
    catalog = Catalog.build({"legal": "me/legal"})
    with pytest.raises(ValueError, match="english, multilingual, typed-decisions, legal") as raised:
        catalog.resolve_name(name)
    assert isinstance(raised.value, OptionError)
    assert repr(name) in str(raised.value)


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("/models/english", Source("/models/english")),
        (Path("models") / "english", Source(str(Path("models") / "english"))),
        ("me/fork", Source("me/fork")),
        (("me/fork", "en"), Source("me/fork", "en")),
        (["me/fork", "en"], Source("me/fork", "en")),
        (("me/fork", None), Source("me/fork")),
        (("me/fork", ""), Source("me/fork")),
        ((Path("models"), "en"), Source("models", "en")),
        (Source("me/fork", "en"), Source("me/fork", "en")),
    ],
)
def test_models_point_anywhere(given: Any, source: Source) -> None:
    """A path, a repository, or one of them with a subfolder re-points a checkpoint; the others stay."""
    catalog = Catalog.build({"english": given})
    assert catalog.source("english") == source
    assert catalog.source("multilingual") == Source("convaiinnovations/laya", "multilingual")


def test_an_alias_re_points_its_checkpoint() -> None:
    """No second checkpoint arises under the alias."""
    catalog = Catalog.build({"ML": "me/fork"})
    assert catalog.names == ("english", "multilingual", "typed-decisions")
    assert catalog.source("multilingual") == Source("me/fork")


def test_a_new_name_is_added_as_it_was_written() -> None:
    """It is found in any case, and standalone repositories stay what they are."""
    catalog = Catalog.build({"Legal": ("me/models", "legal")}, standalone_repos=True)
    assert catalog.names == ("english", "multilingual", "typed-decisions", "Legal")
    assert catalog.resolve_name("LEGAL") == "Legal"
    assert catalog.source("legal") == Source("me/models", "legal")
    assert catalog.source("ml") == Source("convaiinnovations/laya-multilingual")


@pytest.mark.parametrize("models", [{"en": "a/b", "english": "c/d"}, {"Legal": "a/b", "legal": "c/d"}])
def test_one_checkpoint_given_twice_is_refused(models: Any) -> None:
    """Which of two places would win can't be seen from the call."""
    with pytest.raises(OptionError, match="once more"):
        Catalog.build(models)


@pytest.mark.parametrize(
    "models",
    [
        "convaiinnovations/laya",
        ["english"],
        {"": "a/b"},
        {3: "a/b"},
        {None: "a/b"},
        {"english": None},
        {"english": ""},
        {"english": 5},
        {"english": ("a/b",)},
        {"english": ("a/b", 3)},
        {"english": ("a/b", "x", "y")},
        {"english": {"repo": "a/b"}},
        {"english": b"a/b"},
    ],
)
def test_malformed_models_are_refused(models: Any) -> None:
    """The argument is named before anything is loaded."""
    with pytest.raises(OptionError, match="models") as raised:
        Catalog.build(models)
    assert raised.value.option == "models"


def test_a_catalog_does_not_change_with_the_mapping_it_was_given() -> None:
    """A Router's checkpoints stay what they were at its construction."""
    models = {"legal": "me/legal"}
    catalog = Catalog.build(models)
    models["legal"] = "me/other"
    assert catalog.source("legal") == Source("me/legal")
    assert Catalog.build().names == ("english", "multilingual", "typed-decisions")
