"""The registry of detectors, and the conversion of a finding to a Problem with the matrix row's fix and sources."""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from gpustack.detect.scene import Scene
from gpustack.model.host import Problem

Severity = Literal["block", "warn", "info"]
_SEVERITIES: dict[str, Severity] = {"block": "block", "fix": "warn", "warn": "warn", "info": "info"}
_REBOOT = {"yes": True, "no": False}


class Finding(Struct, frozen=True, kw_only=True):
    """One finding of a detector. An empty ``fix`` defaults to the matrix row's; ``severity`` None to its severity.

    ``sources`` are addresses of rows that decide about this finding; without any, the detector's own count.
    ``row`` is the id of the row that the finding is of, ``over`` the rows and detectors whose findings follow from it,
    ``after`` detectors next to whose findings it says nothing new.
    ``follows``: what programs say after a failure of any kind: of a text that names a cause it is no finding.
    """

    message: str
    fix: str = ""
    reboot: bool | None = None
    severity: Severity | None = None
    sources: tuple[str, ...] = ()
    row: str = ""
    follows: bool = False
    over: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Detected(Struct, frozen=True, kw_only=True):
    """Where a state is known from that code sees and describes."""

    id: str
    src: tuple[str, ...] = ()


Detector = Callable[[Scene], Iterator[Finding]]
DETECTORS: dict[str, Detector] = {}
"""Detectors by the id of their row in the conflicts matrix, or a name that begins with ``detect-``."""


def detects(identity: str) -> Callable[[Detector], Detector]:
    """Register the detector of a conflict. Raises ValueError for a second one, which would replace the first."""

    def register(function: Detector) -> Detector:
        if identity in DETECTORS:
            msg = f"{identity} has a detector: {DETECTORS[identity].__name__}"
            raise ValueError(msg)
        DETECTORS[identity] = function
        return function

    return register


def problem_of(scene: Scene, identity: str, finding: Finding) -> Problem:
    """The finding as users read it, with what the row of its conflict says where it says nothing itself."""
    row = scene.matrix.conflicts.get(identity)
    if row is None:
        known = next((one for one in scene.matrix.rows("conflicts", "detected", Detected) if one.id == identity), None)
        return Problem(
            id=identity,
            message=finding.message,
            fix=finding.fix,
            severity=finding.severity or "warn",
            reboot=finding.reboot,
            sources=finding.sources or scene.matrix.addresses(known.src if known else ()),
        )
    return Problem(
        id=identity,
        message=finding.message,
        fix=finding.fix or "; or ".join(row.fix),
        severity=finding.severity or _SEVERITIES.get(row.severity, "warn"),
        reboot=finding.reboot if finding.reboot is not None else _REBOOT.get(row.reboot),
        sources=scene.matrix.addresses(row.src),
    )
