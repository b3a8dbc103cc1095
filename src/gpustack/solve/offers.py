"""What can be installed here: which versions of a component a method offers on this host.

A version is offered by packages when a repository folder of the host's system and architecture carries it
(``availability``) *and* the facts know what the packages are called there (``packages``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.facts import MIRRORED, Archive, PackageSet
from gpustack.model.host import Host
from gpustack.model.request import Method, Request, Requirement
from gpustack.solve.crossing import serves_target
from gpustack.solve.wheels import Wheel, wheels
from gpustack.versions import is_within

POSSIBLE: dict[str, tuple[Method, ...]] = {
    "driver": ("network", "local", "runfile", "distro"),
    "fabric-manager": ("network", "local"),
    "cuda": ("network", "tar", "zip", "local", "runfile", "distro", "pip"),
    "cudnn": ("network", "tar", "zip", "local", "distro", "pip"),
    "nccl": ("network", "tar", "local", "pip"),
    "tensorrt": ("network", "tar", "zip", "local", "pip"),
    "tensorrt-rtx": ("pip",),
    "nv-codec-headers": ("source", "distro"),
    "ffmpeg": ("source", "distro"),
    "container-toolkit": ("network",),
    "triton": ("container",),
}
"""The methods that exist for each component, the preferred first: what can be checked by a sum before the rest."""

ARCH_FOLDERS = {"x86_64": ("x86_64",), "aarch64": ("sbsa",), "ppc64le": ("ppc64le",)}
"""Repository folders that serve an architecture (uname -m) on servers."""

PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa", "ppc64le": "linux-ppc64le"}

ARCHIVES = {"cuda": "cuda-redist", "cudnn": "cudnn-archives", "tensorrt": "tensorrt-archives", "nccl": "nccl"}
"""The subject that holds the downloadable archives of a component."""

JETSON = "linux-aarch64"
"""The platform of archives for Jetsons up to Orin; later ones take those of servers."""

INSTALLERS = {**ARCHIVES, "cuda": "cuda-installers", "driver": "driver-installers"}
"""The subject that holds a component's local repository installers."""

OWN_REPOSITORY = {"container-toolkit": "container-toolkit"}
"""Components that the vendor serves from a repository of their own, the same for every system of a family."""


class Offer(Struct, frozen=True, kw_only=True):
    """That a version can be had: for which CUDA versions ("" any), and with which kernel module flavours."""

    with_cuda: tuple[str, ...] = ()
    flavours: tuple[str, ...] = ()


