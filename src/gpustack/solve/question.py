"""One question to the solver: the host, the request, and the candidates of each component."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS, Release
from gpustack.model.host import Host
from gpustack.model.places import System
from gpustack.model.request import Request, Requirement
from gpustack.solve.hostview import HostView
from gpustack.solve.offers import OfferBook
from gpustack.solve.rows import HostRows
from gpustack.solve.rulebook import RuleBook, rule_book
from gpustack.versions import is_within, version, version_range

NEVER_INSTALLED = {"container", "wsl", "jetson", "chroot"}
"""Environments with a driver of somebody else: the host, Windows, the board's own system."""


def driver_owner(host: Host) -> str:
    """The other owner of the driver: a key of DRIVER_OWNERS, or "" if it is ours."""
    if any(gpu.is_vgpu for gpu in host.gpus):
        return "vgpu"
    if host.os.family == "windows":
        return "windows"
    return host.environment if host.environment in NEVER_INSTALLED else ""


DRIVER_OWNERS = {
    "wsl": "In WSL the driver is that of Windows: install or update it on the Windows side",
    "container": "In a container the driver is that of the host below: install it there",
    "jetson": "On Jetson the driver is part of Jetson Linux (L4T): it comes with a JetPack release",
    "chroot": "In a chroot the driver is that of the running system",
    "vgpu": (
        "A vGPU needs the guest driver of NVIDIA's vGPU software, of the branch of its host: it comes from the"
        " licensing portal or from the cloud"
    ),
    "windows": "On Windows the driver comes with NVIDIA's own installer or Windows Update",
}
"""The owners of the driver where gpustack never installs one."""

KERNEL_SIDE = ("driver", "fabric-manager")
"""Components that belong to the kernel module."""

Mode = Literal["plan", "check"]
"""In ``plan`` everything must be installable on the host; in ``check`` not."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A possible version of a component. ``is_known`` is False for one that no fact covers, or that was only seen."""

    component: str
    version: str
    release: Release | None = None
    is_installed: bool = False
    is_known: bool = True


