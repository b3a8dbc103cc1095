"""From a failed search to the smallest set of requirements and facts that cannot hold, in sentences.

Requirements, properties of the host, offers and pairs of components are groups of constraints. Each group is left out
in turn; one without which the search still fails has nothing to do with the failure. What remains is the cause:
with any one of them gone there is a stack.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gpustack.model.architectures import architecture
from gpustack.model.facts import COMPONENTS, PROPERTIES
from gpustack.model.host import Gpu
from gpustack.model.resolution import Conflict
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import Group, Question
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import Sentence, between, group_sentences
from gpustack.solve.words import title
from gpustack.versions import is_within, version

MOST_RELAXATIONS = 3
MOST_FOLDERS = 8


class Explanation(Struct, frozen=True, kw_only=True):
    """A conflict with its sentences in reading order, and the relaxations that were solved again and do work."""

    groups: frozenset[Group]
    conflict: Conflict
    sentences: tuple[Sentence, ...]
    hints: tuple[str, ...]


def explain(question: Question) -> Explanation:
    """Why the question has no answer. Only to be asked when the search failed."""
    groups = smallest_cause(question)
    sentences = [sentence for group in _in_reading_order(groups) for sentence in group_sentences(question, group)]
    sources = tuple(dict.fromkeys(address for sentence in sentences for address in sentence.sources))
    conflict = Conflict(
        between=between(question, groups),
        reason=". ".join(sentence.text for sentence in sentences) + ".",
        sources=sources,
    )
    return Explanation(
        groups=groups, conflict=conflict, sentences=tuple(sentences), hints=relaxations(question, groups)
    )


def smallest_cause(question: Question) -> frozenset[Group]:
    """The groups of constraints that cannot hold together; without any one of them there is a stack."""
    everything = _groups(question)
    off: set[Group] = set()
    for group in everything:
        if Search(question, frozenset(off | {group})).run() is None:
            off.add(group)
    return frozenset(everything) - off


def _groups(question: Question) -> list[Group]:
    """Every group, those first that people would rather not have in the explanation."""
    freed = frozenset(("asked", name) for name in COMPONENTS)
    members = {**Search(question).members(), **Search(question, freed).members()}  # other versions may bring others in
    asked: list[Group] = [("asked", name) for name in members if _is_bound(question, name)]
    pairs: list[Group] = [("pair", a, b) for a in members for b in members if a != b]
    pairs.sort(key=lambda pair: (pair[1] in question.asked) + (pair[2] in question.asked))
    host: list[Group] = [("host", name, prop) for name in members for prop in PROPERTIES]
    offers: list[Group] = [("offer", name) for name in members] if question.mode == "plan" else []
    flavour: list[Group] = [("flavour", "driver")] if question.mode == "plan" and "driver" in members else []
    return [*pairs, *offers, *flavour, *host, *asked]


def _is_bound(question: Question, component: str) -> bool:
    """Whether the user or the host fixes the versions of this component."""
    requirement = question.asked.get(component)
    return bool(requirement.versions) if requirement else component in question.host.installed


def _in_reading_order(groups: frozenset[Group]) -> list[Group]:
    """What was asked, then the host's limits, then what follows from them."""
    place = {"asked": 0, "host": 1, "flavour": 2, "offer": 3, "pair": 4}
    return sorted(groups, key=lambda group: (place[group[0]], [_rank(name) for name in group[1:]]))


def _rank(name: str) -> int:
    return COMPONENTS.index(name) if name in COMPONENTS else len(COMPONENTS)


def relaxations(question: Question, groups: frozenset[Group]) -> tuple[str, ...]:
    """Hints, each solved again and found to work: a requirement dropped, with the version that comes then."""
    hints = []
    for group in sorted(groups):
        if group[0] == "asked":
            solution = without(question, group[1])
            if solution is not None:
                hints.append(relaxed(question, group[1], solution))
        elif group[0] == "flavour":
            hints += _other_flavour(question)
        elif group[0] == "offer":
            hints += [*_other_methods(question, group[1]), *_other_systems(question, group[1])]
    if any(group[0] in {"flavour", "host"} for group in groups):
        hints = [*_apart(question), *hints]
    return tuple(hints[:MOST_RELAXATIONS])


def without(question: Question, component: str) -> Chosen | None:
    """A stack with another version of ``component`` than was asked for, of the same line where one fits."""
    return _of_the_same_line(question, component) or Search(question, frozenset({("asked", component)})).run()


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


def _other_methods(question: Question, component: str) -> list[str]:
    """Another method for a component with which the whole question has an answer."""
    for method in POSSIBLE[component]:
        if method == question.offers.method(component):
            continue
        request = msgspec.structs.replace(question.request, methods={**question.request.methods, component: method})
        solution = Search(question.varied(request)).run()
        pick = solution.get(component) if solution else None
        if pick is not None:
            return [f"--method {component}={method} offers {title(component)} {pick.version} here"]
    return []


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
        return f"leave {component} out" + (f": then {others} can be had" if others else "")
    beside = f" goes with {others}" if others else " can be had here" if question.mode == "plan" else " fits this host"
    if component in question.asked:
        return f"ask for {component}=={pick.version}: it{beside}"
    return f"change the installed {component} to {pick.version}: it{beside}"
