"""Why a version was picked: what required it, and what refused the next newer one."""

from __future__ import annotations

from itertools import takewhile

from gpustack.model.facts import COMPONENTS, Release
from gpustack.model.resolution import Reason
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.own_files import named
from gpustack.solve.question import Candidate, Question
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import refusal_in_words, rule_sentence
from gpustack.solve.words import in_words
from gpustack.versions import version


def reasons(question: Question, search: Search, solution: Chosen, pick: Candidate) -> tuple[Reason, ...]:
    """The reasons for a pick; the first is the one to show if there is room for only one."""
    component = pick.component
    others = {name: other for name, other in solution.items() if name != component}
    found = [_origin(question, solution, component), _choice(question, search, others, pick)]
    newer = None if question.request.own_files(component) else _next_newer(question, pick)
    if newer is not None and not (pick.is_installed and component in question.asked):
        refused = _refused_newer(question, search, others, pick, newer)
        found += [] if refused is None else [refused]
    return tuple(found)


def _origin(question: Question, solution: Chosen, component: str) -> Reason:
    requirement = question.asked.get(component)
    if requirement is not None:
        wanted = in_words(requirement.versions) if requirement.versions else "any version"
        return Reason(role="asked", text=f"requested ({wanted})")
    pulling = [
        bound
        for name in COMPONENTS
        if (other := solution.get(name)) is not None and name != component
        for bound in question.book.applying(name, other.version).get(component, ())
        if bound.pulls and question.view.holds(bound.rule, name)
    ]
    if not pulling:
        return Reason(role="needed-by", text="needed by another component")
    # Equal versions (Fabric Manager and driver) are not a reason while something else requires it.
    sentence = rule_sentence(question, min(pulling, key=lambda bound: bool(bound.rule.equal)))
    return Reason(role="needed-by", text=f"needed: {sentence.text}", sources=sentence.sources)


def _choice(question: Question, search: Search, others: Chosen, pick: Candidate) -> Reason:
    if pick.is_installed:
        newer = _way_to_newer(question, search, others, pick)
        return Reason(role="installed", text=f"{pick.version} is installed and compatible{newer}")
    if files := question.request.own_files(pick.component):
        return Reason(role="asked", text=f"from {' and '.join(map(named, files))}")
    release, method = pick.release, _by_another_method(question, pick.component)
    if pick.component == "driver" and release is not None and release.kind and question.request.policy == "production":
        text = f"newest compatible release of a {_kind_in_words(release.kind)} branch (R{release.branch}){method}"
        return Reason(role="policy", text=text, sources=question.matrix.addresses(release.src))
    return Reason(role="newest", text=f"newest compatible version ({question.request.policy} policy){method}")


def _way_to_newer(question: Question, search: Search, others: Chosen, pick: Candidate) -> str:
    """How to get a newer release of a kept component, if a requested one is compatible; or ""."""
    name = pick.component
    if name not in question.asked or question.request.upgrades_to_newest(name):
        return ""
    has_newer = any(
        version(one.version) > version(pick.version) and search.refusal(one, others) is None
        for one in question.candidates(name)
    )
    return f"; `--upgrade {name}` installs a newer release" if has_newer else ""


def _by_another_method(question: Question, component: str) -> str:
    """Why a component does not come from NVIDIA's folder, if the host has one and no method was requested; or ""."""
    folder, method = question.host.os.repo, question.offers.method(component)
    if question.request.method(component) is not None or not folder:
        return ""
    if POSSIBLE[component][0] != "network" or method == "network":
        return ""
    return f"; by {method}: no packages of a compatible version are known in NVIDIA's repository folder {folder}"


def _kind_in_words(kind: str) -> str:
    words = {"PB": "production", "LTS": "long-term support", "NFB": "new-feature"}
    return next((text for short, text in words.items() if kind.startswith(short)), kind)


def _next_newer(question: Question, pick: Candidate) -> Release | None:
    """The oldest finished release newer than the pick, whatever was requested."""
    system = question.view.system(pick.component)
    chosen = version(pick.version)
    newest_first = question.matrix.releases(pick.component)
    newer = [
        row
        for row in takewhile(lambda row: version(row.version) > chosen, newest_first)
        if row.status in {"released", ""} and (not row.os or system in row.os)
    ]
    return newer[-1] if newer else None


def _refused_newer(
    question: Question, search: Search, others: Chosen, pick: Candidate, newer: Release
) -> Reason | None:
    candidate = Candidate(component=pick.component, version=newer.version, release=newer)
    requirement = question.asked.get(pick.component)
    if requirement is not None and candidate.version not in {c.version for c in question.candidates(pick.component)}:
        why = "was not requested" if requirement.versions else "is not known for this kind of machine"
        return Reason(role="refused-newer", text=f"{newer.version} {why}")
    refused = search.refusal(candidate, others)
    if refused is not None:
        sentence = refusal_in_words(question, refused)
        return Reason(role="refused-newer", text=f"{newer.version} refused: {sentence.text}", sources=sentence.sources)
    unknown = search.doubts.of_stack({pick.component: candidate})
    if unknown:
        text = f"{newer.version} not chosen: it cannot be judged here: {unknown[0].reason}"
        return Reason(role="refused-newer", text=text, sources=unknown[0].sources)
    bound = search.advice(candidate, others)
    if bound is not None:
        sentence = rule_sentence(question, bound)
        return Reason(
            role="refused-newer", text=f"{newer.version} not chosen: {sentence.text}", sources=sentence.sources
        )
    bad = [row for row in search.refusals.known_bad.of(candidate) if row.effect != "warns"]
    if bad:
        text = f"{newer.version} not chosen: {bad[0].reason(newer.version, question.host.gpus)}"
        return Reason(role="refused-newer", text=text, sources=question.matrix.addresses(bad[0].src))
    if (
        pick.component == "driver"
        and not pick.is_installed
        and newer.branch != (pick.release.branch if pick.release else "")
    ):
        branch = f"R{newer.branch or newer.version.partition('.')[0]}"
        what = f"is a {_kind_in_words(newer.kind)} branch" if newer.kind else "has no stated support class"
        return Reason(role="refused-newer", text=f"{newer.version} not chosen: {branch} {what}")
    return None
