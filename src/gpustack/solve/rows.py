"""The rows of the facts for a host: packages, repositories, archives and wheels, by component and method."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from gpustack.matrix.index import Matrix
from gpustack.model.architectures import architecture
from gpustack.model.facts import MIRRORED, Archive, Availability, PackageSet
from gpustack.model.host import Host
from gpustack.model.offer import Wheel
from gpustack.model.places import Repository, System
from gpustack.model.request import Method, Target
from gpustack.solve.crossing import FOLDERS
from gpustack.versions import is_within, version_key

ARCHIVES = {"cuda": "cuda-redist", "cudnn": "cudnn-archives", "tensorrt": "tensorrt-archives", "nccl": "nccl"}
"""The subject with the downloadable archives of a component."""

INSTALLERS = {**ARCHIVES, "cuda": "cuda-installers", "driver": "driver-installers"}
"""The subject with a component's local repository installers."""

OWN_REPOSITORY = {"container-toolkit": "container-toolkit"}
"""Components with a vendor repository of their own, the same for every system of a family."""

NAMED_BY_GUIDES = "guide"
"""The basis of availability rows for folders that nobody has read."""

SITE = "site"
"""The basis of availability rows that this site's package manager has read."""

JETSON = "linux-aarch64"
"""The platform of archives for Jetsons up to Orin; later ones use those of servers."""

_EVERYWHERE = "linux-all"
"""The platform of archives for every Linux."""

_PARTS = {"cudnn": ("cudnn", ""), "tensorrt": ("tensorrt", "")}
"""The parts to install by tar if an archive table contains others too."""


WHEELS = "wheels"
_MORE_WHEELS = {"tensorrt": "tensorrt-archives"}
"""Subjects with wheels of a component besides its other archives."""

_WHOLE_WHEELS = {
    "tensorrt": (
        "tensorrt",
        "nvidia-tensorrt",
        *(f"tensorrt-{cuda}-{part}" for cuda in ("cu12", "cu13") for part in ("libs", "bindings")),
    )
}
"""Projects that contain the whole component, alone or together; others contain only a part."""


class _PointRelease(Struct, frozen=True, kw_only=True):
    """The kernel of a point release of Enterprise Linux."""

    base: str
    version: str
    kernel: str


