"""The report as metrics for the textfile collector of node_exporter."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpustack.model.results import Report
from gpustack.verify.frame.report import STATUSES


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """Text exposition format. Each check has one sample per status, 1 for its current one and 0 for the others."""
    states = [
        (
            {"check": one.id, "component": one.component, "level": one.level, "status": status},
            float(one.status == status),
        )
        for one in report.checks
        for status in STATUSES
    ]
    durations = [({"check": one.id}, one.duration_s) for one in report.checks]
    found = [({"component": name, "version": text}, 1.0) for name, text in report.stack.items() if text]
    values = [
        ({"check": one.id, "name": name, "unit": measured.unit}, float(measured.value))
        for one in report.checks
        for name, measured in one.measurements.items()
        if not isinstance(measured.value, str)
    ]
    totals = [({"status": status}, float(report.summary.get(status, 0))) for status in STATUSES]
    return "".join(
        (
            _family("gpustack_check_status", "Whether a check ended in this status.", states),
            _family("gpustack_check_duration_seconds", "How long a check took.", durations),
            _family("gpustack_check_measurement", "What a check measured.", values),
            _family("gpustack_component_info", "Versions found.", found),
            _family("gpustack_checks", "Checks by status.", totals),
        )
    )


def _family(name: str, about: str, samples: Iterable[tuple[dict[str, str], float]]) -> str:
    lines = [f"{name}{{{_labels(labels)}}} {value!r}" for labels, value in samples]
    if not lines:
        return ""
    return "\n".join((f"# HELP {name} {about}", f"# TYPE {name} gauge", *lines)) + "\n"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())


def _escaped(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
