"""Say which extra to install when a framework is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def installed_by(extra: str) -> Iterator[None]:
    """Turn a missing package inside the block into an ImportError that names the extra to install.

    A missing module of laya's own is a fault of the installation, not of the extra, and passes unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.split(".")[0] in ("laya", "laya_integrations"):
            raise
        package = extra.replace("-", "_")
        raise ImportError(
            f"laya_integrations.{package} needs the module {missing!r}, which is missing or too old here; "
            f"install it with: pip install 'laya-integrations[{extra}]'",
            name=missing,
        ) from error
