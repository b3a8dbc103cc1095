"""What can be installed here: which versions of a component a method offers on this host.

Packages offer a version if a repository folder for the host's system and architecture carries it
(``availability``) *and* the facts know the names of its packages there (``packages``).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gpustack.matrix.index import Matrix
from gpustack.model.facts import Archive, PackageSet
from gpustack.model.host import Host
from gpustack.model.offer import Offer, ServerImage, Wheel
from gpustack.model.request import Method, Request, Requirement
from gpustack.solve.crossing import cross_sets, serves_target
from gpustack.solve.own_files import METHOD_OF, offer_of
from gpustack.solve.rows import JETSON, HostRows, build_for, for_stack
from gpustack.solve.rulebook import rule_book
from gpustack.versions import is_within

POSSIBLE: dict[str, tuple[Method, ...]] = {
    "driver": ("network", "local", "runfile", "distro"),
    "fabric-manager": ("network", "local"),
    "imex": ("network",),
    "cuda": ("network", "tar", "zip", "local", "runfile", "distro", "pip"),
    "cuda-compat": ("network",),
    "cudnn": ("network", "tar", "zip", "local", "distro", "pip"),
    "nccl": ("network", "tar", "local", "pip"),
    "tensorrt": ("network", "tar", "zip", "local", "pip"),
    "tensorrt-rtx": ("pip",),
    "nv-codec-headers": ("source", "distro"),
    "ffmpeg": ("source", "distro", "pip"),
    "container-toolkit": ("network",),
    "dcgm": ("network",),
    "gdrcopy": ("local",),
    "gds": ("network",),
    "triton": ("container",),
}
"""The methods of each component, preferred first: those with checksums before the rest."""


class OfferBook:
    """The offers for one host and request. ``rows`` are those of the host, if they were found before."""

    def __init__(self, matrix: Matrix, host: Host, request: Request, rows: HostRows | None = None) -> None:
        self.rows = rows or HostRows(matrix, host)
        self._matrix = matrix
        self._host = host
        self._request = request
        self._found: dict[tuple[str, str], Offer | None] = {}
        self._main: dict[tuple[str, Method], tuple[PackageSet, ...]] = {}

    def method(self, component: str) -> Method:
        """The method requested for a component, else the general one if it exists, else the first that offers it."""
        asked = self._request.methods.get(component)
        if asked is not None:
            return asked
        files = self._request.own_files(component)
        if files:
            return METHOD_OF[files[0].form]
        general = self._request.methods.get("")
        possible = POSSIBLE[component]
        is_asked = any(requirement.component == component for requirement in self._request.requirements)
        if general is not None and general in possible and (is_asked or self._brings(component, general)):
            return general
        return next((method for method in possible if self._brings(component, method)), possible[0])

    def _brings(self, component: str, method: Method) -> bool:
        """Whether a method offers any version of a component that only others require."""
        if (component, method) not in self.rows.brought:
            asked = Request(requirements=(Requirement(component=component),), methods={component: method})
            book = OfferBook(self._matrix, self._host, asked, self.rows)
            self.rows.brought[component, method] = book.has_any(component)
        return self.rows.brought[component, method]

    def has_any(self, component: str) -> bool:
        """Whether any version of a component is offered here."""
        files = self._request.own_files(component)
        versions = [file.version for file in files] or [row.version for row in self._matrix.releases(component)]
        return any(self.offer(component, version) is not None for version in versions)

    def offer(self, component: str, version: str) -> Offer | None:
        """The offer of this version by the component's method here, without rows; None without any."""
        key = (component, version)
        if key not in self._found:
            offer = self._look_up(component, version)
            self._found[key] = self._for_target(component, version, offer) if offer and self._request.target else offer
        return self._found[key]

    def _for_target(self, component: str, version: str, offer: Offer) -> Offer | None:
        """The offer of the host's own packages if those for the target exist too."""
        target, repo = self._request.target, self._host.os.repo or ""
        is_served, with_cuda = serves_target(self._matrix, component, version, target=target, repo=repo)
        return Offer(with_cuda=with_cuda or offer.with_cuda, flavours=offer.flavours) if is_served else None

    def _look_up(self, component: str, version: str) -> Offer | None:
        method = self.method(component)
        if files := self._request.own_files(component):
            return self._from_own_files(component) if version == files[0].version else None
        if method not in POSSIBLE[component] or self._is_unproven_on_board(component, version):
            return None
        match method:
            case "network" | "distro":
                return self._from_repository(component, version, method)
            case "tar" | "zip":
                return self._from_archives(component, version)
            case "local":
                return self._from_local(component, version)
            case "runfile":
                return Offer() if self.rows.archives(component, method).get(version) else None
            case "pip":
                return self._from_wheels(component, version)
            case "source" | "container":
                is_there = self._builds_here() if method == "source" else bool(self._images(version))
                return Offer() if is_there else None

    def _is_unproven_on_board(self, component: str, version: str) -> bool:
        book = rule_book(self._matrix)
        return self._host.environment == "jetson" and not book.is_proven_on_boards(component, version)

    def _from_own_files(self, component: str) -> Offer | None:
        """By the files that the user has downloaded; None where the facts name none of their packages."""
        offer = self._own_files(component)
        is_whole = METHOD_OF[offer.files[0].form] != "local" or offer.package_set("main") is not None
        return Offer(with_cuda=offer.with_cuda, flavours=offer.flavours) if is_whole else None

    def _own_files(self, component: str) -> Offer:
        sets = self.rows.packages(component, "network")
        return offer_of(self._request.own_files(component), self.rows.platform, sets)

    def _builds_here(self) -> bool:
        """Whether sources can be built here: on Windows, Visual C++ builds for x86-64."""
        return self._host.os.family != "windows" or self._host.arch == "x86_64"

    def _images(self, version: str) -> tuple[ServerImage, ...]:
        """Triton's images: for Linux servers; on Jetson Triton is a separate build, and Windows has none."""
        if self._host.os.family == "windows" or self.rows.platform == JETSON:
            return ()
        rows = self._matrix.rows("triton", "images", ServerImage)
        return tuple(row for row in rows if row.release == version)

    def _from_repository(self, component: str, version: str, method: Method) -> Offer | None:
        if not self._is_served(component, version, method):
            return None
        return _from_packages(version, self._main_sets(component, method))

    def is_own(self, component: str, version: str) -> bool:
        """Whether the system's own packages contain this version."""
        return "distro" in POSSIBLE[component] and self._from_repository(component, version, "distro") is not None

    def _is_served(self, component: str, version: str, method: Method = "network") -> bool:
        return any(is_within(version, text) for text in self.rows.served(component, method))

    def _main_sets(self, component: str, method: Method) -> tuple[PackageSet, ...]:
        """The package sets of the component itself."""
        if (component, method) not in self._main:
            rows = self.rows.packages(component, method)
            self._main[component, method] = tuple(row for row in rows if row.role == "main")
        return self._main[component, method]

    def _from_local(self, component: str, version: str) -> Offer | None:
        """Local installers: the file for this system must be known; its packages are called as in the repository."""
        if component == "driver":
            return self._driver_from_local(version)
        files = self.rows.archives(component, "local").get(version, ())
        if not any(row.distro == self._host.os.repo and row.url for row in files):
            return None
        return _from_packages(version, self._main_sets(component, "network"))

    def _driver_from_local(self, version: str) -> Offer | None:
        """The toolkit's local repositories contain a driver too, installed with the toolkit from the same file."""
        holding = self.rows.toolkits_with_driver(version)
        offer = _from_packages(version, self._main_sets("driver", "network")) if holding else None
        with_cuda = tuple(f"=={text}" for text in dict.fromkeys(row.version for row in holding))
        return None if offer is None else Offer(with_cuda=with_cuda, flavours=offer.flavours)

    def _from_wheels(self, component: str, version: str) -> Offer | None:
        fitting = self._wheels(component, version, None)
        if not fitting:
            return None
        return Offer(with_cuda=tuple(dict.fromkeys(_cuda_range(row.cuda) for row in fitting if row.cuda)))

    def _wheels(self, component: str, version: str, cuda: str | None) -> tuple[Wheel, ...]:
        """The wheels of a version for every Python, if the host's C library and Python support some of each part.

        A toolkit needs all its wheels. The checksums for all Pythons are listed: the environment may use another one
        than the system's.
        """
        rows = self.rows.wheels(component).get(version, [])
        if component != "cuda" and cuda is not None:
            rows = [row for row in rows if not row.cuda or is_within(cuda, _cuda_range(row.cuda))]
        running = [row for row in rows if row.runs_on(self.rows.python)]
        if {row.part for row in running} != {row.part for row in rows}:
            return ()
        fitting = tuple(row for row in rows if row.loads_with(self.rows.glibc))
        is_whole = {row.part for row in rows} == {row.part for row in fitting}
        return fitting if is_whole or component != "cuda" else ()

    def _from_archives(self, component: str, version: str) -> Offer | None:
        platform = self.rows.platform
        files = self.rows.archives(component, self.method(component)).get(version, ())
        rows = [row for row in files if row.platform == platform]
        if not rows:
            return None
        if component == "cuda" and platform == JETSON and not self._is_served(component, version):
            return None  # the CUDA of a release of Jetson Linux is known only from the content of its folder
        built_for = dict.fromkeys(_cuda_range(row.cuda) for row in rows if row.cuda and component != "cuda")
        return Offer(with_cuda=tuple(built_for))

    def for_stack(self, component: str, version: str, method: Method, *, cuda: str | None, flavour: str = "") -> Offer:
        """The offer of a version in a finished stack: its rows for the stack's CUDA and flavour."""
        offer = self._with_rows(component, version, method, cuda=cuda, flavour=flavour)
        target = self._request.target
        if not target:
            return offer
        cross = cross_sets(self._matrix, component, version, target=target, repo=self._host.os.repo or "")
        return replace(
            offer,
            cross_repository=self.rows.cross_repository(target),
            cross_packages=tuple(row for row in cross if _fits(row, cuda)),
        )

    def _with_rows(self, component: str, version: str, method: Method, *, cuda: str | None, flavour: str) -> Offer:
        if self._request.own_files(component):
            return self._own_files(component)
        match method:
            case "network" | "distro":
                packages = self._packages(component, version, method, cuda=cuda, flavour=flavour)
                repository = self.rows.repository(component) if method == "network" else None
                unread = self.rows.unread(component, version, method)
                return Offer(packages=packages, repository=repository, unread=unread)
            case "local":
                # The installer contains packages of the network repository, so their names are the same.
                packages = self._packages(component, version, "network", cuda=cuda, flavour=flavour)
                return Offer(packages=packages, archives=self._local_files(component, version, cuda))
            case "tar" | "zip" | "runfile":
                files = self.rows.archives(component, method).get(version, [])
                return Offer(archives=build_for(files, None if component == "cuda" else cuda))
            case "pip":
                return Offer(wheels=self._wheels(component, version, cuda))
            case "container":
                return Offer(images=self._images(version))
            case "source":
                return Offer()

    def _packages(
        self, component: str, version: str, method: Method, *, cuda: str | None, flavour: str
    ) -> tuple[PackageSet, ...]:
        """The package sets of every role; IMEX has the driver's version and is added on GPU fabrics."""
        rows = self.rows.packages(component, method)
        if component == "driver" and any(gpu.fabric for gpu in self._host.gpus):
            rows += tuple(replace(row, role="imex") for row in self.rows.packages("imex", method))
        return for_stack(rows, version, cuda=cuda, flavour=flavour)

    def _local_files(self, component: str, version: str, cuda: str | None) -> tuple[Archive, ...]:
        """The files of a local installation; for a driver those of a toolkit, preferably the stack's own."""
        if component == "driver":
            rows = self.rows.toolkits_with_driver(version)
            return tuple(sorted(rows, key=lambda row: (row.version != cuda, row.file))[:1])
        files = self.rows.archives(component, "local").get(version, [])
        return build_for(files, None if component == "cuda" else cuda)


def _from_packages(version: str, sets: Iterable[PackageSet]) -> Offer | None:
    found = [row for row in sets if is_within(version, row.versions)]
    if not found:
        return None
    with_cuda = () if any(not row.with_cuda for row in found) else tuple(row.with_cuda for row in found)
    flavours = tuple(dict.fromkeys(row.flavour for row in found if row.flavour))
    return Offer(with_cuda=with_cuda, flavours=flavours)


def _fits(row: PackageSet, cuda: str | None) -> bool:
    return not row.with_cuda or (cuda is not None and is_within(cuda, row.with_cuda))


def _cuda_range(cuda: str) -> str:
    """The CUDA versions that an archive built "for 12" or "for 11.8" supports."""
    return f"=={cuda}.*"
