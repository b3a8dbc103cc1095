"""From a failed search to the smallest set of requirements and facts that cannot hold, and to what would.

Requirements, properties of the host, offers and pairs of components are constraints. Each is left out in turn; one
without which the search still fails has nothing to do with the failure. What remains is the cause: with
any one of them gone there is a stack.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gpustack.model.architectures import architecture
from gpustack.model.facts import COMPONENTS, PROPERTIES
from gpustack.model.host import Gpu
from gpustack.model.request import Method
from gpustack.solve.causes import Asked, Constraint, Flavour, HostLimit, Offered, Pair
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import Candidate, Question
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import by_kind
from gpustack.solve.words import title
from gpustack.versions import is_within, version

MOST_RELAXATIONS = 3
MOST_FOLDERS = 8


def smallest_cause(search: Search) -> frozenset[Constraint]:
    """The constraints of a failed search that cannot hold together; without any one of them there is a stack."""
    everything = _constraints(search)
    off: set[Constraint] = set()
    for one in everything:
        if search.leaving_out(frozenset(off | {one})).run() is None:
            off.add(one)
    return frozenset(everything) - off


def _constraints(search: Search) -> list[Constraint]:
    """Every constraint, those first that people would rather not have in the explanation."""
    question = search.question
    freed = frozenset[Constraint](Asked(name) for name in COMPONENTS)
    members = {**search.members(), **search.leaving_out(freed).members()}  # other versions may bring others in
    pairs = [Pair(a, b) for a in members for b in members if a != b]
    pairs.sort(key=lambda pair: (pair.subject in question.asked) + (pair.other in question.asked))
    found: list[Constraint] = [*pairs]
    if question.mode == "plan":
        found += [Offered(name) for name in members]
        found += [Flavour()] if "driver" in members else []
    found += [HostLimit(name, prop) for name in members for prop in PROPERTIES]
    return [*found, *(Asked(name) for name in members if _is_bound(question, name))]


def _is_bound(question: Question, component: str) -> bool:
    """Whether the user or the host fixes the versions of this component."""
    requirement = question.asked.get(component)
    return bool(requirement.versions) if requirement else component in question.host.installed


def relaxations(search: Search, constraints: frozenset[Constraint]) -> tuple[str, ...]:
    """Hints, each solved again and found to work: a requirement dropped, with the version that comes then."""
    question = search.question
    hints: list[str] = []
    for one in sorted(constraints, key=by_kind):
        match one:
            case Asked(component):
                solution = without(search, component)
                hints += [relaxed(question, component, solution)] if solution is not None else []
            case Flavour():
                hints += _other_flavour(question)
            case Offered(component):
                hints += [*_other_method(question, component), *_other_systems(question, component)]
            case HostLimit() | Pair():
                pass
    if any(isinstance(one, (Flavour, HostLimit)) for one in constraints):
        hints = [*_apart(question), *hints]
    return tuple(hints[:MOST_RELAXATIONS])


def without(search: Search, component: str) -> Chosen | None:
    """A stack with another version of ``component`` than was asked for, of the same line where one fits."""
    same_line = _of_the_same_line(search.question, component)
    return same_line or search.leaving_out(frozenset({Asked(component)})).run()


def _of_the_same_line(question: Question, component: str) -> Chosen | None:
    """A stack with another version of the major that was asked for: the nearest thing, where there is one."""
    candidates = question.candidates(component)
    if component not in question.asked or not candidates:
        return None
    line = parse_requirement(f"{component}=={version(candidates[0].version).numbers[0]}.*")
    others = tuple(one for one in question.request.requirements if one.component != component)
    request = msgspec.structs.replace(question.request, requirements=(*others, line))
    return Search(question.varied(request)).run()


def _apart(question: Question) -> list[str]:
    """That the GPUs of a mixed host can each have what was asked for, on hosts of their own."""
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
    return [f"one driver serves all GPUs of a host; on hosts of their own they can have it: {', '.join(found)}"]


def _other_flavour(question: Question) -> list[str]:
    """That the question has an answer when the flavour of the kernel modules is left to the GPUs."""
    if question.request.kernel_module == "auto":
        return []
    request = msgspec.structs.replace(question.request, kernel_module="auto")
    solution = Search(question.varied(request)).run()
    pick = solution.get("driver") if solution else None
    return [f"leave --kernel-module out: driver {pick.version} can be had then"] if pick is not None else []


def _other_method(question: Question, component: str) -> list[str]:
    """Another method for a component with which the whole question has an answer."""
    for method, pick in methods_that_work(question, component):
        return [f"--method {component}={method} offers {title(component)} {pick.version} here"]
    return []


def methods_that_work(question: Question, component: str) -> Iterator[tuple[Method, Candidate]]:
    """The other methods of a component with which the whole question has an answer, and what they bring."""
    for method in POSSIBLE[component]:
        if method == question.offers.method(component):
            continue
        methods = {**question.request.methods, component: method}
        solution = Search(question.varied(msgspec.structs.replace(question.request, methods=methods))).run()
        pick = solution.get(component) if solution else None
        if pick is not None:
            yield method, pick


def _other_systems(question: Question, component: str) -> list[str]:
    """The repository folders that do offer what was asked of a component."""
    view = question.view
    wanted = {
        candidate.version
        for candidate in question.candidates(component)
        if question.book.host_breach(component, candidate.version, view, advice=False) is None
    }
    served = set(found.folders if (found := architecture(question.host.arch)) is not None else ())
    folders = sorted(
        {
            row.repo
            for row in question.matrix.availability(component)
            if row.method == "network"
            and row.repo != question.host.os.repo
            and (not row.arch or not served or served & set(row.arch))
            and any(is_within(text, row.versions) for text in wanted)
        }
    )
    if component not in question.asked or not folders:
        return []
    more = f" and {len(folders) - MOST_FOLDERS} more" if len(folders) > MOST_FOLDERS else ""
    kin = (question.host.os.repo or "").rstrip("0123456789")
    near = sorted((name for name in folders if kin and name.rstrip("0123456789") == kin), reverse=True)
    named = ", ".join([*near, *(name for name in folders if name not in near)][:MOST_FOLDERS])
    return [f"NVIDIA's repositories for {named}{more} offer what you asked of {title(component)}"]


def relaxed(question: Question, component: str, solution: Chosen) -> str:
    """The hint to take the version of ``component`` that the solution has."""
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
        else " fits this host"
    )
    if component in question.asked:
        return f"try {component}=={pick.version}, which{beside}"
    return f"change the installed {component} to {pick.version}, which{beside}"
