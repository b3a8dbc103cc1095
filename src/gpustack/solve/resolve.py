"""From host and request to a resolution, or to an error that says why there is none and what would do."""

from __future__ import annotations

from msgspec.structs import replace

from gpustack.errors import NoSolutionError, UnsupportedError
from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS
from gpustack.model.host import Host
from gpustack.model.request import METHODS, Method, Request
from gpustack.model.resolution import Pick, Resolution, State
from gpustack.solve.advice import advice
from gpustack.solve.conflict import Explanation, explain
from gpustack.solve.flavour import flavours
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import KERNEL_SIDE, Candidate, Question, driver_owner
from gpustack.solve.reasons import reasons
from gpustack.solve.rows import OWN_REPOSITORY
from gpustack.solve.search import Chosen, Search
from gpustack.solve.sentences import method_limit, rule_sentence
from gpustack.solve.unknown import limit, nearest_known
from gpustack.solve.words import in_words, title
from gpustack.versions import version

DRIVER_OWNERS = {
    "wsl": "In WSL the driver is that of Windows: install or update it on the Windows side",
    "container": "In a container the driver is that of the host below: install it there",
    "jetson": "On Jetson the driver is part of Jetson Linux (L4T): it comes with a JetPack release",
    "chroot": "In a chroot the driver is that of the running system",
    "windows": "On Windows the driver comes with NVIDIA's own installer or Windows Update",
}
"""Who owns the driver where gpustack never installs one."""


def resolve(matrix: Matrix, host: Host, request: Request) -> Resolution:
    """The newest stack that the policy allows.

    Raises UnsupportedError (exit 4) when this host or a method on it offers nothing of what is asked, and
    NoSolutionError (exit 3) with the smallest cause and working relaxations when nothing fits together.
    """
    question = Question(matrix, host, request, mode="plan")
    _demand_installable(question)
    _demand_known_versions(question)
    search = Search(question)
    solution = search.run()
    if solution is None:
        raise _refusal(question, explain(question))
    picks = tuple(
        _pick(question, search, solution, candidate)
        for name in COMPONENTS
        if (candidate := solution.get(name)) is not None
    )
    return Resolution(picks=picks, warnings=tuple(_warnings(question, solution)))


def _refusal(question: Question, explanation: Explanation) -> NoSolutionError | UnsupportedError:
    """Exit 4 where something needed is not offered at all here, exit 3 where versions do not go together."""
    missing = [
        group[1] for group in explanation.groups if group[0] == "offer" and not question.offers.has_any(group[1])
    ]
    error = no_solution(explanation)
    if not missing:
        return error
    return UnsupportedError(error.message, where=question.host.os.spelled, hint=error.hint)


def no_solution(explanation: Explanation) -> NoSolutionError:
    """The error that carries an explanation: sentences, sources, hints."""
    lines = []
    for sentence in explanation.sentences:
        source = f"  [{sentence.sources[0]}]" if sentence.sources else ""
        lines.append(f"  {sentence.text}.{source}")
    hint = (
        "\n".join(explanation.hints)
        or "ask for less, or for other versions: `gpustack matrix list` shows what is known"
    )
    return NoSolutionError("no stack meets this\n" + "\n".join(lines), hint=hint)


def _demand_installable(question: Question) -> None:
    """Refuse what this host can never get by the method asked, and say which method or release would do."""
    host = question.host
    row = question.system_row
    if row is not None and row.binaries == "none":
        msg = f"{row.name} is not supported by any method: {row.no_repo}"
        raise UnsupportedError(
            msg, where=host.os.spelled, hint="use a system that NVIDIA builds for, or a container of one"
        )
    for component in question.asked:
        if component in KERNEL_SIDE and driver_owner(host):
            msg = f"{title(component)} cannot be installed here. {DRIVER_OWNERS[driver_owner(host)]}"
            raise UnsupportedError(msg, where=host.os.spelled, hint="leave it out of the requirements")
        method = question.offers.method(component)
        if method not in POSSIBLE[component]:
            msg = f"there is no method {method} for {title(component)}"
            raise UnsupportedError(msg, hint=f"methods for it: {', '.join(POSSIBLE[component])}")
        if method == "network" and component not in OWN_REPOSITORY and not host.os.repo:
            raise _no_repository(question, component)
        if not question.offers.has_any(component):
            raise _no_offer(question, component)


