"""Why ``plan`` has no answer, as errors: what is wrong, why, and what would work."""

from __future__ import annotations

from msgspec.structs import replace

from gpustack.errors import GpustackError, NoSolutionError, UnsupportedError
from gpustack.solve.causes import (
    DriverOfAnother,
    Failure,
    NoRepository,
    NoStack,
    NoSuchMethod,
    NothingOffered,
    Offered,
    SystemUnsupported,
    UnknownVersion,
)
from gpustack.solve.conflict import methods_that_work, relaxations
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import DRIVER_OWNERS, KERNEL_SIDE, Question, driver_owner
from gpustack.solve.search import Search
from gpustack.solve.sentences import method_limit, sentences_of
from gpustack.solve.unknown import limit, nearest_known
from gpustack.solve.words import in_words, title

_LISTED = "`gpustack matrix list` shows what is known"


def error_of(question: Question, failure: Failure) -> GpustackError:
    """The error that tells a failure; searches again for what would work."""
    host = question.host
    match failure:
        case SystemUnsupported():
            row = question.system_row
            name, why = (row.name, row.no_repo) if row is not None else (host.os.spelled, "")
            msg = f"{name} is not supported by any method: {why}"
            hint = "use a system that NVIDIA builds for, or a container of one"
            return UnsupportedError(msg, code="system-unsupported", where=host.os.spelled, hint=hint)
        case DriverOfAnother(component):
            msg = f"{title(component)} cannot be installed here. {DRIVER_OWNERS[driver_owner(host)]}"
            return UnsupportedError(
                msg, code="driver-of-another", where=host.os.spelled, hint="leave it out of the requirements"
            )
        case NoSuchMethod(component):
            msg = f"there is no method {question.offers.method(component)} for {title(component)}"
            return UnsupportedError(
                msg, code="method-unsupported", hint=f"methods for it: {', '.join(POSSIBLE[component])}"
            )
        case NoRepository(component):
            row = question.system_row
            why = row.no_repo if row and row.no_repo else "no NVIDIA repository is known for it"
            msg = f"{host.os.name or host.os.spelled} is not supported by method network: {why}"
            return UnsupportedError(
                msg, code="no-repository", where=component, hint=_other_methods(question, component)
            )
        case NothingOffered(component):
            return _nothing_offered(question, component)
        case UnknownVersion(component):
            requirement = question.asked[component]
            msg = f"no fact knows {title(component)} {in_words(requirement.versions)}"
            near = nearest_known(question, component, requirement.versions)
            return NoSolutionError(msg, code="unknown-version", where=str(requirement), hint=near)
        case NoStack():
            return _no_stack(question, failure)


def _nothing_offered(question: Question, component: str) -> GpustackError:
    host = question.host
    method = question.offers.method(component)
    why = limit(question, component)
    msg = (
        f"no {method} packages of {title(component)} are known"
        f" for {host.os.name or host.os.spelled} on {host.arch or 'this architecture'}"
        f"{method_limit(question, component, method)[0] or (f': {why}' if why else '')}"
    )
    return UnsupportedError(msg, code="not-offered", hint=_other_methods(question, component))


def _no_stack(question: Question, failure: NoStack) -> GpustackError:
    """Exit 4 where something needed is not offered at all here, exit 3 where versions do not go together."""
    lines = []
    for sentence in sentences_of(question, failure.constraints):
        source = f"  [{sentence.sources[0]}]" if sentence.sources else ""
        lines.append(f"  {sentence.text}.{source}")
    msg = "no compatible stack found\n" + "\n".join(lines)
    hint = "\n".join(relaxations(Search(question), failure.constraints))
    hint = hint or f"ask for less, or for other versions: {_LISTED}"
    if any(isinstance(one, Offered) and not question.offers.has_any(one.component) for one in failure.constraints):
        return UnsupportedError(msg, code="no-compatible-stack", where=question.host.os.spelled, hint=hint)
    return NoSolutionError(msg, code="no-compatible-stack", hint=hint)


def _other_methods(question: Question, component: str) -> str:
    """The methods by which the whole question has an answer, else those that offer the component at all."""
    own = question.system_row
    if own is not None and (own.is_read_only or (own.support == "own channel" and component in KERNEL_SIDE)):
        return "take the image, or the channel, of its publisher: NVIDIA's installers have no place there"
    found = [f"--method {component}={method}" for method, _ in methods_that_work(question, component)]
    if found:
        return f"try {', '.join(found)}"
    offering = [
        method
        for method in POSSIBLE[component]
        if method != question.offers.method(component)
        and question.varied(
            replace(question.request, methods={**question.request.methods, component: method})
        ).offers.has_any(component)
    ]
    return f"methods that offer {title(component)} here: {', '.join(offering)}" if offering else _LISTED
