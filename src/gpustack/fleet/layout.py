"""The folders of a fleet: which file has which name.

A folder that ``fleet detect``, ``fleet verify`` or ``fleet apply`` writes holds ``fleet.json`` (gpustack/fleet/v1),
which names every host that was asked, and for each host that answered a folder of its name: ``HOST/host.json``
(gpustack/host/v1), ``HOST/report.json`` (gpustack/report/v1). A host without such a file has its reason in
``fleet.json``.
"""

from __future__ import annotations

import re
from pathlib import Path

FLEET = "fleet.json"
HOST = "host.json"
REPORT = "report.json"

PLAN = "fleet-plan.json"
"""The document of ``fleet plan`` in its own folder."""

PLANS = "plans"
"""Next to it: one plan of each class of hosts, ``plans/CLASS.json``."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,252}")
_RESERVED = frozenset({PLANS, FLEET, PLAN})


def is_name(host: str) -> bool:
    """Whether a host of this name can have a folder of it."""
    return _NAME.fullmatch(host) is not None and host not in _RESERVED


def fleet_file(folder: Path) -> Path:
    """The document that names the hosts."""
    return folder / FLEET


def host_file(folder: Path, host: str) -> Path:
    """What a host is."""
    return folder / host / HOST


def report_file(folder: Path, host: str) -> Path:
    """What its verification found."""
    return folder / host / REPORT


def plan_file(folder: Path) -> Path:
    """The document of the fleet's plan."""
    return folder / PLAN


def class_file(folder: Path, name: str) -> Path:
    """The plan of one class of hosts."""
    return folder / PLANS / f"{name}.json"


REPORTS = "reports"
"""Below the folder of a plan: what ``fleet apply`` verified, with a ``fleet.json`` of its own."""
