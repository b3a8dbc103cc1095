"""Why ``plan`` has no answer, as errors: what is wrong, why, and what would work."""

from __future__ import annotations

from msgspec import Struct

from gpustack.errors import GpustackError, NoSolutionError, UnsupportedError
from gpustack.model.request import Requirement
from gpustack.solve.applies import outside
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
from gpustack.solve.offered import FILES, build_number, known_elsewhere, of_pythons
from gpustack.solve.question import DRIVER_OWNERS, KERNEL_SIDE, Question, driver_owner, is_meant
from gpustack.solve.relaxations import relaxations, relaxed, ways_around, without
from gpustack.solve.search import Search
from gpustack.solve.sentences import method_limit, sentences_of
from gpustack.solve.unknown import nearest_known
from gpustack.solve.words import contradiction_in_words, in_words, title
from gpustack.versions import version

_NOTHING = (
    "no method offers it for this system and request; ask for other versions, or plan for another system with --os"
)


def error_of(question: Question, failure: Failure) -> GpustackError:
    """The error for a failure; searches again for what would work."""
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
            return UnsupportedError(msg, code="method-unsupported", hint=_ways_around(question, component))
        case NoRepository(component):
            row = question.system_row
            why = row.no_repo if row and row.no_repo else "no NVIDIA repository is known for it"
            msg = f"{host.os.called} is not supported by method network: {why}"
            return UnsupportedError(msg, code="no-repository", where=component, hint=_ways_around(question, component))
        case NothingOffered(component):
            return _nothing_offered(question, component)
        case UnknownVersion(component):
            requirement = question.asked[component]
            return _unknown_version(question, requirement)
        case NoStack():
            return _no_stack(question, failure)


def _unknown_version(question: Question, requirement: Requirement) -> GpustackError:
    """No release for this host is in the range; releases for other systems are distinguished from unknown ones."""
    component, versions = requirement.component, requirement.versions
    if why := contradiction_in_words(component, versions):
        hint = "leave one of the two out"
        if component == "cuda":
            side = "`gpustack render A.json B.json --format modules --prefix DIR --out DIR` installs both, without root"
            hint += f"; or plan each with --method tar: {side}"
        return NoSolutionError(why, code="no-compatible-stack", where=str(requirement), hint=hint)
    where, near = str(requirement), nearest_known(question, component, versions)
    solution = without(Search(question), component)
    hint = "\n".join([near, *([relaxed(question, component, solution)] if solution is not None else [])])
    if elsewhere := known_elsewhere(question, component, versions):
        return NoSolutionError(elsewhere, code="release-elsewhere", where=where, hint=hint)
    what = build_number(question, component, versions)
    msg = f"{title(component)} {in_words(versions)} is not known{f': {what}' if what else ''}"
    return NoSolutionError(msg, code="unknown-version", where=where, hint=hint)


def _nothing_offered(question: Question, component: str) -> GpustackError:
    host = question.host
    method = question.offers.method(component)
    page = _page(question, component)
    if page is not None and page.by_hand:
        msg = f"{title(component)} is not planned: no facts about its packages are held"
        hint = f"install them from {page.page}; `gpustack verify {component}` checks what is installed"
        return UnsupportedError(msg, code="not-offered", hint=hint)
    unknown = outside(question, component)
    why = unknown.reason.partition(": ")[2] if unknown is not None else ""
    limit, _ = method_limit(question, component, method)
    msg = (
        f"no {FILES[method].format(title(component))} are known"
        f" for {host.os.called} on {host.arch or 'this architecture'}"
        f"{of_pythons(question, component) or limit or (f': {why}' if why else '')}"
    )
    return UnsupportedError(msg, code="not-offered", hint=_ways_around(question, component))


def _no_stack(question: Question, failure: NoStack) -> GpustackError:
    """Exit 4 if something required is not offered here at all, exit 3 if versions are incompatible."""
    lines = []
    for sentence in sentences_of(question, failure.constraints, failure.missing):
        source = f"  [{sentence.sources[0]}]" if sentence.sources else ""
        lines.append(f"  {sentence.text}.{source}")
    msg = "no compatible stack found\n" + "\n".join(lines)
    of_jetpack = [_of_jetpack(question)] if question.host.environment == "jetson" else []
    lacking = [one.component for one in failure.constraints if isinstance(one, Offered)]
    by_hand = [text for component in lacking for text in _files_behind_login(question, component)]
    hint = "\n".join([*by_hand, *relaxations(Search(question), failure.constraints), *of_jetpack])
    hint = hint or "no other version, method or part of the request has an answer here; try another system with --os"
    if any(isinstance(one, Offered) and not question.offers.has_any(one.component) for one in failure.constraints):
        return UnsupportedError(msg, code="no-compatible-stack", where=question.host.os.spelled, hint=hint)
    return NoSolutionError(msg, code="no-compatible-stack", hint=hint)


def _ways_around(question: Question, component: str) -> str:
    """Working alternatives, each solved again; for a system with its own channel, that channel."""
    own = question.system_row
    if own is not None and (own.is_read_only or (own.support == "own channel" and component in KERNEL_SIDE)):
        return "use the publisher's image or update channel: NVIDIA's installers do not support this system"
    found = [*_files_behind_login(question, component), *ways_around(question, component)]
    if question.host.environment == "jetson":
        return "\n".join([*found, _of_jetpack(question)])
    return "\n".join(found) or known_elsewhere(question, component, "") or _NOTHING


class DownloadPage(Struct, frozen=True, kw_only=True):
    """Where NVIDIA gives out the files of a component behind a login, or those that no plan installs (by_hand)."""

    component: str
    page: str
    by_hand: bool = False
    src: tuple[str, ...] = ()


def _files_behind_login(question: Question, component: str) -> list[str]:
    """The files of the component's method that NVIDIA gives out behind a login only, with the page; at most one."""
    requirement, method = question.asked.get(component), question.offers.method(component)
    if requirement is None or question.request.own_files(component):
        return []
    rows = [
        row
        for row in question.offers.rows.files(component, method)
        if row.login and is_meant(requirement.versions, row.version)
    ]
    if not rows:
        return []
    row = max(rows, key=lambda row: version(row.version))
    page = _page(question, component)
    where = row.url or (page.page if page is not None else "")
    return [f"download {row.file} from {where}, which asks for a login, and use it: --from {component}=FILE"]


def _page(question: Question, component: str) -> DownloadPage | None:
    rows = question.matrix.everywhere("download_pages", DownloadPage)
    return next((one for one in rows if one.component == component), None)


def _of_jetpack(question: Question) -> str:
    """What the JetPack of a Jetson contains, and how to install it."""
    release = question.host.l4t
    row = next((row for row in question.matrix.jetpacks if release in {row.l4t, *row.also}), None)
    if row is None:
        known = f"the content of Jetson Linux {release} is unknown" if release else "its Jetson Linux is unknown"
        return f"{known}: name its JetPack, --os jetpack6.2, or its Jetson Linux, --os l4t36.4.3"
    how = "apt-get install nvidia-jetpack" if row.meta else "NVIDIA SDK Manager installs them"
    brought = f"CUDA (nvcc {row.cuda}), cuDNN {row.cudnn} and TensorRT {row.tensorrt}"
    return f"JetPack {row.jetpack} has {brought} of its own: {how}"
