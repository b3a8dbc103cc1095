"""From host and request to a resolution, or to an error that says why not and what would work."""

from __future__ import annotations

from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS
from gpustack.model.host import Host
from gpustack.model.offer import Offer
from gpustack.model.request import METHODS, Method, Request
from gpustack.model.resolution import Pick, Resolution, State, Unknown
from gpustack.solve.advice import advice
from gpustack.solve.causes import (
    DriverOfAnother,
    Failure,
    NoRepository,
    NoStack,
    NoSuchMethod,
    NothingOffered,
    SystemUnsupported,
    UnknownVersion,
)
from gpustack.solve.flavour import flavours
from gpustack.solve.kernels import next_kernels
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import DRIVER_OWNERS, KERNEL_SIDE, Candidate, Question, driver_owner
from gpustack.solve.reasons import reasons
from gpustack.solve.rows import OWN_REPOSITORY
from gpustack.solve.search import Chosen, Search
from gpustack.solve.security import exposures
from gpustack.solve.sentences import rule_sentence
from gpustack.versions import version


def resolve(matrix: Matrix, host: Host, request: Request) -> Resolution:
    """The newest stack that the policy allows.

    Raises UnsupportedError (exit 4) if this host or a method on it offers nothing of the request, and NoSolutionError
    (exit 3) with the smallest cause and working relaxations if no versions are compatible.
    """
    if request.frameworks:
        from gpustack.solve.frameworks.choose import resolve_with  # noqa: PLC0415 (few ask for frameworks)

        return resolve_with(matrix, host, request, _resolve)
    return _resolve(matrix, host, request)


def _resolve(matrix: Matrix, host: Host, request: Request) -> Resolution:
    """The stack without frameworks."""
    question = Question(matrix, host, request, mode="plan")
    _demand_possible(question)
    search = Search(question)
    solution = search.best()
    if solution is None:
        raise _error(question, _no_stack(search))
    picks = tuple(
        _pick(question, search, solution, candidate)
        for name in COMPONENTS
        if (candidate := solution.get(name)) is not None
    )
    unknown = search.doubts.of_stack(solution)
    warnings = tuple(_warnings(question, solution, unknown))
    return Resolution(picks=picks, warnings=warnings, unknown=unknown)


def demand_judged(resolution: Resolution) -> None:
    """Refuse a stack with unknown compatibility. Raises NoSolutionError (exit 3)."""
    if resolution.unknown:
        from gpustack.errors import NoSolutionError  # noqa: PLC0415 (most stacks can be judged)

        told = "".join(f"\n  {one.reason}" for one in resolution.unknown)
        options = ", ".join(dict.fromkeys(one.option for one in resolution.unknown if one.option))
        hint = f"give {options}" if options else "ask for other versions, or leave --strict out"
        msg = f"no stack can be judged completely{told}"
        raise NoSolutionError(msg, code="not-judged", hint=hint)


def _error(question: Question, failure: Failure) -> GpustackError:
    from gpustack.solve.failures import error_of  # noqa: PLC0415 (most questions have an answer)

    return error_of(question, failure)


def _no_stack(search: Search) -> NoStack:
    from gpustack.solve.conflict import missing_versions, smallest_cause  # noqa: PLC0415 (most questions have an answer)

    cause = smallest_cause(search)
    return NoStack(cause, missing_versions(search, cause))


def _demand_possible(question: Question) -> None:
    """Refuse what this host can never get by the requested method, and name a method or release that works."""
    host = question.host
    row = question.system_row
    if row is not None and row.binaries == "none":
        raise _error(question, SystemUnsupported())
    for component in question.asked:
        if question.belongs_to_host_below(component):
            continue
        if component in KERNEL_SIDE and driver_owner(host):
            raise _error(question, DriverOfAnother(component))
        method = question.offers.method(component)
        if method not in POSSIBLE[component]:
            raise _error(question, NoSuchMethod(component))
        if method == "network" and component not in OWN_REPOSITORY and not host.os.repo:
            raise _error(question, NoRepository(component))
        if not question.offers.has_any(component):
            raise _error(question, NothingOffered(component))
    for component in question.asked:
        if not question.candidates(component):
            raise _error(question, UnknownVersion(component))


def _pick(question: Question, search: Search, solution: Chosen, candidate: Candidate) -> Pick:
    component = candidate.component
    flavour = ""
    if component == "driver" and not question.view.is_windows:
        module = question.host.module
        loaded = module.flavour if candidate.is_installed and module is not None else None
        flavour = loaded or next(iter(flavours(question, candidate.version)), "")
    method, state = _method(question, candidate), _state(question, candidate)
    cuda = solution.get("cuda")
    present = question.host.installed.get("cuda")
    # Kept components need no rows; a target's packages and samples are installed whatever the host has.
    offer = Offer()
    if state != "keep" or question.request.target:
        chosen = cuda.version if cuda is not None else present.version if present is not None else None
        offer = question.offers.for_stack(component, candidate.version, method, cuda=chosen, flavour=flavour)
    return Pick(
        component=component,
        version=candidate.version,
        method=method,
        state=state,
        flavour=flavour,  # type: ignore[arg-type]  # one of the two flavours or none
        offer=offer,
        reasons=reasons(question, search, solution, candidate),
    )


def _method(question: Question, candidate: Candidate) -> Method:
    """The method of the pick; a kept component keeps its own, unless another was requested."""
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


def _warnings(question: Question, solution: Chosen, unknown: tuple[Unknown, ...]) -> list[str]:
    picks = {name: candidate for name, candidate in solution.items() if candidate is not None}
    driver = picks.get("driver")
    coming = next_kernels(question, driver.version) if driver is not None and not question.request.target else []
    told = [one.reason for one in unknown]
    exposed = [one.reason for one in exposures(question, picks)]
    return [*advice(question, picks), *told, *exposed, *coming, *_driver_warnings(question, solution)]


def _driver_warnings(question: Question, solution: Chosen) -> list[str]:
    """If something requires a driver that the plan does not install, say who does."""
    if solution.get("driver") is not None or not any(solution.values()) or question.request.target:
        return []
    host = question.host
    needs = [
        bound
        for name, candidate in solution.items()
        if candidate is not None
        for bound in question.book.applying(name, candidate.version).get("driver", ())
        if bound.pulls and question.view.holds(bound.rule, name)
    ]
    if not needs:
        return []
    sentence = rule_sentence(question, needs[0]).text
    if driver_owner(host):
        return [f"{DRIVER_OWNERS[driver_owner(host)]}. {sentence}"]
    what = "no GPU is named" if host.described else "no NVIDIA GPU was found here"
    return [f"{what}, so no driver is planned (request one by name: driver). {sentence}"]
