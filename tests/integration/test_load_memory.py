"""Loading a checkpoint of the real size."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "load_memory.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_a_large_checkpoint_loads_within_its_bound(tmp_path: Path) -> None:
    """Peak private memory is at most 1.2 times the F32 weights plus 400 MB."""
    spec = importlib.util.spec_from_file_location("load_memory", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    try:
        numbers = benchmark.run(tmp_path)
    finally:
        (tmp_path / "large" / "model.safetensors").unlink(missing_ok=True)
    assert numbers["parameters"] == 421_293_827
    assert numbers["loaded"] >= numbers["weights"]
    assert numbers["peak"] <= numbers["bound"]
