"""Rotary bases: those in use are those on disk, whatever the transformers release."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from laya._checkpoints.config import load_config, load_encoder_config
from laya._forward import rope
from laya._forward.load import build_network
from laya.errors import CheckpointFormatError

pytestmark = pytest.mark.filterwarnings("ignore:.*temperatures must lie:RuntimeWarning")
ON_DISK = {
    "english": {"full_attention": 160000.0, "sliding_attention": 10000.0},
    "multilingual": {"full_attention": 160000.0, "sliding_attention": 160000.0},
}


def encoder_of(root: Path) -> Any:
    """Build the encoder of a checkpoint, without its weights."""
    path = root / "encoder" / "config.json"
    return build_network(load_encoder_config(path), load_config(root / "rl_agent_config.json"), path).encoder


def edited(checkpoints: Path, tmp_path: Path, **changes: Any) -> Path:
    """The english checkpoint with other entries in its encoder's configuration."""
    root = Path(shutil.copytree(checkpoints / "english", tmp_path / "edited"))
    path = root / "encoder" / "config.json"
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return root


@pytest.mark.parametrize("name", ["english", "multilingual"])
def test_bases_in_use_are_those_on_disk(checkpoints: Path, name: str) -> None:
    """Read back from the frequencies that the encoder computes with."""
    on_disk = rope.thetas_on_disk(load_encoder_config(checkpoints / name / "encoder" / "config.json"))
    assert on_disk == ON_DISK[name]
    in_use = rope.thetas_in_use(encoder_of(checkpoints / name))
    assert in_use.keys() == on_disk.keys()
    for kind, thetas in in_use.items():
        assert list(thetas) == [pytest.approx(on_disk[kind], rel=1e-4)] * len(thetas)


def test_other_bases_on_disk_are_used(checkpoints: Path, tmp_path: Path) -> None:
    """They aren't the release's defaults by chance."""
    parameters = {
        kind: {"rope_type": "default", "rope_theta": t}
        for kind, t in (("full_attention", 5000.0), ("sliding_attention", 777.0))
    }
    in_use = rope.thetas_in_use(encoder_of(edited(checkpoints, tmp_path, rope_parameters=parameters)))
    assert list(in_use["full_attention"]) == [pytest.approx(5000.0, rel=1e-3)]
    assert list(in_use["sliding_attention"]) == [pytest.approx(777.0, rel=1e-3)]


def test_bases_under_their_older_names_are_used(checkpoints: Path, tmp_path: Path) -> None:
    """Older exports say global_rope_theta and local_rope_theta."""
    root = edited(checkpoints, tmp_path, rope_parameters=None, global_rope_theta=4000.0, local_rope_theta=300.0)
    in_use = rope.thetas_in_use(encoder_of(root))
    assert list(in_use["full_attention"]) == [pytest.approx(4000.0, rel=1e-3)]
    assert list(in_use["sliding_attention"]) == [pytest.approx(300.0, rel=1e-3)]


def test_a_release_that_ignores_the_bases_is_refused(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both namings are withheld, as from a release that knows neither: it would answer wrongly."""
    parameters = {"full_attention": {"rope_theta": 5000.0}, "sliding_attention": {"rope_theta": 777.0}}
    root = edited(checkpoints, tmp_path, rope_parameters=parameters)

    def ignorant(config: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in config.items() if key != "rope_parameters"}

    monkeypatch.setattr(rope, "portable_config", ignorant)
    with pytest.raises(CheckpointFormatError, match=r"config\.json: \w+ computes with rope_theta .* says"):
        encoder_of(root)


def test_an_encoder_without_rotary_positions_has_no_bases(checkpoints: Path) -> None:
    """BERT's positions are absolute."""
    config = load_encoder_config(checkpoints / "bert" / "encoder" / "config.json")
    encoder = encoder_of(checkpoints / "bert")
    assert rope.thetas_on_disk(config) == {}
    assert rope.thetas_in_use(encoder) == {}
    assert rope.mismatch(config, encoder) is None
    assert "none" in str(rope.mismatch({"global_rope_theta": 1e4}, encoder))


@pytest.mark.parametrize(
    "parameters",
    [{"full_attention": {"rope_type": "default"}}, {"full_attention": {"rope_theta": "x"}}, {"full_attention": 5}],
    ids=repr,
)
def test_unreadable_bases_are_a_format_error(checkpoints: Path, tmp_path: Path, parameters: Any) -> None:
    """The file is named."""
    with pytest.raises(CheckpointFormatError, match=r"config\.json"):
        encoder_of(edited(checkpoints, tmp_path, rope_parameters=parameters))
