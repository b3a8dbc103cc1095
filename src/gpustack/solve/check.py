"""``check``: is this combination compatible, and why (not)? Unknown is neither yes nor no."""

from __future__ import annotations

import msgspec

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Conflict, Verdict
from gpustack.solve.advice import advice
from gpustack.solve.flavour import flavour_rules, flavours
from gpustack.solve.forward_compat import bridged_branches, package_for
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import Candidate, Question
from gpustack.solve.refusals import Refusal
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import group_sentences, host_has, host_name, last_branch, rule_sentence, spelled
from gpustack.solve.unknown import outside_of_the_facts, unknown_pairs, unknown_versions
from gpustack.solve.words import title


def check(matrix: Matrix, host: Host, request: Request, *, with_hints: bool = False) -> Verdict:
    """The verdict on the components of ``request`` with each other and on ``host``; what would go costs searches."""
    question = Question(matrix, host, request, mode="check")
    search = Search(question)
    direct = _direct_conflicts(question, search)
    solution = None if direct else search.run()
    if not direct and solution is None:
        from gpustack.solve.conflict import explain  # noqa: PLC0415 (most combinations need no explanation)

        direct = [explain(question).conflict]
    picks = _given_picks(question, solution or {})
    unknown = (*unknown_versions(question), *outside_of_the_facts(question), *unknown_pairs(question, picks))
    return Verdict(
        compatible=not direct and not unknown,
        conflicts=tuple(direct),
        warnings=tuple(advice(question, picks)),
        unknown=unknown,
        hints=_hints(question) if direct and with_hints else (),
    )


def _given_picks(question: Question, solution: Chosen) -> dict[str, Candidate]:
    """The versions of what was asked for or is installed; none where there is a conflict."""
    return {
        name: candidate
        for name, candidate in solution.items()
        if candidate is not None and (name in question.asked or name in question.host.installed)
    }


def _given(question: Question) -> list[str]:
    """The components that take part with a version: asked for, or installed and bound by something asked for."""
    members = Search(question).members()
    installed = [name for name in members if name not in question.asked and name in question.host.installed]
    return [*question.asked, *installed]


def _direct_conflicts(question: Question, search: Search) -> list[Conflict]:
    """Every conflict that needs no detour over a third component: with the host, and between two that are given."""
    given = _given(question)
    found = _system_conflicts(question, given)
    for name in given:
        found += [_host_conflict(question, name, refused) for refused in _common_refusals(question, search, name)]
    found += _flavour_conflicts(question, search, given)
    for i, a in enumerate(given):
        for b in given[i + 1 :]:
            refused = _refused_pair(search, a, b)
            if refused is not None:
                found.append(_pair_conflict(question, a, b, refused))
    return found


def _system_conflicts(question: Question, given: list[str]) -> list[Conflict]:
    """What the vendor ships as programs does not run on a system of another libc or kernel, whatever its version."""
    row = question.system_row
    if row is None or row.binaries != "none":
        return []
    return [
        Conflict(
            between=(spelled(question, name), f"os: {row.name}"),
            reason=f"NVIDIA's programs do not run on {row.name}: {row.no_repo}.",
            sources=question.matrix.addresses(row.src),
        )
        for name in given
        if "source" not in POSSIBLE[name]
    ]


def _common_refusals(question: Question, search: Search, component: str) -> list[Refusal]:
    """What of the host refuses every version that a component could have; one reason of many where they differ."""
    refusals = [question.refusals.by_host(candidate) for candidate in search.domain(component)]
    if not refusals or not all(refusals):
        return []
    common = set.intersection(*({refused.group for refused in found} for found in refusals))
    return [refused for refused in refusals[0] if refused.group in common] or [refusals[0][0]]


def _flavour_conflicts(question: Question, search: Search, given: list[str]) -> list[Conflict]:
    """A driver has one kernel module flavour at a time: there has to be one that drives every GPU."""
    candidates = search.domain("driver") if "driver" in given and not question.view.is_windows else ()
    if not candidates or not question.host.gpus or any(flavours(question, c.version) for c in candidates):
        return []
    rules = flavour_rules(question, candidates[0].version)
    sentences = [sentence.text for sentence in group_sentences(question, ("flavour", "driver"))]
    return [
        Conflict(
            between=(spelled(question, "driver"), host_name(question, "compute-capability")),
            reason=f"{'. '.join([*sentences, *(rule.text.rstrip('.') for rule in rules)])}.",
            sources=question.matrix.addresses(tuple(key for rule in rules for key in rule.src)),
        )
    ]


