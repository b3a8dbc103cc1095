"""What a method offers instead of a missing version: the nearest ones, or builds for other versions of CUDA."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.solve.causes import Missing
from gpustack.solve.own_files import built_for
from gpustack.solve.question import OF_JETSON, Question, exact_version, is_meant
from gpustack.solve.words import in_words, join_and, title
from gpustack.versions import is_within, version, version_key

FILES = {
    "network": "packages of {} in NVIDIA's repository",
    "tar": "archives of {}",
    "zip": "zip files of {}",
    "local": "local repository packages of {}",
    "runfile": "runfiles of {}",
    "distro": "packages of {} from the distribution",
    "pip": "wheels of {}",
    "source": "sources of {}",
    "container": "images of {}",
}
"""What each method installs, in the words of users."""


_OPEN_TAG = "-py<x>"
"""How a table ends an image whose tag is not known whole."""


class _Server(Struct, frozen=True, kw_only=True):
    """A release of Triton, with the image that its notes name."""

    version: str
    image: str = ""


class _Toolkit(Struct, frozen=True, kw_only=True):
    """A release of CUDA, and the build numbers of its compiler and its runtime library."""

    version: str
    status: str = "released"
    nvcc: str = ""
    cudart: str = ""


class _Dispute(Struct, frozen=True, kw_only=True):
    """What two sources say differently of the packages for some releases of CUDA in a repository folder."""

    repo: str
    cuda: str
    a: str
    b: str
    src: tuple[str, ...] = ()


def offered_versions(question: Question, component: str) -> list[str]:
    """The versions that the component's method offers here, for any CUDA, oldest first."""
    offers, rows = question.offers, question.matrix.releases(component)
    found = {row.version for row in rows if offers.offer(component, row.version) is not None}
    return sorted(found, key=version_key)


def offer_text(question: Question, missing: Missing) -> str:
    """What a method offers instead of a version that would complete a stack."""
    component, method = missing.component, question.offers.method(missing.component)
    if files := question.request.own_files(component):
        return built_for(files)
    place = place_of(question)
    offered = offered_versions(question, component)
    if not offered:
        return f"No {FILES[method].format(title(component))} are known for {place}{_unusable(question, missing)}"
    if missing.version in offered:
        return _builds(question, missing.component, missing.version)
    what = _describe_requested(question, component, offered)
    if other := of_pythons(question, component):
        return f"Method {method} offers no {what} for {place}{other}"
    rest = f"{_nearest(question, missing, offered)}{_unusable(question, missing)}"
    return f"Method {method} offers no {what} for {place}; {rest}"


def of_pythons(question: Question, component: str) -> str:
    """Which versions of Python the wheels support, if this system's is not among them."""
    if question.offers.method(component) != "pip":
        return ""
    known, here = question.offers.rows.wheels(component), question.offers.rows.python
    rows = [row for one in question.candidates(component) for row in known.get(one.version, ()) if row.interpreter]
    if not rows or any(row.runs_on(here) for row in rows):
        return ""
    names = sorted({row.interpreter for row in rows}, key=version_key)
    return f" with Python {here}: they are for Python {', '.join(names)} (--python plans for another interpreter)"


def place_of(question: Question) -> str:
    """The host's system and architecture: "Debian 12 on aarch64"."""
    host = question.host
    name = host.os.called
    return f"{name} on {host.arch}" if host.arch not in {None, "x86_64"} else name


def _describe_requested(question: Question, component: str, offered: list[str]) -> str:
    """What was requested, if none of it is offered; else that the offered versions are incompatible."""
    requirement = question.asked.get(component)
    if requirement is None or not requirement.versions:
        return f"compatible {title(component)}"
    asked = {candidate.version for candidate in question.candidates(component)}
    what = f"{title(component)} {in_words(requirement.versions)}"
    return what if asked.isdisjoint(offered) else f"compatible {what}"


def _nearest(question: Question, missing: Missing, offered: list[str]) -> str:
    wanted = version(missing.version)
    below = [text for text in offered if version(text) < wanted]
    above = [text for text in offered if version(text) > wanted]
    if below and above:
        return f"the nearest are {below[-1]} and {above[0]}"
    if above:
        return f"its oldest is {above[0]}"
    return f"its newest is {below[-1]}{_as_far_as_read(question, missing.component)}"


