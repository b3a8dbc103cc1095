"""The entry point: a plan, options, a downloader and a reporter in; an exit code of the contract out."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.install.options import Downloader, Options, Reporter
from gpustack.model.plan import Plan

DONE = 0
PAUSED = 5


def install(plan: Plan, options: Options, *, download: Downloader, report: Reporter) -> int:
    """Carry ``plan`` out. 0 when all is done, 5 when it stopped for a reboot.

    Raises GpustackError with what, where, why and what next when a step failed, and before the first change when
    something stands in the way.
    """
    del options, download, report
    msg = f"this version does not run plans itself ({len(plan.steps)} steps to do)"
    raise UnsupportedError(
        msg, hint="read `gpustack install --dry-run`, then run `gpustack plan --format shell` as root"
    )
