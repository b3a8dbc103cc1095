"""The report as metrics for the textfile collector of node_exporter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from gpustack.model.results import Measurement, Report
from gpustack.verify.frame.figures import figure
from gpustack.verify.frame.host_facts import own_gpus
from gpustack.verify.frame.report import STATUSES

Sample = tuple[dict[str, str], float]

_UNITS: dict[str, tuple[str, float]] = {
    "": ("", 1.0),
    "GB/s": ("bytes_per_second", 1e9),
    "MiB": ("bytes", 2.0**20),
    "B": ("bytes", 1.0),
    "MHz": ("hertz", 1e6),
    "TFLOP/s": ("flop_per_second", 1e12),
    "W": ("watts", 1.0),
    "°C": ("celsius", 1.0),
    "s": ("seconds", 1.0),
    "ms": ("seconds", 1e-3),
    "dB": ("decibels", 1.0),
    "%": ("percent", 1.0),
    "of datasheet": ("ratio", 1.0),
    "inferences/s": ("inferences_per_second", 1.0),
}
"""Prometheus' word for each unit, in base units, and what a value is multiplied by. Others are spelled as they are."""


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """Text exposition format. Each check has one sample per status, 1 for its current one and 0 for the others."""
    states: list[Sample] = [
        (
            {"check": one.id, "component": one.component, "level": one.level, "status": status},
            float(one.status == status),
        )
        for one in report.checks
        for status in STATUSES
    ]
    durations: list[Sample] = [({"check": one.id}, one.duration_s) for one in report.checks]
    found: list[Sample] = [({"component": name, "version": text}, 1.0) for name, text in report.stack.items() if text]
    totals: list[Sample] = [({"status": status}, float(report.summary.get(status, 0))) for status in STATUSES]
    level: dict[str, str] = {"level": report.level}
    families = [
        family("gpustack_check_status", "Whether a check ended in this status.", states),
        family("gpustack_check_duration_seconds", "How long a check took.", durations),
        family("gpustack_component_info", "Versions found.", found),
        family("gpustack_checks", "Checks by status.", totals),
        family("gpustack_gpus", "GPUs that this host uses itself.", [(level, float(len(own_gpus(report.host))))]),
        family("gpustack_verify_start_timestamp_seconds", "When the run started.", _started(report, level)),
    ]
    for name, samples in sorted(_measured(report).items()):
        families.append(family(name, "What a check measured.", samples))
    return "".join(families)


def _started(report: Report, level: dict[str, str]) -> list[Sample]:
    try:
        return [(level, datetime.fromisoformat(report.started).timestamp())]
    except ValueError:
        return []


def _measured(report: Report) -> dict[str, list[Sample]]:
    """The samples of each figure: the GPU is a label, the unit a part of the name, so that a sum makes sense."""
    families: dict[str, list[Sample]] = {}
    for one in report.checks:
        for name, measured in one.measurements.items():
            if isinstance(measured.value, str):
                continue
            family, labels, value = _sample(one.id, name, measured)
            samples = families.setdefault(family, [])
            if any(labels == others for others, _ in samples):
                labels["name"] = name  # two names that are one in the letters of a metric
            samples.append((labels, value))
    return families


def _sample(check: str, name: str, measured: Measurement) -> tuple[str, dict[str, str], float]:
    found = figure(name)
    unit, factor = _UNITS.get(measured.unit, (_letters(measured.unit), 1.0))
    family = f"gpustack_measured_{_letters(found.name)}"
    if unit and not family.endswith(f"_{unit}"):
        family += f"_{unit}"
    labels = {"check": check}
    if found.gpu:
        labels["gpu"] = found.gpu
    if found.peer:
        labels["peer"] = found.peer
    return family, labels, float(measured.value) * factor


def _letters(text: str) -> str:
    """The letters and digits of a name, as a metric's name may hold them."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("/", " per ")).strip("_") or "value"


def family(name: str, about: str, samples: Iterable[Sample]) -> str:
    """One metric with all its samples, "" without any."""
    lines = [f"{name}{{{_labels(labels)}}} {value!r}" for labels, value in samples]
    if not lines:
        return ""
    return "\n".join((f"# HELP {name} {about}", f"# TYPE {name} gauge", *lines)) + "\n"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())


def _escaped(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
