"""``check``: is this combination compatible, and why (not)? Unknown is neither yes nor no."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.request import Beside, Request, Requirement
from gpustack.model.resolution import Answer, Conflict, Exposure, Findings, ImageAnswer, Unknown, Verdict
from gpustack.solve.causes import (
    Asked,
    Constraint,
    Finding,
    ForeignSystem,
    NoCombination,
    NoCommonFlavour,
    Refusal,
    RefusedByHost,
    RefusedPair,
)
from gpustack.solve.flavour import flavours
from gpustack.solve.listed import unlisted_gpus
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import Candidate, Question, driver_owner
from gpustack.solve.relations import declared, open_aspects, open_pairs
from gpustack.solve.search import Chosen, Search
from gpustack.solve.unjudged import assumed, not_judged, unknown_rules
from gpustack.solve.unknown import (
    outside_of_the_facts,
    unknown_compilers,
    unknown_kernels,
    unknown_pairs,
    unknown_splits,
    unknown_versions,
)


def check(
    matrix: Matrix, host: Host, request: Request, *, beside: Beside | None = None, with_hints: bool = False
) -> Verdict:
    """The verdict on the components of ``request`` with each other and on ``host``.

    ``beside`` are further questions about the host: its video engines, a container image.
    """
    question = Question(matrix, host, request, mode="check")
    search = Search(question)
    found = _direct_findings(question, search)
    solution = None if found else search.best()
    if not found and solution is None and not unknown_versions(question):
        from gpustack.solve.conflict import smallest_cause  # noqa: PLC0415 (most combinations need no explanation)

        found = [NoCombination(smallest_cause(search))]
    picks = _given_picks(question, solution or {})
    judged = picks or {name: question.candidates(name)[0] for name in _list_given(search) if question.candidates(name)}
    more, of_image = _asked_beside(question, beside or Beside())
    conflicts = _conflicts(question, found) + more.conflicts
    warnings: list[str] = []
    security: tuple[Exposure, ...] = ()
    if judged:
        from gpustack.solve.advice import advice  # noqa: PLC0415 (an image or a framework alone has no component)
        from gpustack.solve.security import exposures  # noqa: PLC0415

        warnings, security = advice(question, picks), exposures(question, judged)
    unknown = _unknown(question, picks, judged) + _unknown_companions(search, solution or {}, picks) + more.unknown
    answer: Answer = "incompatible" if conflicts else "unknown" if unknown else "compatible"
    return Verdict(
        verdict=answer,
        compatible=answer == "compatible",
        conflicts=conflicts,
        warnings=(*warnings, *more.warnings),
        unknown=unknown,
        not_judged=(*not_judged(question, judged), *open_aspects(question, judged)),
        assumed=assumed(question, judged),
        declared=declared(question, judged),
        security=security,
        image=of_image,
        hints=(*(_hints(question, search) if found and with_hints else ()), *more.hints),
    )


def _asked_beside(question: Question, beside: Beside) -> tuple[Findings, ImageAnswer | UnsetType]:
    """The findings on the further questions: frameworks, video engines, a container image."""
    found = Findings()
    if question.request.frameworks:
        from gpustack.solve.frameworks.check import framework_findings  # noqa: PLC0415 (few ask for frameworks)

        found += framework_findings(question, question.request.frameworks)
    if beside.codecs:
        from gpustack.solve.codecs import codec_findings  # noqa: PLC0415 (few ask for codecs)

        found += codec_findings(question, beside.codecs)
    if beside.image is None:
        return found, UNSET
    if not isinstance(beside.image, str):
        from gpustack.solve.images.contents import content_findings  # noqa: PLC0415

        more, answer = content_findings(question, beside.image)
        return found + more, answer
    from gpustack.solve.images.judge import image_findings  # noqa: PLC0415 (few ask for images)

    more, answer = image_findings(question, beside.image)
    return found + more, answer


def _unknown(question: Question, picks: dict[str, Candidate], judged: dict[str, Candidate]) -> tuple[Unknown, ...]:
    """Everything that prevents a verdict; ``picks`` are the compatible versions, if there are any."""
    found = [*unknown_versions(question), *outside_of_the_facts(question, judged), *unknown_pairs(question, picks)]
    found += open_pairs(question, picks)
    found += [*unlisted_gpus(question, picks), *unknown_splits(question, picks), *unknown_compilers(question, judged)]
    found += unknown_kernels(question, judged)
    if "driver" in judged:
        from gpustack.solve import known_bad  # noqa: PLC0415 (see above)

        found += known_bad.doubts(question, judged["driver"])
    for candidate in judged.values():
        found += unknown_rules(question, candidate, judged)
    return tuple(dict.fromkeys(found))


def _unknown_companions(search: Search, solution: Chosen, picks: dict[str, Candidate]) -> tuple[Unknown, ...]:
    """What prevents a verdict on a driver that nobody gave, and without which the given versions do not run.

    The search prefers one without doubts, so every driver that fits has some.
    """
    driver = solution.get("driver")
    if driver is None or "driver" in picks or driver_owner(search.question.host):
        return ()
    return search.doubts.of(driver)


def _conflicts(question: Question, found: list[Finding]) -> tuple[Conflict, ...]:
    if not found:
        return ()
    from gpustack.solve.findings import conflict_of  # noqa: PLC0415 (most combinations need no sentences)

    return tuple(conflict_of(question, one) for one in found)


def _given_picks(question: Question, solution: Chosen) -> dict[str, Candidate]:
    """The versions of what was requested or is installed; none if there is a conflict."""
    return {
        name: candidate
        for name, candidate in solution.items()
        if candidate is not None and (name in question.asked or name in question.host.installed)
    }


def _list_given(search: Search) -> list[str]:
    """The components that take part with a version: requested, or installed and bound by a requested one."""
    question = search.question
    installed = [name for name in search.members if name not in question.asked and name in question.host.installed]
    return [*question.asked, *installed]


def _direct_findings(question: Question, search: Search) -> list[Finding]:
    """Every conflict that involves no third component: with the host, and between two given ones."""
    given = _list_given(search)
    row = question.system_row
    found: list[Finding] = []
    if row is not None and row.binaries == "none":
        found += [ForeignSystem(name) for name in given if "source" not in POSSIBLE[name]]
    for name in given:
        found += [RefusedByHost(name, refused) for refused in _common_refusals(search, name)]
    found += _flavour_findings(question, search, given)
    for i, a in enumerate(given):
        for b in given[i + 1 :]:
            refused = _refused_pair(search, a, b)
            if refused is not None:
                found.append(RefusedPair(a, b, refused))
    return found


def _common_refusals(search: Search, component: str) -> list[Refusal]:
    """What of the host refuses every possible version of a component; one of several reasons if they differ."""
    refusals = [search.refusals.by_host(candidate) for candidate in search.domain(component)]
    if not refusals or not all(refusals):
        return []
    common = set.intersection(*({refused.constraint for refused in found} for found in refusals))
    return [refused for refused in refusals[0] if refused.constraint in common] or [refusals[0][0]]


def _flavour_findings(question: Question, search: Search, given: list[str]) -> list[Finding]:
    """A driver has one kernel module flavour at a time: one must support every GPU."""
    candidates = search.domain("driver") if "driver" in given and not question.view.is_windows else ()
    if not candidates or not question.host.gpus or any(flavours(question, c.version) for c in candidates):
        return []
    return [NoCommonFlavour(candidates[0].version)]


def _refused_pair(search: Search, a: str, b: str) -> Refusal | None:
    """A refusal if no candidate of ``a`` is compatible with any candidate of ``b``."""
    first = None
    for one in search.domain(a):
        for other in search.domain(b):
            refused = search.pair_refusal(one, other)
            if refused is None:
                return None
            first = first or refused
    return first


def _hints(question: Question, search: Search) -> tuple[str, ...]:
    """For each requested component a version compatible with the rest; or else what would be compatible at all."""
    from gpustack.solve.relaxations import MOST_RELAXATIONS, is_doubted, relaxed, without  # noqa: PLC0415 (rarely needed)

    def is_good(solution: Chosen, changed: Iterable[str]) -> bool:
        doubted = any(is_doubted(search, solution.get(name)) for name in question.asked)
        return not doubted and _fits(question, {name: pick for name in changed if (pick := solution.get(name))})

    found = []
    for name in question.asked:
        solution = without(search, name)
        if solution is not None and solution.get(name) and is_good(solution, (name,)):
            found.append(relaxed(question, name, solution))
    if not found:
        free = frozenset[Constraint](Asked(name) for name in question.asked)
        best = search.leaving_out(free).run() or {}
        picks = _given_picks(question, best)
        if picks and is_good(best, picks):
            named = ", ".join(f"{name}=={pick.version}" for name, pick in picks.items())
            found.append(f"compatible here: {named}")
    return tuple(found[:MOST_RELAXATIONS])


def _fits(question: Question, picks: dict[str, Candidate]) -> bool:
    """Whether nothing refuses the request once the picks replace the versions in it."""
    requirements = tuple(
        Requirement(component=one.component, versions=f"=={picks[one.component].version}")
        if one.component in picks
        else one
        for one in question.request.requirements
    )
    request = msgspec.structs.replace(question.request, requirements=requirements)
    changed = question.varied(request)
    return not _direct_findings(changed, Search(changed))
