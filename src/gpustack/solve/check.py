"""``check``: is this combination compatible, and why (not)? Unknown is neither yes nor no."""

from __future__ import annotations

from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Conflict, Verdict
from gpustack.solve.flavour import flavour_rules, flavours
from gpustack.solve.forward_compat import package_for
from gpustack.solve.question import Candidate, Question
from gpustack.solve.refusals import Refusal
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import group_sentences, host_has, host_name, last_branch, rule_sentence, spelled
from gpustack.solve.words import title
from gpustack.versions import is_within, version, version_range

COVERED_PAIRS = (
    ("cuda", "driver"),
    ("cudnn", "cuda"),
    ("nccl", "cuda"),
    ("tensorrt", "cuda"),
    ("ffmpeg", "nv-codec-headers"),
    ("nv-codec-headers", "driver"),
    ("triton", "driver"),
)
"""Pairs for which every release has a fact, or else the answer is unknown: the second limits the first."""


def check(matrix: Matrix, host: Host, request: Request) -> Verdict:
    """The verdict on the components of ``request`` with each other and on ``host``."""
    question = Question(matrix, host, request, mode="check")
    search = Search(question)
    direct = _direct_conflicts(question, search)
    solution = None if direct else search.run()
    if not direct and solution is None:
        from gpustack.solve.conflict import explain  # noqa: PLC0415 (most combinations need no explanation)

        direct = [explain(question).conflict]
    unknown = _unknown_versions(question) + ([] if direct else _unknown_pairs(question, solution or {}))
    warnings = _warnings(question, solution or {})
    return Verdict(
        compatible=not direct and not unknown,
        conflicts=tuple(direct),
        warnings=tuple(warnings),
        unknown=tuple(unknown),
    )


def _given(question: Question) -> list[str]:
    """The components that take part with a version: asked for, or installed and bound by something asked for."""
    members = Search(question).members()
    installed = [name for name in members if name not in question.asked and name in question.host.installed]
    return [*question.asked, *installed]


def _direct_conflicts(question: Question, search: Search) -> list[Conflict]:
    """Every conflict that needs no detour over a third component: with the host, and between two that are given."""
    found = []
    given = _given(question)
    for name in given:
        found += [_host_conflict(question, name, refused) for refused in _common_refusals(question, search, name)]
    found += _flavour_conflicts(question, search, given)
    for i, a in enumerate(given):
        for b in given[i + 1 :]:
            refused = _refused_pair(search, a, b)
            if refused is not None:
                found.append(_pair_conflict(question, a, b, refused))
    return found


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
    return (
        "On data-centre GPUs the cuda-compat package of that CUDA release may bridge this (forward compatibility);"
        " `gpustack matrix show cuda` lists which driver branches it accepts."
    )


def _unknown_versions(question: Question) -> list[str]:
    found = []
    for name, requirement in question.asked.items():
        candidates = question.candidates(name)
        if candidates and any(candidate.is_known for candidate in candidates):
            continue
        if requirement.versions.count("==") > 1:
            continue  # two exact versions of one thing: a conflict, and nothing that facts could know
        elsewhere = [r for r in question.matrix.releases(name) if is_within(r.version, requirement.versions)]
        what = "the facts know this version for other systems only" if elsewhere else "no fact knows this version"
        found.append(f"{requirement}: {what}; {nearest_known(question, name, requirement.versions)}")
    return found


def nearest_known(question: Question, component: str, range_text: str) -> str:
    """The known versions around what was asked for, in words."""
    system, arch = question.view.system(component), question.host.arch
    rows = question.matrix.releases(component)
    here = [r for r in rows if (not r.os or system in r.os) and (not r.arch or arch is None or arch in r.arch)]
    releases = sorted({row.version for row in here}, key=lambda text: version(text).key)
    if not releases:
        return f"the facts hold no release of {component}"
    clauses = [clause for clauses in version_range(range_text).alternatives for clause in clauses]
    if not clauses:
        return f"known are {releases[0]} to {releases[-1]}"
    wanted = clauses[0].version
    below = [text for text in releases if version(text) < wanted]
    above = [text for text in releases if version(text) > wanted]
    near = [*below[-1:], *above[:1]]
    return f"the nearest known {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"


def _unknown_pairs(question: Question, solution: Chosen) -> list[str]:
    found = []
    for subject, other in COVERED_PAIRS:
        one, two = _asked_pick(question, solution, subject), _asked_pick(question, solution, other)
        if one is None or two is None or not one.is_known or not two.is_known:
            continue
        if not question.book.covers(subject, one.version, other, question.view):
            text = f"{subject}=={one.version} with {other}=={two.version}: no fact covers this pair"
            found.append(text)
    return found


def _asked_pick(question: Question, solution: Chosen, component: str) -> Candidate | None:
    if component in question.asked or component in question.host.installed:
        return solution.get(component)
    return None


def _warnings(question: Question, solution: Chosen) -> list[str]:
    """Advice that the combination breaches."""
    found = []
    for name in COMPONENTS:
        candidate = _asked_pick(question, solution, name)
        if candidate is None:
            continue
        breach = question.book.host_breach(name, candidate.version, question.view, advice=True)
        if breach is not None:
            has = host_has(question, breach[0].rule.needs)
            found.append(f"{rule_sentence(question, breach[0]).text}; {has[:1].lower()}{has[1:]}")
        for other in COMPONENTS:
            two = _asked_pick(question, solution, other)
            if two is None or other <= name:
                continue
            bound = question.book.breach(name, candidate.version, other, two.version, question.view, advice=True)
            if bound is not None:
                value = two.version if bound.component == name else candidate.version
                found.append(f"{rule_sentence(question, bound).text}; this is {value}")
    return found
