"""Loading a checkpoint of the real size."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_a_large_checkpoint_loads_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peak private memory is at most 1.2 times the F32 weights plus 400 MB."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = importlib.import_module("load_memory")
    try:
        numbers = benchmark.run(tmp_path)
    finally:
        (tmp_path / "large" / "model.safetensors").unlink(missing_ok=True)
    assert numbers["parameters"] == 421_293_827
    assert numbers["loaded"] >= numbers["weights"]
    assert numbers["peak"] <= numbers["bound"]
