"""How programs built with a CUDA release run on a driver: plainly, by some kind of compatibility, or not."""

from __future__ import annotations

from gpustack.model.facts import Release
from gpustack.model.resolution import ImageRuns
from gpustack.solve.forward_compat import PACKAGE
from gpustack.solve.question import Question
from gpustack.solve.rulebook import BoundRule
from gpustack.versions import is_within, version_key


def release_of(question: Question, cuda: str) -> Release | None:
    """The known release of a CUDA version, "12.8" or "13.0.1.012": the exact one, else the first of its line."""
    numbers = ".".join(cuda.split(".")[:3])
    rows = [row for row in question.matrix.releases("cuda") if numbers and is_within(row.version, f"=={numbers}.*")]
    exact = [row for row in rows if version_key(row.version) == version_key(numbers)]
    return next(iter(exact or rows), None)


def driver_rule(question: Question, release: Release, *, advice: bool) -> BoundRule | None:
    """The rule on the driver of a CUDA: the minimum, or (advice) the one that it belongs to."""
    rules = question.book.applying("cuda", release.version).get("driver", ())
    held = (bound for bound in rules if question.view.holds(bound.rule, "cuda"))
    return next((bound for bound in held if bound.is_advice == advice), None)


def runs_on(question: Question, release: Release, driver: str) -> ImageRuns:
    """How programs of this CUDA run on this driver."""
    required, own = (driver_rule(question, release, advice=advice) for advice in (False, True))
    if required is None:
        return "unknown"
    if required.accepts(release.version, driver):
        fits = own is None or own.accepts(release.version, driver)
        return "runs" if fits else "runs by minor-version compatibility"
    return _bridged(question, release, driver)


def _bridged(question: Question, release: Release, driver: str) -> ImageRuns:
    """Whether the cuda-compat of this CUDA helps on an older driver: it depends on branch and GPU."""
    book, view = question.book, question.view
    kinds = {gpu.kind for gpu in question.host.gpus}
    if "consumer" in kinds:
        return "does not run"  # whatever the release: no cuda-compat supports them
    if not book.covers(PACKAGE, release.version, "driver", view):
        return "unknown"
    if book.breach(PACKAGE, release.version, "driver", driver, view, advice=False) is not None:
        return "does not run"
    return "needs forward compatibility" if kinds == {"datacenter"} else "unknown"


def drivers_of(question: Question) -> tuple[str, ...]:
    """The drivers that were requested or are installed."""
    if "driver" not in question.asked and "driver" not in question.host.installed:
        return ()
    return tuple(candidate.version for candidate in question.candidates("driver"))


def smallest_driver(question: Question, release: Release) -> str:
    """The smallest driver that runs programs of this CUDA without forward compatibility, "" if unknown."""
    required = driver_rule(question, release, advice=False)
    if required is None:
        return ""
    found = [row.version for row in question.matrix.releases("driver") if _is_here(question, row)]
    fitting = [one for one in found if required.accepts(release.version, one)]
    return min(fitting, key=version_key, default="")


def _is_here(question: Question, row: Release) -> bool:
    return row.status == "released" and question.view.system("driver") in row.os


def newest_cuda(question: Question, driver: str) -> str:
    """The newest CUDA, as major and minor, that a driver runs plainly: the one that it reports; "" if unknown."""
    lines = {".".join(row.version.split(".")[:2]): row for row in question.matrix.releases("cuda")}
    for line in sorted(lines, key=version_key, reverse=True):
        if runs_on(question, lines[line], driver) == "runs":
            return line
    return ""
