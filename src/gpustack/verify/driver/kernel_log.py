"""What the kernel log says about the GPUs, as the outcome of a check."""

from __future__ import annotations

from gpustack.matrix.index import Matrix
from gpustack.solve.kernel_log import judge
from gpustack.verify.declare import Outcome, failed, passed

EVIDENCE_LINES = 20


def judge_log(matrix: Matrix, text: str) -> Outcome:
    """Judge the messages of a kernel log: the first grave one fails, what followed from it is added."""
    lines = [line.strip() for line in text.splitlines() if "NVRM" in line or "nvidia" in line]
    evidence = {"kernel log": "\n".join(lines[-EVIDENCE_LINES:])}
    found = judge(matrix, text)
    if found.message:
        return failed(found.message, found.fix, detail=f"{found.told}.", evidence=evidence)
    if not found.remarks:
        return passed("no Xid and no RmInitAdapter message")
    listed = ", ".join(found.remarks)
    return passed(f"Xid {listed}; none is known to require more than restarting programs", evidence=evidence)
