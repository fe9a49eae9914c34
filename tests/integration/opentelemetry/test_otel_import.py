"""What importing the hook loads, and what it says where OpenTelemetry is missing."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    """The output of a new interpreter."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_the_hook_loads_neither_torch_nor_the_sdk() -> None:
    """The API is enough; which SDK exports is the application's choice."""
    code = "import sys; from laya_integrations.opentelemetry import OTelHook; OTelHook(); print(*sys.modules)"
    assert not {"torch", "transformers", "numpy", "opentelemetry.sdk.trace"} & set(run(code).split())


def test_a_missing_package_names_its_extra() -> None:
    """The message holds the command that installs it."""
    code = """
import sys
sys.modules["opentelemetry"] = None
try:
    from laya_integrations.opentelemetry import OTelHook
except ImportError as error:
    print(error)
"""
    assert "pip install 'laya-integrations[otel]'" in run(code)