def _refused_pair(search: Search, a: str, b: str) -> Refusal | None:
    """A refusal when no candidate of ``a`` goes with any candidate of ``b``."""
    first = None
    for one in search.domain(a):
        for other in search.domain(b):
            refused = search.pair_refusal(one, other)
            if refused is None:
                return None
            first = first or refused
    return first


def _host_conflict(question: Question, component: str, refused: Refusal) -> Conflict:
    if refused.rule is None:
        reason = f"{title(component)} cannot be had here"
        return Conflict(between=(spelled(question, component),), reason=reason)
    sentence = rule_sentence(question, refused.rule)
    name = refused.rule.rule.needs
    last = last_branch(question, component, name)
    return Conflict(
        between=(spelled(question, component), host_name(question, name)),
        reason=f"{sentence.text}. {host_has(question, name)}.{f' {last}.' if last else ''}",
        sources=sentence.sources,
    )


def _pair_conflict(question: Question, a: str, b: str, refused: Refusal) -> Conflict:
    sentence = rule_sentence(question, refused.rule) if refused.rule else None
    this_is = "this is" if refused.group[2] in question.asked else "installed here is"
    text = f"{sentence.text}; {this_is} {title(refused.group[2])} {refused.value}" if sentence else "These do not fit"
    return Conflict(
        between=(spelled(question, a), spelled(question, b)),
        reason=f"{text}.{_forward_compatibility(question, a, b)}",
        sources=sentence.sources if sentence else (),
    )


def _forward_compatibility(question: Question, a: str, b: str) -> str:
    """Tells "will not run" from "runs with the compatibility package", with its condition."""
    if {a, b} != {"cuda", "driver"} or question.view.is_windows:
        return ""
    classes = {gpu.kind for gpu in question.host.gpus}
    if classes and classes <= {"datacenter"}:
        return f" {_compatibility_package(question)}"
    if classes:
        return " Forward compatibility (cuda-compat) does not exist for this class of GPU."
    return ""


def _compatibility_package(question: Question) -> str:
    answers = {
        package_for(question.matrix, cuda.version, driver.version)
        for cuda in question.candidates("cuda")
        for driver in question.candidates("driver")
    }
    if len(answers) == 1 and (answer := answers.pop()) is not None:
        package, result = answer
        if result == "compatible":
            return (
                f"Forward compatibility bridges this on data-centre GPUs: {package} beside the toolkit,"
                " with its folder on LD_LIBRARY_PATH."
            )
        return f"Forward compatibility does not bridge this either: {package} does not work on this driver branch."
    package, branches = bridged_branches(question.matrix, question.candidates("cuda")[0].version)
    if branches:
        named = f"{package} on data-centre GPUs"
        return f"Forward compatibility, {named}, is stated for driver branch {_listed(branches)} only."
    return (
        "On data-centre GPUs the cuda-compat package of that CUDA release may bridge this (forward compatibility);"
        " no fact says on which driver branches it works."
    )


def _listed(texts: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _hints(question: Question) -> tuple[str, ...]:
    """What would go with the rest, for each thing asked for; or else what would go together at all."""
    from gpustack.solve.conflict import MOST_RELAXATIONS, relaxed, without  # noqa: PLC0415 (most need no explanation)

    found = []
    for name in question.asked:
        solution = without(question, name)
        if solution is not None and (pick := solution.get(name)) and _fits(question, {name: pick}):
            found.append(relaxed(question, name, solution))
    if not found:
        free = frozenset(("asked", name) for name in question.asked)
        picks = _given_picks(question, Search(question, free).run() or {})
        if picks and _fits(question, picks):
            named = ", ".join(f"{name}=={pick.version}" for name, pick in picks.items())
            found.append(f"what goes together here: {named}")
    return tuple(found[:MOST_RELAXATIONS])


def _fits(question: Question, picks: dict[str, Candidate]) -> bool:
    """Whether nothing refuses what was asked for, once the picks take the place of what they are of."""
    requirements = tuple(
        parse_requirement(f"{one.component}=={picks[one.component].version}") if one.component in picks else one
        for one in question.request.requirements
    )
    request = msgspec.structs.replace(question.request, requirements=requirements)
    changed = question.varied(request)
    return not _direct_conflicts(changed, Search(changed))
