"""Spans and metrics of laya's predictions, for any OpenTelemetry backend.

    hook = OTelHook()                 # the global providers; content stays out of the traces
    agent = laya.load(..., hooks=hook)

Needs the extra `otel`: `pip install 'laya-integrations[otel]'`.
"""

from __future__ import annotations

from laya_integrations._extras import installed_by

with installed_by("otel"):
    from laya_integrations.opentelemetry.hook import OTelHook

__all__ = ["OTelHook"]
