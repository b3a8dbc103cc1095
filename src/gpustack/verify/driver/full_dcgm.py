"""Full check of the driver: the diagnostics of DCGM, where it is installed."""

from __future__ import annotations

import re

from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.driver.dcgm import Diagnosis, parse_diagnosis
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of, first_line

_NO_ENGINE = re.compile(
    r"unable to (?:establish a connection to the specified host|connect to host engine)", re.IGNORECASE
)
_REFUSED_FOR = {
    "tesla recommended driver": "",
    "unsupported cuda version": "install a newer DCGM: this one does not support the driver's CUDA",
    "homogeneous group": "create a group of identical GPUs with `dcgmi group`, then run `dcgmi diag -r 1 -g GROUP`",
    "while dcgm is paused": "`dcgmi test --resume`, then retry",
    "already running": "retry when the other diagnostic run has ended",
}
"""Texts of DCGM's refusals, and what fixes each; those without a fix are skips."""


@check(
    "driver.dcgm",
    level="full",
    title="DCGM diagnostics",
    expects="`dcgmi diag -r 1` passes on every GPU.",
    fix="See the output of `dcgmi diag -r 1`.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=300.0,
    alone=True,
)
def dcgm(context: Context) -> Outcome:
    end = context.run("dcgmi", "diag", "-r", "1", "-j", timeout=280.0)
    if end.code is None and "is not installed" in end.error:
        return needless(
            "DCGM is not installed", "install NVIDIA's Data Center GPU Manager (DCGM) and start its host engine"
        )
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"dcgmi: {end.error}", evidence=evidence)
    if _NO_ENGINE.search(end.out + end.err):
        return skipped("DCGM is installed, but its host engine is not running", "`sudo systemctl start nvidia-dcgm`")
    diagnosis = parse_diagnosis(end.out)
    if diagnosis is None:
        return errored(f"dcgmi ends with exit code {end.code}: {first_line(end)}", evidence=evidence)
    return _judge(diagnosis, end.code, evidence)


def _judge(found: Diagnosis, code: int, evidence: dict[str, str]) -> Outcome:
    name = f"DCGM {found.version}".strip()
    if found.refused:
        return _refused(name, found.refused, evidence)
    if found.failures:
        # DCGM reports every GPU; a GPU to isolate comes before settings to change.
        gravest = max(found.failures, key=lambda one: (one.fix != "", one.code != 0))
        more = len(found.failures) - 1
        return failed(
            f"{name} found a fault: {gravest.sentence}" + (f"; and {more} more" if more else ""),
            gravest.fix,
            detail="; ".join(one.sentence for one in found.failures),
            evidence=evidence,
        )
    if code != 0 or not found.tests:
        problem = f"ended with exit code {code} and reported no failed test" if code else "ran no test"
        return errored(f"{name} {problem}", evidence=evidence)
    on = f" on {found.gpus} GPU{'s' if found.gpus > 1 else ''}" if found.gpus else ""
    left = f"; skipped: {', '.join(sorted({one.test for one in found.skips}))}" if found.skips else ""
    return passed(f"{name}: dcgmi diag -r 1 passes{on}{left}", evidence=evidence)


def _refused(name: str, why: str, evidence: dict[str, str]) -> Outcome:
    said = why.removeprefix("Error: ")
    for words, fix in _REFUSED_FOR.items():
        if words in why.lower():
            return errored(f"{name}: {said}", fix, evidence=evidence) if fix else skipped(f"{name}: {said}")
    return errored(f"{name}: {said}", evidence=evidence)