class Question:
    """A question to the solver. In ``mode`` plan everything must be installable here; in check not."""

    def __init__(
        self, matrix: Matrix, host: Host, request: Request, *, mode: Mode, rows: HostRows | None = None
    ) -> None:
        self.matrix = matrix
        self.host = host
        self.request = request
        self.mode = mode
        self.book: RuleBook = rule_book(matrix)
        self.offers = OfferBook(matrix, host, request, rows)
        self._candidates: dict[tuple[str, bool], tuple[Candidate, ...]] = {}

    @cached_property
    def view(self) -> HostView:
        compiles = self._compiles if self.mode == "check" else None
        named = frozenset(self.request.named or ())
        return HostView(self.host, self._method, self.offers.rows.systems, compiles, named)

    def has_to_compile(self, component: str) -> bool:
        """Whether a compiler that may not compile here is no plain answer: what is asked of check, all of a plan."""
        return self.mode == "plan" or component in self.asked

    def _compiles(self, component: str, version_text: str) -> bool:
        """Whether a toolkit is asked for that has to compile here; a system's own package is made for its C library."""
        return component in self.asked and not (version_text and self.offers.is_own(component, version_text))

    def _method(self, component: str) -> str:
        """The method of a component; "network" for what a plan has no component for."""
        return self.offers.method(component) if component in COMPONENTS else "network"

    @cached_property
    def asked(self) -> dict[str, Requirement]:
        return {requirement.component: requirement for requirement in self.request.requirements}

    @property
    def system_row(self) -> System | None:
        """The matrix's row for the host's system."""
        return self.offers.rows.system

    def varied(self, request: Request, *, host: Host | None = None) -> Question:
        """The same question for another request, or another host; knowledge of the host is kept."""
        rows = self.offers.rows if host is None else None
        return Question(self.matrix, host or self.host, request, mode=self.mode, rows=rows)

    def may_install(self, component: str) -> bool:
        """Whether gpustack may install this component on the host (no driver in WSL, nor for a target)."""
        return component not in KERNEL_SIDE or not (driver_owner(self.host) or self.request.target)

    def belongs_to_host_below(self, component: str) -> bool:
        """Whether this is the driver of the host below a container, which fulfills the request and stays."""
        installed = self._installed(component) if component == "driver" else None
        return (
            installed is not None
            and self.mode == "plan"
            and driver_owner(self.host) == "container"
            and not self.request.upgrades_to_newest(component)
            and self._accepts(self.asked.get(component), installed.version)
        )

    def wants(self, component: str) -> bool:
        """Whether a component that others require is added although nobody requested it.

        In ``check`` everything required takes part. In ``plan`` a driver is added only if there is a GPU.
        """
        if component in self.asked:
            return True
        if self.mode == "check":
            return bool(self.candidates(component))
        if component in self.host.installed and self.host.installed[component].version:
            return True
        return self.may_install(component) and (component not in KERNEL_SIDE or bool(self.host.gpus))

    def candidates(self, component: str, *, is_free: bool = False) -> tuple[Candidate, ...]:
        """The candidates of a component, preferred first. ``is_free`` ignores the requirement of the user."""
        key = (component, is_free)
        if key not in self._candidates:
            self._candidates[key] = self._list_candidates(component, is_free=is_free)
        return self._candidates[key]

    def _list_candidates(self, component: str, *, is_free: bool) -> tuple[Candidate, ...]:
        requirement = None if is_free else self.asked.get(component)
        installed = self._installed(component)
        is_given = component not in self.asked and not is_free
        if installed and is_given and (self.mode == "check" or not self.may_install(component)):
            return (installed,)
        if not is_free and self.belongs_to_host_below(component):
            return (installed,) if installed else ()
        releases = self._released(component, requirement)
        if component in KERNEL_SIDE and self.request.policy != "newest":
            releases.sort(key=lambda row: support_rank(row.kind))
        found = [
            Candidate(component=component, version=row.version, release=row, is_known=row.is_judged) for row in releases
        ]
        if installed and self._accepts(requirement, installed.version):
            return self._with_installed(found, installed)
        return tuple(found) or self._unknown(requirement)

    def _with_installed(self, found: list[Candidate], installed: Candidate) -> tuple[Candidate, ...]:
        """Add the installed version, first unless an upgrade was requested."""
        rest = [candidate for candidate in found if version(candidate.version) != version(installed.version)]
        if self.request.policy == "minimal" or not self.request.upgrades_to_newest(installed.component):
            return (installed, *rest)
        place = next(
            (i for i, other in enumerate(found) if version(other.version) <= version(installed.version)), len(rest)
        )
        return (*rest[:place], installed, *rest[place:])

    def _installed(self, component: str) -> Candidate | None:
        entry = self.host.installed.get(component)
        if entry is None or not entry.version:
            return None
        try:
            wanted = version(entry.version)
        except ValueError:
            return None
        releases = self.matrix.releases(component)
        release = next((row for row in releases if row.version == entry.version), None) or next(
            (row for row in releases if version(row.version) == wanted), None
        )
        return Candidate(
            component=component,
            version=entry.version,
            release=release,
            is_installed=True,
            is_known=release is not None and release.is_judged,
        )

    def _released(self, component: str, requirement: Requirement | None) -> list[Release]:
        """The releases for this system in the requested range, newest first; unfinished ones only if named."""
        rows = self.released_here(component)
        usable = _FINISHED | {JETSON_ONLY}
        text = requirement.versions if requirement else ""
        if not text:
            return [row for row in rows if row.status in usable]
        found = [row for row in rows if is_within(row.version, text)]
        if not found:
            found = [row for row in rows if _is_line(text, row.version)]
        finished = [row for row in found if row.status in usable]
        is_exact = exact_version(text) is not None
        return finished or [row for row in found if is_exact or row.is_judged]

    def released_here(self, component: str) -> list[Release]:
        """The releases for this host's system and architecture; for a Jetson only those of Jetsons."""
        system, arch = self.view.system(component), self.host.arch
        is_board = self.host.environment == "jetson"
        return [
            row
            for row in self.matrix.releases(component)
            if row.is_for(system, arch) and (is_board or row.status not in OF_JETSON)
        ]

    def _unknown(self, requirement: Requirement | None) -> tuple[Candidate, ...]:
        """In ``check``, and of a file, an unknown version takes part too: rules over ranges may bind it."""
        takes_part = requirement and (self.mode == "check" or self.request.own_files(requirement.component))
        pinned = exact_version(requirement.versions) if requirement and takes_part else None
        if requirement is None or pinned is None:
            return ()
        return (Candidate(component=requirement.component, version=pinned, is_known=False),)

    @staticmethod
    def _accepts(requirement: Requirement | None, text: str) -> bool:
        return requirement is None or not requirement.versions or is_meant(requirement.versions, text)


_FINISHED = frozenset({"released", ""})
JETSON_ONLY = "jetson-only"
"""The status of releases that came with JetPack and have no build for servers."""
OF_JETSON = frozenset({JETSON_ONLY, "jetson-named"})
"""Those, and further numbers by which a JetPack calls its CUDA: they are judged, and no plan picks them."""


def support_rank(kind: str) -> int:
    """Production, long-term and legacy branches first, then new-feature ones, then the rest (beta, developer)."""
    if kind.startswith(("PB", "LTS", "production", "legacy")):
        return 0
    return 1 if kind.startswith("NFB") else 2


def exact_version(range_text: str) -> str | None:
    """The version that ``==X`` pins, None for any other range."""
    alternatives = version_range(range_text).alternatives
    if len(alternatives) == 1 and len(alternatives[0]) == 1:
        clause = alternatives[0][0]
        if clause.operator == "==" and not clause.wildcard:
            return clause.version.text
    return None


def is_meant(range_text: str, candidate: str) -> bool:
    """Whether a range means this version: it contains it, or names it by fewer numbers."""
    return is_within(candidate, range_text) or _is_line(range_text, candidate)


def _is_line(range_text: str, candidate: str) -> bool:
    """Whether ``==8.9.5`` can mean this version: people name a line by fewer numbers than its releases have."""
    pinned = exact_version(range_text)
    if pinned is None:
        return False
    numbers = version(pinned).numbers
    return len(version(candidate).numbers) > len(numbers) and version(candidate).has_prefix(numbers)
