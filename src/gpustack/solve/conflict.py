"""From a failed search to the smallest set of requirements and facts that cannot hold together.

Requirements, properties of the host, offers and pairs of components are constraints. Each is dropped in turn; one
without which the search still fails is unrelated to the failure. What remains is the cause: without
any one of them there is a stack.
"""

from __future__ import annotations

import msgspec

from gpustack.model.facts import COMPONENTS, PROPERTIES
from gpustack.model.request import Requirement
from gpustack.solve.causes import Asked, Constraint, Denied, Failing, Flavour, HostLimit, Missing, Offered, Pair
from gpustack.solve.question import Question
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import by_kind


def smallest_cause(search: Search) -> frozenset[Constraint]:
    """The constraints of a failed search that cannot hold together; without any one of them there is a stack."""
    everything = _constraints(search)
    off: set[Constraint] = set()
    for one in everything:
        if search.leaving_out(frozenset(off | {one})).run() is None:
            off.add(one)
    return frozenset(everything) - off


def missing_versions(search: Search, constraints: frozenset[Constraint]) -> tuple[Missing, ...]:
    """For each offer in a cause a version that would complete a stack: preferably one offered for another CUDA."""
    others = frozenset(_constraints(search)) - constraints
    offers = sorted((one for one in constraints if isinstance(one, Offered)), key=by_kind)
    found = []
    for one in offers:
        solution = _with_another_build(search, others | {one}, one.component)
        solution = solution or search.leaving_out(others | {one}).run()
        pick = solution.get(one.component) if solution is not None else None
        found += [Missing(one.component, pick.version)] if pick is not None else []
    return tuple(found)


def _with_another_build(search: Search, off: frozenset[Constraint], component: str) -> Chosen | None:
    """A stack with a version that the method does offer, so that only its builds prevent it."""
    question = search.question
    is_free = Asked(component) in off
    builds = [
        candidate.version
        for candidate in question.candidates(component, is_free=is_free)
        if (offer := question.offers.offer(component, candidate.version)) is not None and offer.with_cuda
    ]
    if not builds:
        return None
    asked = Requirement(component=component, versions=" | ".join(f"=={text}" for text in builds))
    others = tuple(one for one in question.request.requirements if one.component != component)
    request = msgspec.structs.replace(question.request, requirements=(*others, asked))
    return Search(question.varied(request), off - {Asked(component)}).run()


def _constraints(search: Search) -> list[Constraint]:
    """Every constraint, those first that are least useful in an explanation."""
    question = search.question
    freed = frozenset[Constraint](Asked(name) for name in COMPONENTS)
    members = {**search.members, **search.leaving_out(freed).members}  # other versions may add others
    pairs = [Pair(a, b) for a in members for b in members if a != b]
    pairs.sort(key=lambda pair: (pair.subject in question.asked) + (pair.other in question.asked))
    found: list[Constraint] = [*pairs]
    if question.mode == "plan":
        found += [Offered(name) for name in members]
        found += [Flavour()] if "driver" in members else []
    found += [Denied(name) for name in members if question.request.deny_vulnerable]
    found += [Failing()] if "driver" in members else []
    found += [HostLimit(name, prop) for name in members for prop in PROPERTIES]
    return [*found, *(Asked(name) for name in members if _is_bound(question, name))]


def _is_bound(question: Question, component: str) -> bool:
    """Whether the user or the host fixes the versions of this component."""
    requirement = question.asked.get(component)
    if question.belongs_to_host_below(component):
        return True
    return bool(requirement.versions) if requirement else component in question.host.installed
