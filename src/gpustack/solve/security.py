"""Published security bulletins against a version: what it lacks, and which release of its branch has the fix."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Exposure
from gpustack.solve.question import Candidate, Question
from gpustack.solve.words import capitalised, title
from gpustack.versions import version, version_key

SUBJECT = "security"
COVERED = ("driver", "container-toolkit")
"""Components whose bulletins are in the facts."""

SEVERITIES = ("low", "medium", "high", "critical")

PRODUCTS = {"consumer": "GeForce", "professional": "Quadro", "datacenter": "Tesla"}
"""The word for each class of GPU in the product lists of bulletins."""


class Bulletin(Struct, frozen=True, kw_only=True):
    """One bulletin: its number, the day it was published, the highest severity in it, and its page."""

    bulletin: str
    date: str
    severity: str
    page: str


class Fixed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lowest release of a branch with the fixes of a bulletin, for some products ("" or () is all)."""

    bulletin: str
    component: str
    os: str
    fixed: str
    branch: str = ""
    products: tuple[str, ...] = ()


def exposures(question: Question, picks: Mapping[str, Candidate]) -> tuple[Exposure, ...]:
    """The published bulletins against these versions."""
    found = (exposure(question, candidate) for name, candidate in picks.items() if name in COVERED)
    return tuple(one for one in found if one is not None)


def exposure(question: Question, candidate: Candidate) -> Exposure | None:
    """The bulletins that name a later fixed release than this version; None without any."""
    if candidate.component not in COVERED:
        return None
    branch = _branch(candidate)
    lacking, elsewhere = {}, {}
    for bulletin, rows in _by_bulletin(question, candidate.component):
        own = min((row.fixed for row in rows if row.branch == branch), key=version_key, default="")
        if own and version(candidate.version) < version(own):
            lacking[bulletin.bulletin] = (bulletin, own)
        elif not own and _is_older(candidate, bulletin):
            later = [row.fixed for row in rows if row.branch and version(row.branch) > version(branch)]
            if later:
                elsewhere[bulletin.bulletin] = (bulletin, min(later, key=version_key))
    if not lacking and not elsewhere:
        return None
    named = sorted((one for one, _ in (*lacking.values(), *elsewhere.values())), key=lambda one: one.date, reverse=True)
    fixed = max((release for _, release in lacking.values()), key=version_key, default="")
    newest = max(elsewhere.values(), key=lambda pair: pair[0].date, default=None)
    return Exposure(
        component=candidate.component,
        version=candidate.version,
        bulletins=tuple(one.bulletin for one in named),
        severity=max((one.severity for one in named), key=SEVERITIES.index),
        fixed=fixed,
        reason=_sentence(candidate, named, fixed, newest),
        sources=tuple(one.page for one in named),
    )


def of_host(matrix: Matrix, host: Host) -> tuple[Exposure, ...]:
    """The published bulletins against what is installed on a host."""
    question = Question(matrix, host, Request(requirements=()), mode="check")
    installed = [name for name in COVERED if name in host.installed]
    found = {name: candidates[0] for name in installed if (candidates := question.candidates(name))}
    return exposures(question, {name: one for name, one in found.items() if one.is_installed})


def _sentence(candidate: Candidate, named: list[Bulletin], fixed: str, newest: tuple[Bulletin, str] | None) -> str:
    first = named[0]
    before = f" and {len(named) - 1} before it" if len(named) > 1 else ""
    text = (
        f"{capitalised(title(candidate.component))} {candidate.version} has known vulnerabilities: security bulletin"
        f" {first.bulletin} ({first.date}, severity {first.severity}){before};"
    )
    if newest is None:
        return f"{text} fixed in {fixed}"
    bulletin, release = newest
    part = f" {fixed} fixes those of the older bulletins;" if fixed else ""
    return (
        f"{text}{part} bulletin {bulletin.bulletin} names no fixed release of branch {_branch(candidate)}, and"
        f" {release} of a later one"
    )


def _by_bulletin(question: Question, component: str) -> Iterator[tuple[Bulletin, list[Fixed]]]:
    """Each bulletin with its rows about a component on this system, for the products of this host."""
    system = question.view.system(component)
    words = {PRODUCTS.get(gpu.kind or "", "") for gpu in question.host.gpus} - {""}
    rows = [
        row
        for row in question.matrix.rows(SUBJECT, "fixed", Fixed)
        if row.component == component
        and row.os == system
        and (not words or not row.products or any(word in product for word in words for product in row.products))
    ]
    for bulletin in question.matrix.rows(SUBJECT, "bulletins", Bulletin):
        found = [row for row in rows if row.bulletin == bulletin.bulletin]
        if found:
            yield bulletin, found


def _branch(candidate: Candidate) -> str:
    if candidate.component != "driver":
        return ""
    stated = candidate.release.branch if candidate.release is not None else ""
    return stated or candidate.version.partition(".")[0]


def _is_older(candidate: Candidate, bulletin: Bulletin) -> bool:
    """Whether a version is older than a bulletin that does not mention its branch."""
    date = candidate.release.date if candidate.release is not None else ""
    return bool(date) and date < bulletin.date
