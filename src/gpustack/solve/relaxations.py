"""Hints after a failed search: what to change in the request. Each is solved again and found to work."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from gpustack.model.host import Gpu
from gpustack.model.request import Method, Requirement
from gpustack.solve.causes import Asked, Constraint, Denied, Failing, Flavour, HostLimit, Offered, Pair
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import Candidate, Question
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import by_kind
from gpustack.solve.words import title
from gpustack.versions import version, version_range

MOST_RELAXATIONS = 3


def relaxations(search: Search, constraints: frozenset[Constraint]) -> tuple[str, ...]:
    """Hints, each solved again and found to work: a requirement dropped, with the resulting version."""
    question = search.question
    hints: list[str] = []
    for one in sorted(constraints, key=by_kind):
        match one:
            case Asked(component):
                solution = without(search, component)
                hints += [relaxed(question, component, solution)] if solution is not None else []
            case Flavour() | Failing():
                hints += _other_flavour(question)
            case Offered(component):
                hints += _other_method(question, component)
            case HostLimit() | Pair() | Denied():
                pass
    if any(isinstance(one, (Flavour, HostLimit)) for one in constraints):
        hints = [*_apart(question), *hints]
    if not hints and question.mode == "plan":
        hints = [*_methods_together(question), *(hint for name in question.asked for hint in _left_out(question, name))]
    return tuple(hints[:MOST_RELAXATIONS])


def without(search: Search, component: str) -> Chosen | None:
    """A stack with another version of ``component`` than requested, as near as possible.

    Of the same line (major) if there is one whose compatibility is known, else of the nearest line, the later one
    first. A driver may be of any branch: the policy knows better than the number.
    """
    question = search.question
    for line in _lines(question, component):
        found = _of_line(question, component, line)
        if found is not None and not is_doubted(search, found[component]):
            return found
    return search.leaving_out(frozenset({Asked(component)})).run()


def is_doubted(search: Search, pick: Candidate | None) -> bool:
    """Whether it is unknown if a version runs on this host."""
    return pick is not None and bool(search.doubts.of(pick))


def _lines(question: Question, component: str) -> tuple[int, ...]:
    """The requested major, and the others of a component that is not the driver by their distance from it."""
    requirement = question.asked.get(component)
    if requirement is None:
        return ()
    candidates = question.candidates(component)
    clauses = [clause for clauses in version_range(requirement.versions).alternatives for clause in clauses]
    if not candidates and not clauses:
        return ()
    asked = (version(candidates[0].version) if candidates else clauses[0].version).numbers[0]
    known = {version(row.version).numbers[0] for row in question.released_here(component)} - {asked}
    return (asked, *(() if component == "driver" else sorted(known, key=lambda one: (abs(one - asked), -one))))


def _of_line(question: Question, component: str, line: int) -> Chosen | None:
    """A stack with a version of this major, if there is one."""
    others = tuple(one for one in question.request.requirements if one.component != component)
    requirements = (*others, parse_requirement(f"{component}=={line}.*"))
    return Search(question.varied(msgspec.structs.replace(question.request, requirements=requirements))).run()


def _apart(question: Question) -> list[str]:
    """The hint to use a separate host for each kind of GPU of a mixed host, if that solves the request."""
    kinds: dict[str, tuple[Gpu, ...]] = {}
    for gpu in question.host.gpus:
        kinds[gpu.name or gpu.pci_id or ""] = (*kinds.get(gpu.name or gpu.pci_id or "", ()), gpu)
    found = []
    for name, gpus in kinds.items():
        host = msgspec.structs.replace(question.host, gpus=gpus)
        solution = Search(question.varied(question.request, host=host)).run()
        pick = solution.get("driver") if solution else None
        if solution is None:
            return []
        found.append(f"{name} with driver {pick.version}" if pick is not None else name)
    if len(found) < 2:
        return []
    return [f"all GPUs of a host share one driver; on separate hosts: {', '.join(found)}"]


def _other_flavour(question: Question) -> list[str]:
    """The hint to let the GPUs decide the flavour of the kernel modules, if that solves the request."""
    if question.request.kernel_module == "auto":
        return []
    request = msgspec.structs.replace(question.request, kernel_module="auto")
    solution = Search(question.varied(request)).run()
    pick = solution.get("driver") if solution else None
    return [f"leave --kernel-module out: driver {pick.version} is available then"] if pick is not None else []


def _other_method(question: Question, component: str) -> list[str]:
    """Another method for a component that solves the whole request."""
    return [_offers(method, pick) for method, pick in islice(methods_that_work(question, component), 1)]


def _offers(method: Method, pick: Candidate) -> str:
    """Whether a method has a version of a component here."""
    return f"--method {pick.component}={method} offers {title(pick.component)} {pick.version} here"


def ways_around(question: Question, component: str) -> list[str]:
    """Hints if a method has nothing of a component here: other methods, other versions, the rest without it."""
    found = [_offers(method, pick) for method, pick in methods_that_work(question, component)]
    found = found or _methods_together(question)
    if not found:
        free = tuple(
            Requirement(component=one.component) if one.component == component else one
            for one in question.request.requirements
        )
        varied = question.varied(msgspec.structs.replace(question.request, requirements=free))
        found = [
            f"{_offers(method, pick)}, if any version will do" for method, pick in methods_that_work(varied, component)
        ]
    return found[:MOST_RELAXATIONS] or _left_out(question, component)


def _methods_together(question: Question) -> list[str]:
    """Methods for all requested components that solve the request, if changing one of them is not enough."""
    methods: dict[str, Method] = {}
    for component in question.asked:
        found = next((method for method in POSSIBLE[component] if _offers_asked(question, component, method)), None)
        if found is None:
            return []
        methods[component] = question.offers.method(component)
        if not _offers_asked(question, component, methods[component]):
            methods[component] = found
    for more in ({}, *({"driver": method} for method in POSSIBLE["driver"] if "driver" not in methods)):
        request = msgspec.structs.replace(question.request, methods={**methods, **more})
        solution = Search(question.varied(request)).run()
        if solution is not None:
            named = " ".join(f"--method {name}={method}" for name, method in request.methods.items())
            picks = [
                f"{title(name)} {pick.version}"
                for name, pick in solution.items()
                if pick is not None and name in request.methods
            ]
            return [f"{named} {'together offer' if len(picks) > 1 else 'offers'} {', '.join(picks)} here"]
    return []


def _offers_asked(question: Question, component: str, method: Method) -> bool:
    """Whether a method offers any requested version, whatever the rest of the stack."""
    methods = {**question.request.methods, component: method}
    offers = question.varied(msgspec.structs.replace(question.request, methods=methods)).offers
    return any(offers.offer(component, one.version) is not None for one in question.candidates(component))


def _left_out(question: Question, component: str) -> list[str]:
    """The hint to drop the component, if that solves the rest of the request."""
    rest = tuple(one for one in question.request.requirements if one.component != component)
    if not rest:
        return []
    solution = Search(question.varied(msgspec.structs.replace(question.request, requirements=rest))).run()
    if solution is None or solution.get(component) is not None:
        return []
    return [relaxed(question, component, {**solution, component: None})]


def methods_that_work(question: Question, component: str) -> Iterator[tuple[Method, Candidate]]:
    """The other methods of a component that solve the whole request, and their versions."""
    for method in POSSIBLE[component]:
        if method == question.offers.method(component):
            continue
        methods = {**question.request.methods, component: method}
        solution = Search(question.varied(msgspec.structs.replace(question.request, methods=methods))).run()
        pick = solution.get(component) if solution else None
        if pick is not None:
            yield method, pick


def relaxed(question: Question, component: str, solution: Chosen) -> str:
    """The hint to use the version of ``component`` that the solution has."""
    others = ", ".join(
        f"{name} {candidate.version}"
        for name, candidate in solution.items()
        if candidate is not None and name != component and name in question.asked
    )
    pick = solution.get(component)
    if pick is None:
        return f"leave {component} out" + (f": then {others} is available" if others else "")
    beside = (
        f" is compatible with {others}"
        if others
        else " is available here"
        if question.mode == "plan"
        else " is compatible with this host"
    )
    if component in question.asked:
        return f"try {component}=={pick.version}, which{beside}"
    return f"change the installed {component} to {pick.version}, which{beside}"
