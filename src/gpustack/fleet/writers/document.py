"""The report as the document ``gpustack/fleet-report/v1``, one host a line."""

from __future__ import annotations

import msgspec

from gpustack.model.fleet_report import FleetReport
from gpustack.visible import visible_json


def write(report: FleetReport) -> str:
    """JSON whose differences can be read host by host."""
    rows = ",\n".join(msgspec.json.encode(host).decode() for host in report.hosts)
    rest = msgspec.json.encode({"summary": report.summary, "version": report.version}).decode()[1:]
    return visible_json(f'{{"schema":"{report.schema}","hosts":[\n{rows}\n],\n{rest}\n')