class HostRows:
    """The rows for one host. Results are kept, so that all questions about the host share them."""

    def __init__(self, matrix: Matrix, host: Host) -> None:
        self._matrix = matrix
        self._host = host
        self._ranges: dict[tuple[str, Method], tuple[str, ...]] = {}
        self._sets: dict[tuple[str, Method], tuple[PackageSet, ...]] = {}
        self._archives: dict[tuple[str, Method], dict[str, list[Archive]]] = {}
        self._wheels: dict[str, dict[str, list[Wheel]]] = {}
        self.brought: dict[tuple[str, Method], bool] = {}
        """Whether a method offers anything of a component, as far as offers were asked for."""

    @cached_property
    def system(self) -> System | None:
        """The row of the host's system."""
        return self._matrix.system_of(self._host)

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """The architecture folders of repositories that serve this host; a Jetson's depend on its release."""
        if self._is_board:
            return self.system.arch if self.system is not None and self.system.id == "l4t" else ()
        found = architecture(self._host.arch)
        return found.folders if found is not None else ()

    @cached_property
    def platform(self) -> str:
        """The host's platform in the words of archives."""
        found = architecture(self._host.arch)
        if self._host.os.family == "windows":
            return f"windows-{found.windows if found is not None else self._host.arch}"
        if self._is_board and "sbsa" not in self.folders:
            return JETSON
        return f"linux-{found.archives}" if found is not None else ""

    @property
    def _is_board(self) -> bool:
        return self._host.environment == "jetson"

    @cached_property
    def glibc(self) -> str:
        """The host's C library, by default that of its system; "" if neither is known."""
        return self._host.glibc or next((row.glibc for row in self.systems if row.glibc), "")

    @cached_property
    def python(self) -> str:
        """The host's python3, by default that of its system; "" if neither is known."""
        return self._host.python or next((row.python for row in self.systems if row.python), "")

    @cached_property
    def systems(self) -> tuple[System, ...]:
        """The row of the host's system, with its point release's kernel, then that of the system it derives from."""
        base = self._matrix.system(self.system.base) if self.system is not None else None
        return tuple(row for row in (self._of_point_release(self.system), base) if row is not None)

    def _of_point_release(self, row: System | None) -> System | None:
        """The row with the kernel of the host's point release; a system with a kernel of its own keeps it."""
        release = self._host.os.version_id
        if row is None or release in {None, row.version}:
            return row
        for one in self._matrix.rows("systems", "point_releases", _PointRelease):
            is_same_line = row.kernel.partition("-")[0] == one.kernel.partition("-")[0]
            if one.version == release and one.base in {row.key, row.base} and is_same_line:
                return replace(row, kernel=one.kernel)
        return row

    def served(self, component: str, method: Method = "network") -> tuple[str, ...]:
        """The ranges of versions in this host's repository folders, or in its distribution's own archive."""
        if (component, method) not in self._ranges:
            self._ranges[component, method] = tuple(row.versions for row in self.contents(component, method))
        return self._ranges[component, method]

    def unread(self, component: str, version: str, method: Method) -> str:
        """The day up to which nobody had seen this version in a folder that only guides name; else ""."""
        rows = [row for row in self.contents(component, method) if is_within(version, row.versions)]
        if not rows or any(row.basis != NAMED_BY_GUIDES for row in rows):
            return ""
        return self._matrix.read_on(tuple(key for row in rows for key in row.src))

    def contents(self, component: str, method: Method) -> tuple[Availability, ...]:
        """The facts about the content of this host's folders; what this site has read of them replaces the others."""
        repo = OWN_REPOSITORY.get(component, self._host.os.repo)
        found = tuple(
            row
            for row in self._matrix.availability(MIRRORED.get(component, component))
            if row.method == method and row.repo == repo and _serves(row.arch, self.folders)
        )
        return tuple(row for row in found if row.basis == SITE) or found

    def repository(self, component: str) -> Repository | None:
        """The repository of a component: its own if the facts have one, else NVIDIA's folder."""
        words = (*self.folders, self._host.arch or "", "any")
        own = self._matrix.rows(component, "repositories", Repository)
        found = next((row for row in own if row.family == self._host.os.family and row.arch in words), None)
        if found is not None:
            return found
        rows = [row for row in self._matrix.repositories if row.repo == self._host.os.repo and row.arch in words]
        return min(rows, key=lambda row: words.index(row.arch), default=None)

    def cross_repository(self, target: Target) -> Repository | None:
        """The folder of cross packages for a target in the host's repository."""
        place = (self._host.os.repo, FOLDERS.get(target))
        return next((row for row in self._matrix.repositories if (row.repo, row.arch) == place), None)

    def packages(self, component: str, method: Method) -> tuple[PackageSet, ...]:
        """The package sets of a component by a method, of every role and version."""
        if (component, method) not in self._sets:
            families = {self._host.os.family, "any"}
            repo = OWN_REPOSITORY.get(component, self._host.os.repo)
            words = (*self.folders, self._host.arch or "")
            self._sets[component, method] = tuple(
                row
                for row in self._matrix.packages(component)
                if row.method == method
                and row.family in families
                and (not row.repos or repo in row.repos)
                and _serves(row.arch, words)
            )
        return self._sets[component, method]

    def archives(self, component: str, method: Method) -> dict[str, list[Archive]]:
        """The files of a component for the host's platform, by version; only those that can be downloaded."""
        if (component, method) not in self._archives:
            found: dict[str, list[Archive]] = {}
            for row in self.files(component, method):
                if row.url and (method != "runfile" or row.sha256 or row.md5):
                    found.setdefault(row.version, []).append(row)
            if (component, method) == ("cuda", "zip"):
                self._add_installer_programs(found)
            self._archives[component, method] = found
        return self._archives[component, method]

    def files(self, component: str, method: Method) -> Iterator[Archive]:
        """All files of a component for the host's platform, even those that cannot be downloaded or verified."""
        subject = (INSTALLERS if method in {"local", "runfile"} else ARCHIVES).get(component, "")
        return (row for row in self._matrix.archives(subject) if row.method == method and self._takes(component, row))

    def _takes(self, component: str, row: Archive) -> bool:
        """Whether a file is for this host, and of the component itself."""
        if row.method == "tar":
            parts = _PARTS.get(component)
            is_part = parts is None or row.part in parts
            return is_part and row.platform in {self.platform, _EVERYWHERE}
        if row.method == "local":
            return row.platform == self.platform and row.distro in {self._host.os.repo, ""}
        return row.platform == self.platform

    def _add_installer_programs(self, found: dict[str, list[Archive]]) -> None:
        """CUDA releases before the vendor's zip archives have only an installer, preferably one with a checksum."""
        programs = [
            row
            for row in self._matrix.archives(INSTALLERS["cuda"])
            if row.platform == self.platform and row.method == "exe" and row.url and row.version not in found
        ]
        for row in sorted(programs, key=lambda row: (not row.sha256, not row.md5)):
            found.setdefault(row.version, []).append(row)

    def toolkits_with_driver(self, driver: str) -> tuple[Archive, ...]:
        """CUDA's local repositories for this host that also contain a driver."""
        return self._toolkits_by_driver.get(driver, ())

    @cached_property
    def _toolkits_by_driver(self) -> dict[str, tuple[Archive, ...]]:
        found: dict[str, tuple[Archive, ...]] = {}
        for row in self._matrix.archives(INSTALLERS["cuda"]):
            is_here = row.distro == self._host.os.repo and row.platform == self.platform
            if is_here and row.method == "local" and row.url:
                found[row.driver] = (*found.get(row.driver, ()), row)
        return found

    def wheels(self, component: str) -> dict[str, list[Wheel]]:
        """The wheels of a component for the host's platform, by version; those for servers do not run on a Jetson."""
        if component not in self._wheels:
            found: dict[str, list[Wheel]] = {}
            for row in wheels(self._matrix, component, "" if self._is_board else self.platform):
                found.setdefault(row.version, []).append(row)
            self._wheels[component] = found
        return self._wheels[component]