class OfferBook:
    """The offers for one host and request."""

    def __init__(self, matrix: Matrix, host: Host, request: Request) -> None:
        self._matrix = matrix
        self._host = host
        self._request = request
        self._found: dict[tuple[str, str], Offer | None] = {}
        self._ranges: dict[str, tuple[str, ...]] = {}
        self._sets: dict[tuple[str, Method], tuple[PackageSet, ...]] = {}
        self._archives: dict[str, dict[str, list[Archive]]] = {}
        self._wheels: dict[str, dict[str, list[Wheel]]] = {}
        self._brought: dict[tuple[str, Method], bool] = {}

    def method(self, component: str) -> Method:
        """The method asked for a component, else the one for all where it exists, else the first that offers it."""
        asked = self._request.methods.get(component)
        if asked is not None:
            return asked
        general = self._request.methods.get("")
        possible = POSSIBLE[component]
        is_asked = any(requirement.component == component for requirement in self._request.requirements)
        if general is not None and general in possible and (is_asked or self._brings(component, general)):
            return general
        return next((method for method in possible if self._brings(component, method)), possible[0])

    def _brings(self, component: str, method: Method) -> bool:
        """Whether a method offers anything of a component that is only needed by others."""
        if (component, method) not in self._brought:
            asked = Request(requirements=(Requirement(component=component),), methods={component: method})
            book = OfferBook(self._matrix, self._host, asked)
            self._brought[component, method] = any(
                book.offer(component, row.version) is not None for row in self._matrix.releases(component)
            )
        return self._brought[component, method]

    def offer(self, component: str, version: str) -> Offer | None:
        """The offer of this version by the component's method here, None when there is none."""
        key = (component, version)
        if key not in self._found:
            offer = self._look_up(component, version)
            self._found[key] = self._for_target(component, version, offer) if offer and self._request.target else offer
        return self._found[key]

    def _for_target(self, component: str, version: str, offer: Offer) -> Offer | None:
        """The offer of the host's own packages where there are those of the target too."""
        target, repo = self._request.target, self._host.os.repo or ""
        is_served, with_cuda = serves_target(self._matrix, component, version, target=target, repo=repo)
        return Offer(with_cuda=with_cuda or offer.with_cuda, flavours=offer.flavours) if is_served else None

    def _look_up(self, component: str, version: str) -> Offer | None:
        method = self.method(component)
        if method not in POSSIBLE[component]:
            return None
        match method:
            case "network":
                return self._from_network(component, version)
            case "tar" | "zip":
                return self._from_archives(component, version)
            case "local":
                return self._from_local(component, version)
            case "runfile":
                return self._from_runfiles(component, version)
            case "pip":
                return self._from_wheels(component, version)
            case "source" | "container":
                return Offer() if self._host.os.family != "windows" or self._builds_on_windows(method) else None
            case _:
                return self._from_packages(version, self.package_sets(component))

    def _builds_on_windows(self, method: Method) -> bool:
        """Sources are built on Windows by Visual C++ for x86-64; containers run elsewhere."""
        return method == "source" and self._host.arch == "x86_64"

    def _from_network(self, component: str, version: str) -> Offer | None:
        if not self._is_served(component, version):
            return None
        return self._from_packages(version, self.package_sets(component))

    def _is_served(self, component: str, version: str) -> bool:
        return any(is_within(version, text) for text in self.served(component))

    def _from_local(self, component: str, version: str) -> Offer | None:
        """By local installers: the file for this system has to be known, and what its packages are called."""
        if component == "driver":
            return self._driver_from_local(version)
        files = self._archives_by_version(component).get(version, ())
        if not any(row.distro == self._host.os.repo and row.url for row in files):
            return None
        return self._from_packages(version, self.package_sets(component))

    def _driver_from_local(self, version: str) -> Offer | None:
        """The toolkit's local repositories hold a driver too: it goes with the toolkit from the same file."""
        holding = [
            row.version
            for row in self._matrix.archives(INSTALLERS["cuda"])
            if row.driver == version
            and row.method == "local"
            and row.url
            and row.distro == self._host.os.repo
            and row.platform == self._platform()
        ]
        offer = self._from_packages(version, self.package_sets("driver", by="network")) if holding else None
        with_cuda = tuple(f"=={text}" for text in dict.fromkeys(holding))
        return None if offer is None else Offer(with_cuda=with_cuda, flavours=offer.flavours)

    def _from_runfiles(self, component: str, version: str) -> Offer | None:
        files = self._archives_by_version(component).get(version, ())
        return Offer() if any(row.url and (row.sha256 or row.md5) for row in files) else None

    def _from_wheels(self, component: str, version: str) -> Offer | None:
        """By wheels that the host's C library loads; a release is all its wheels together."""
        if component not in self._wheels:
            platform = "" if self._host.environment == "jetson" else self._platform()
            by_version: dict[str, list[Wheel]] = {}
            for row in wheels(self._matrix, component, platform):
                by_version.setdefault(row.version, []).append(row)
            self._wheels[component] = by_version
        rows = self._wheels[component].get(version, [])
        fitting = [row for row in rows if row.loads_with(self._host.glibc)]
        parts, loading = {row.part for row in rows}, {row.part for row in fitting}
        if not fitting or (component == "cuda" and parts != loading):
            return None
        return Offer(with_cuda=tuple(dict.fromkeys(_cuda_range(row.cuda) for row in fitting if row.cuda)))

    def served(self, component: str) -> tuple[str, ...]:
        """The ranges of versions that this host's repository folders carry."""
        if component not in self._ranges:
            subject = MIRRORED.get(component, component)
            repo = OWN_REPOSITORY.get(component, self._host.os.repo)
            folders = self._folders
            self._ranges[component] = tuple(
                row.versions
                for row in self._matrix.availability(subject)
                if row.method == "network" and row.repo == repo and _serves(row.arch, folders)
            )
        return self._ranges[component]

    def package_sets(self, component: str, *, by: Method | None = None) -> tuple[PackageSet, ...]:
        """The package sets that bring the component itself, by its own method or ``by`` another, on this host."""
        method = by or self.method(component)
        if (component, method) not in self._sets:
            families = {self._host.os.family, "any"}
            repo = OWN_REPOSITORY.get(component, self._host.os.repo)
            folders = self._folders
            self._sets[component, method] = tuple(
                row
                for row in self._matrix.packages(component)
                if row.method == method
                and row.role == "main"
                and row.family in families
                and (not row.repos or repo in row.repos)
                and _serves(row.arch, (*folders, self._host.arch or ""))
            )
        return self._sets[component, method]

    def _from_packages(self, version: str, sets: Iterable[PackageSet]) -> Offer | None:
        found = [row for row in sets if is_within(version, row.versions)]
        if not found:
            return None
        with_cuda = () if any(not row.with_cuda for row in found) else tuple(row.with_cuda for row in found)
        flavours = tuple(dict.fromkeys(row.flavour for row in found if row.flavour))
        return Offer(with_cuda=with_cuda, flavours=flavours)

    def _from_archives(self, component: str, version: str) -> Offer | None:
        rows = self._archives_by_version(component).get(version)
        if not rows:
            return None
        if component == "cuda" and self._platform() == JETSON and not self._is_served(component, version):
            return None  # which CUDA a release of Jetson Linux runs is known by what its folder carries only
        built_for = dict.fromkeys(_cuda_range(row.cuda) for row in rows if row.cuda and component != "cuda")
        return Offer(with_cuda=tuple(built_for))

    def _archives_by_version(self, component: str) -> dict[str, list[Archive]]:
        if component not in self._archives:
            platform = self._platform()
            by_version: dict[str, list[Archive]] = {}
            subject = (INSTALLERS if self.method(component) in {"local", "runfile"} else ARCHIVES).get(component, "")
            for row in self._matrix.archives(subject):
                if row.platform == platform and row.method == self.method(component):
                    by_version.setdefault(row.version, []).append(row)
            if (component, self.method(component)) == ("cuda", "zip"):
                # Releases before the vendor's zips have its installer program only.
                for row in self._matrix.archives(INSTALLERS[component]):
                    if row.platform == platform and row.method == "exe" and row.url:
                        by_version.setdefault(row.version, []).append(row)
            self._archives[component] = by_version
        return self._archives[component]

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        """The architecture folders that serve this host; a Jetson's depend on its release."""
        if self._host.environment == "jetson":
            named = self._host.os.system
            return next((row.arch for row in self._matrix.systems if f"{row.id}{row.version}" == named), ())
        return ARCH_FOLDERS.get(self._host.arch or "", ())

    def _platform(self) -> str:
        if self._host.os.family == "windows":
            return f"windows-{'arm64' if self._host.arch == 'aarch64' else self._host.arch}"
        if self._host.environment == "jetson" and "sbsa" not in self._folders:
            return JETSON
        return PLATFORMS.get(self._host.arch or "", "")


def _serves(arch: tuple[str, ...], folders: tuple[str, ...]) -> bool:
    """Whether a row for these architectures speaks of one of the folders; no architecture, or "any", is all."""
    return not arch or "any" in arch or any(folder in arch for folder in folders)


def _cuda_range(cuda: str) -> str:
    """The CUDA versions that an archive built "for 12" or "for 11.8" serves."""
    return f"=={cuda}.*"
