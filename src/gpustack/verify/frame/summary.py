"""What a report counts, and what it does not prove."""

from __future__ import annotations

from gpustack.model.results import Report
from gpustack.verify.frame.host_facts import own_gpus
from gpustack.verify.frame.report import STATUSES

WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped", "error": "could not run"}


def summary(report: Report) -> str:
    """The counts in one line: "20 checks: 12 passed, 1 failed, 7 skipped"."""
    counts = [f"{report.summary[name]} {WORDS[name]}" for name in STATUSES if report.summary.get(name)]
    total = len(report.checks)
    return f"{total} check{'' if total == 1 else 's'}: {', '.join(counts) or 'nothing ran'}"


def not_proven(report: Report) -> str:
    """What a report without failures does not prove, in one line; "" after programs ran on a GPU."""
    if not own_gpus(report.host):
        return "not proven: that anything runs on a GPU: this host has none"
    if report.level == "quick":
        return "not proven: that a GPU computes; `--level smoke` runs programs on it"
    return ""