def _no_repository(question: Question, component: str) -> UnsupportedError:
    host = question.host
    row = question.system_row
    why = row.no_repo if row and row.no_repo else "no NVIDIA repository is known for it"
    msg = f"{host.os.name or host.os.spelled} is not supported by method network: {why}"
    return UnsupportedError(msg, where=component, hint=_other_methods(question, component))


def _no_offer(question: Question, component: str) -> UnsupportedError:
    host = question.host
    method = question.offers.method(component)
    why = limit(question, component)
    msg = (
        f"no fact says that method {method} offers {title(component)}"
        f" for {host.os.name or host.os.spelled} on {host.arch or 'this architecture'}"
        f"{method_limit(question, component, method)[0] or (f': {why}' if why else '')}"
    )
    return UnsupportedError(msg, hint=_other_methods(question, component))


def _other_methods(question: Question, component: str) -> str:
    """The methods that do offer something of the component here."""
    own = question.system_row
    if own is not None and (own.is_read_only or (own.support == "own channel" and component in KERNEL_SIDE)):
        return "take the image, or the channel, of its publisher: NVIDIA's installers have no place there"
    found = []
    for method in METHODS:
        if method == question.offers.method(component) or method not in POSSIBLE[component]:
            continue
        methods = {**question.request.methods, component: method}
        request = replace(question.request, methods=methods)
        if method == "network" and not question.host.os.repo and component not in OWN_REPOSITORY:
            continue
        if question.varied(request).offers.has_any(component):
            found.append(f"--method {component}={method}")
    return f"what is known to work here: {', '.join(found)}" if found else "`gpustack matrix list` shows what is known"


def _demand_known_versions(question: Question) -> None:
    for component, requirement in question.asked.items():
        if not question.candidates(component):
            msg = f"no fact knows {title(component)} {in_words(requirement.versions)}"
            raise NoSolutionError(
                msg, where=str(requirement), hint=nearest_known(question, component, requirement.versions)
            )


def _pick(question: Question, search: Search, solution: Chosen, candidate: Candidate) -> Pick:
    component = candidate.component
    flavour = ""
    if component == "driver" and not question.view.is_windows:
        module = question.host.module
        loaded = module.flavour if candidate.is_installed and module is not None else None
        flavour = loaded or next(iter(flavours(question, candidate.version)), "")
    method = _method(question, candidate)
    cuda = solution.get("cuda")
    present = question.host.installed.get("cuda")
    offer = question.offers.for_stack(
        component,
        candidate.version,
        method,
        cuda=cuda.version if cuda is not None else present.version if present is not None else None,
        flavour=flavour,
    )
    return Pick(
        component=component,
        version=candidate.version,
        method=method,
        state=_state(question, candidate),
        flavour=flavour,  # type: ignore[arg-type]  # one of the two flavours or none
        offer=offer,
        reasons=reasons(question, search, solution, component),
    )


def _method(question: Question, candidate: Candidate) -> Method:
    """The method of the pick; what is kept came as it came, unless another method was asked for."""
    entry = question.host.installed.get(candidate.component)
    if candidate.is_installed and entry is not None and question.request.method(candidate.component) is None:
        present = next((method for method in METHODS if method == entry.method), None)
        if present is not None:
            return present
    return question.offers.method(candidate.component)


def _state(question: Question, candidate: Candidate) -> State:
    installed = question.host.installed.get(candidate.component)
    if installed is None or not installed.version:
        return "install"
    try:
        present = version(installed.version)
    except ValueError:
        return "install"
    if present == version(candidate.version):
        return "keep"
    return "upgrade" if present < version(candidate.version) else "downgrade"


def _warnings(question: Question, solution: Chosen) -> list[str]:
    picks = {name: candidate for name, candidate in solution.items() if candidate is not None}
    return [*advice(question, picks), *_driver_warnings(question, solution)]


def _driver_warnings(question: Question, solution: Chosen) -> list[str]:
    """Where something needs a driver and the plan brings none, say who does."""
    if solution.get("driver") is not None or not any(solution.values()) or question.request.target:
        return []
    host = question.host
    needs = [
        bound
        for name, candidate in solution.items()
        if candidate is not None
        for bound in question.book.applying(name, candidate.version).get("driver", ())
        if bound.pulls and question.view.holds(bound.rule.when, name)
    ]
    if not needs:
        return []
    sentence = rule_sentence(question, needs[0]).text
    if driver_owner(host):
        return [f"{DRIVER_OWNERS[driver_owner(host)]}. {sentence}"]
    what = "no GPU is named" if host.described else "no NVIDIA GPU is seen here"
    return [f"{what}, so no driver is planned (ask for one by name: driver). {sentence}"]
