"""The report as the document ``gpustack/report/v1``."""

from __future__ import annotations

import msgspec

from gpustack.model.results import Report
from gpustack.visible import visible_json


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """JSON, indented by two spaces, keys in the order of the type."""
    return visible_json(msgspec.json.format(msgspec.json.encode(report), indent=2).decode()) + "\n"
