"""The next kernels of a host: those that its system offers, and what does not build on them."""

from __future__ import annotations

from gpustack.model.places import OfferedKernel, covers
from gpustack.solve.question import Question
from gpustack.solve.sentences import rule_sentence
from gpustack.versions import version


def next_kernels(question: Question, driver: str) -> list[str]:
    """A warning about the first offered kernel, newer than the host's, on which these modules do not build."""
    now = question.view.values("kernel")
    bounds = [
        bound
        for bound in question.book.applying("driver", driver).get("kernel", ())
        if bound.rule.none and not bound.is_advice and question.view.holds(bound.rule, "driver")
    ]
    if not now or not bounds:
        return []
    for row in sorted(offered_kernels(question), key=lambda row: version(row.kernel)):
        if version(row.kernel) <= version(now[0]):
            continue
        for bound in bounds:
            if not bound.accepts(driver, row.kernel) and bound.accepts(driver, now[0]):
                place = question.host.os.called
                return [f"{rule_sentence(question, bound).text}; {place} offers kernel {row.kernel} too ({row.comes})"]
    return []


def offered_kernels(question: Question) -> list[OfferedKernel]:
    """The further kernels that the host's system, or the one that it derives from, offers."""
    row = question.system_row
    systems = [found for found in (row, question.matrix.system(row.base)) if found is not None] if row else []
    return [
        kernel
        for kernel in question.matrix.rows("systems", "kernels", OfferedKernel)
        if any(kernel.id == system.id and covers(kernel.version, system.version) for system in systems)
    ]
