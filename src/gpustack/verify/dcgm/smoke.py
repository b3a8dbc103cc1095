"""Smoke check of DCGM: its host engine runs, and lists the GPUs of the host."""

from __future__ import annotations

import re

from gpustack.verify.dcgm.quick import no_dcgm
from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of, first_line

_FOUND = re.compile(r"(\d+) GPUs? found")


@check(
    "dcgm.discovery",
    level="smoke",
    title="the host engine lists every GPU",
    expects="DCGM's host engine runs, and `dcgmi discovery -l` lists every GPU.",
    fix="`sudo systemctl start nvidia-dcgm`",
    needs=("dcgm.found", "driver.module"),
    unless=(no_dcgm, host_facts.no_gpu),
    limit_s=60.0,
)
def discovery(context: Context) -> Outcome:
    end = context.run("dcgmi", "discovery", "-l", timeout=50.0)
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"dcgmi: {end.error}", evidence=evidence)
    match = _FOUND.search(end.out)
    if match is None:
        return failed(
            f"DCGM lists no GPU: {first_line(end)}",
            "`sudo systemctl start nvidia-dcgm`; its log: `journalctl -u nvidia-dcgm`",
            evidence=evidence,
        )
    listed, here = int(match[1]), len(host_facts.own_gpus(context.host))
    if listed < here and context.host.environment != "container":
        return failed(
            f"DCGM lists {listed} of {here} GPUs",
            "`sudo systemctl restart nvidia-dcgm`: the host engine sees the GPUs that were there when it started",
            evidence=evidence,
        )
    return passed(f"the host engine lists {listed} GPU{'' if listed == 1 else 's'}", evidence=evidence)
