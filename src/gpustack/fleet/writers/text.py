"""The report for people at a terminal: causes with their hosts, then the sum."""

from __future__ import annotations

from gpustack.fleet.causes import causes, summary
from gpustack.model.fleet_report import FleetReport
from gpustack.visible import one_line

SHOWN = 8
"""How many hosts of a cause are named."""


def write(report: FleetReport) -> str:
    """One paragraph for each cause, that of the most hosts first; a summary last."""
    lines: list[str] = []
    for one in causes(report):
        count = len(one.hosts)
        more = f" and {count - SHOWN} more" if count > SHOWN else ""
        lines += [
            f"{one.status:5}  {one.check}: {one_line(one.reason)}",
            f"       on {count} host{'' if count == 1 else 's'}: {', '.join(map(one_line, one.hosts[:SHOWN]))}{more}",
            *([f"       fix: {one_line(one.fix)}"] if one.fix else []),
        ]
    return "\n".join([*lines, *([""] if lines else []), summary(report), ""])