def for_stack(rows: tuple[PackageSet, ...], version: str, *, cuda: str | None, flavour: str) -> tuple[PackageSet, ...]:
    """The package sets of a version for the CUDA and the flavour of a stack, the most specific first."""
    found = [
        row
        for row in rows
        if is_within(version, row.versions)
        and (not row.flavour or not flavour or row.flavour == flavour)
        and (not row.with_cuda or (cuda is not None and is_within(cuda, row.with_cuda)))
    ]
    return tuple(sorted(found, key=_exactness, reverse=True))


def build_for(rows: list[Archive], cuda: str | None) -> tuple[Archive, ...]:
    """The archives of the build most compatible with ``cuda``; all if there is one build."""
    builds = {row.cuda for row in rows if row.cuda}
    fitting = [build for build in builds if cuda is not None and is_within(cuda, f"=={build}.*")]
    if not fitting and cuda is not None:
        # Built with an earlier minor release of the same major: those run with this one too.
        major = cuda.partition(".")[0]
        fitting = [build for build in builds if build.partition(".")[0] == major and is_within(build, f"<={cuda}")]
    best = max(fitting, key=version_key, default=None)
    return tuple(row for row in rows if not row.cuda or row.cuda == best)


def _exactness(row: PackageSet) -> tuple[bool, bool, bool, bool]:
    return bool(row.repos), bool(row.with_cuda), bool(row.arch), bool(row.flavour)


def _serves(arch: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Whether a row for these architectures includes one of the words; no architecture, or "any", is all."""
    return not arch or "any" in arch or any(word in arch for word in words)


def wheels(matrix: Matrix, component: str, platform: str) -> tuple[Wheel, ...]:
    """The wheels that make up a component, each with its sha256; no project that only downloads others."""
    rows = matrix.rows(WHEELS, "archives", Wheel)
    if component in _MORE_WHEELS:
        rows += matrix.rows(_MORE_WHEELS[component], "archives", Wheel)
    whole = _WHOLE_WHEELS.get(component)
    return tuple(
        row
        for row in rows
        if row.component == component
        and row.method == "pip"
        and row.platform == platform
        and row.sha256
        and (whole is None or row.part in whole)
    )
