"""Smoke check of GDRCopy: its kernel module is that of its library, and its own tests pass."""

from __future__ import annotations

import re

from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame import companions, host_facts
from gpustack.verify.frame.commands import describe_end, evidence_of
from gpustack.verify.gdrcopy.quick import no_gdrcopy

MODULE = "gdrdrv"
_LOAD = "`sudo modprobe gdrdrv`; if the module does not exist, `dkms status` says why"
_COUNTS = re.compile(r"Total: (\d+), Passed: (\d+), Failed: (\d+), Waived: (\d+)")
"""The last line of gdrcopy_sanity from 2.4 on."""
_CHECKS = re.compile(r"Checks: (\d+), Failures: (\d+), Errors: (\d+)")
"""The same before 2.4, by the library check."""


@check(
    "gdrcopy.sanity",
    level="smoke",
    title="GDRCopy maps and copies memory of a GPU",
    expects="The kernel module gdrdrv is loaded, and `gdrcopy_sanity` passes.",
    fix=_LOAD,
    needs=("gdrcopy.found", "driver.module"),
    unless=(no_gdrcopy, host_facts.no_gpu),
    limit_s=120.0,
)
def sanity(context: Context) -> Outcome:
    version = companions.loaded_version(context, MODULE)
    end = context.run("gdrcopy_sanity", timeout=110.0)
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        if version is None:
            return failed(f"the kernel module {MODULE} is not loaded", _LOAD, evidence=evidence)
        return skipped(
            f"{MODULE} {version} is loaded; gdrcopy_sanity is not installed, so nothing was copied",
            "install gdrcopy-tests (Debian, Ubuntu) or gdrcopy (others) from where GDRCopy came",
        )
    counts, older = _COUNTS.search(end.out), _CHECKS.search(end.out + end.err)
    if counts is None and older is None:
        if version is None:
            return failed(f"the kernel module {MODULE} is not loaded", _LOAD, evidence=evidence)
        return failed(f"gdrcopy_sanity {describe_end(end)}", evidence=evidence)
    total, bad, waived = _numbers(counts, older)
    if bad or end.code or total == waived:
        reason = f"{bad} of {total} tests failed" if bad else describe_end(end)
        return failed(f"gdrcopy_sanity: {reason}", evidence=evidence)
    module = f"{MODULE} {version}" if version is not None else f"no {MODULE}: by DMA-BUF"
    note = f", {waived} waived" if waived else ""
    return passed(f"{total - waived} tests of gdrcopy_sanity pass{note}; {module}", evidence=evidence)


def _numbers(counts: re.Match[str] | None, older: re.Match[str] | None) -> tuple[int, int, int]:
    """The numbers of all tests, of those that failed, and of those that were waived."""
    if counts is not None:
        return int(counts[1]), int(counts[3]), int(counts[4])
    return (int(older[1]), int(older[2]) + int(older[3]), 0) if older is not None else (0, 0, 0)