def _as_far_as_read(question: Question, component: str) -> str:
    """The day on which the host's repository folder was read; newer releases may have been added since."""
    if question.offers.method(component) != "network":
        return ""
    keys = tuple(key for row in question.offers.rows.contents(component, "network") for key in row.src)
    read = question.matrix.read_on(keys)
    return f", as far as read on {read}" if read else ""


def _builds(question: Question, component: str, text: str) -> str:
    """For which CUDA versions an offered version has builds."""
    method = question.offers.method(component)
    offer = question.offers.offer(component, text)
    builds = sorted(set(offer.with_cuda if offer is not None else ()), key=_lowest)
    files = FILES[method].format(f"{title(component)} {text}")
    return (
        f"{files[0].upper()}{files[1:]} for {place_of(question)} are known for CUDA"
        f" {join_and([_build(one) for one in builds])} only{_dispute(question, component)}"
    )


def _dispute(question: Question, component: str) -> str:
    """What sources say differently of the packages for this CUDA in the host's folder, with their addresses."""
    if question.offers.method(component) != "network":
        return ""
    for row in question.matrix.rows(component, "folder_disputes", _Dispute):
        cudas = question.candidates("cuda") if row.repo == question.host.os.repo else ()
        if cudas and all(is_within(one.version, row.cuda) for one in cudas):
            return f"; sources differ: {row.a}; {row.b} ({', '.join(question.matrix.addresses(row.src))})"
    return ""


def _lowest(range_text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", range_text))


def _build(range_text: str) -> str:
    """The CUDA of a build in the form of its file name: 11.0, 12.x, 12.0.1."""
    return re.sub(r"^(\d+\.\d+)\.x$", r"\1", in_words(range_text))


def _unusable(question: Question, missing: Missing) -> str:
    """The file of a version that cannot be downloaded or verified, if the facts know its name."""
    component, method, rows = missing.component, question.offers.method(missing.component), question.offers.rows
    asked = {missing.version, *(candidate.version for candidate in question.candidates(component))}
    for row in rows.files(component, method):
        if row.version in asked and not row.url:
            return f"; {row.file} is known, but NVIDIA offers it behind a login only" if row.login else ""
        if row.version in asked and method == "runfile" and not (row.sha256 or row.md5):
            return f"; {row.file} is known, but no checksum of it is published"
    if method == "container":
        servers = question.matrix.rows("triton", "releases", _Server)
        named = [row.image for row in servers if row.version in asked and row.image.endswith(_OPEN_TAG)]
        return f"; NVIDIA names its image {named[0].removesuffix(_OPEN_TAG)}, but not its whole tag" if named else ""
    return ""


def known_elsewhere(question: Question, component: str, range_text: str) -> str:
    """The systems or architectures with known releases in a range that has none for this host, else ""."""
    rows = [row for row in question.matrix.releases(component) if is_meant(range_text, row.version)]
    system, arch = question.view.system(component), question.host.arch
    if not rows or any(row in question.released_here(component) for row in rows):
        return ""
    newest = next((row for row in rows if row.status not in OF_JETSON), rows[0])
    name = f"{title(component)} {newest.version}"
    if newest.os and system not in newest.os:
        known = [text.capitalize() for text in newest.os]
        return f"{name} is known for {join_and(known)}, not for {system.capitalize()}"
    if system == "windows" and arch != "x86_64" and arch in newest.arch:
        return f"{name} for Windows is known for x86_64, not for {arch}"
    if newest.arch and arch not in {None, *newest.arch}:
        return f"{name} is known for {join_and(list(newest.arch))}, not for {arch}"
    return f"{name} is known for Jetson only"


def build_number(question: Question, component: str, range_text: str) -> str:
    """Which releases of CUDA have a part of this very build number, and how to ask for one; "" if none."""
    number = exact_version(range_text)
    if component != "cuda" or number is None:
        return ""
    rows = [row for row in question.matrix.rows("cuda", "releases", _Toolkit) if row.status not in OF_JETSON]
    compilers = [row.version for row in rows if row.nvcc == number]
    found = sorted(compilers or [row.version for row in rows if row.cudart == number], key=version_key)
    if not found:
        return ""
    part = "nvcc" if compilers else "the CUDA runtime"
    return f"it is the build of {part} in CUDA {join_and(found)} (write cuda=={found[0]})"
