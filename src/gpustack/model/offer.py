"""How a version can be installed on a host: the rows of the facts that provide it."""

import re

from msgspec import Struct

from gpustack.model.facts import Archive, PackageSet
from gpustack.model.own_file import OwnFile
from gpustack.model.places import Repository
from gpustack.versions import version

_TAG = re.compile(r"manylinux_(\d+)_(\d+)_")
_INTERPRETER = re.compile(r"cp(\d)(\d+)")
_OLD_TAGS = {"manylinux1_": "2.5", "manylinux2010_": "2.12", "manylinux2014_": "2.17"}


class Wheel(Struct, frozen=True, kw_only=True):
    """One wheel. ``part`` is its project, ``python`` its interpreter tag, ``glibc`` the oldest that loads it.

    ``index`` is the vendor's own package index if the wheel is on no other; its checksum is required all the same.
    """

    version: str
    platform: str
    file: str
    wheel_version: str = ""
    component: str = ""
    method: str = ""
    part: str = ""
    cuda: str = ""
    sha256: str = ""
    size: int | None = None
    python: str = ""
    glibc: str = ""
    index: str = ""
    requires: tuple[str, ...] = ()
    src: tuple[str, ...] = ()

    @property
    def needs_glibc(self) -> str:
        """The oldest C library that loads it, by the facts, else by the file's tags; "" if neither says."""
        if self.glibc:
            return self.glibc
        found = [f"{major}.{minor}" for major, minor in _TAG.findall(self.file)]
        found += [text for tag, text in _OLD_TAGS.items() if tag in self.file]
        return min(found, key=lambda text: version(text).key, default="")

    @property
    def has_old_tag(self) -> bool:
        """Whether pip before 20.3, which knows no tags with a C library version, accepts it."""
        return any(tag in self.file for tag in _OLD_TAGS)

    def loads_with(self, glibc: str | None) -> bool:
        """Whether a system with this C library loads it; yes if the system's is unknown."""
        return not glibc or not self.needs_glibc or version(self.needs_glibc) <= version(glibc)

    @property
    def interpreter(self) -> str:
        """The only version of Python that it supports ("3.10"); "" if it supports any."""
        tag = _INTERPRETER.fullmatch(self.python)
        return f"{tag[1]}.{tag[2]}" if tag is not None and "-abi3-" not in self.file else ""

    def runs_on(self, python: str | None) -> bool:
        """Whether this version of Python can install it; yes if the version is unknown."""
        return not python or self.interpreter in {"", ".".join(python.split(".")[:2])}


class ServerImage(Struct, frozen=True, kw_only=True):
    """One container image of a Triton release, by its full reference."""

    release: str
    reference: str
    src: tuple[str, ...] = ()


class Offer(Struct, frozen=True, kw_only=True):
    """A method offers a version on a host, by these rows of the facts.

    ``with_cuda`` are the CUDA versions that it is built for (() any), ``flavours`` the kernel module flavours of its
    packages. The rows are those for the CUDA and the flavour of a finished stack, and empty before:
    ``packages`` of every role, the most specific row first; ``cross_packages`` those for the target of a request, from
    ``cross_repository``. ``unread`` is the day up to which nobody had seen this version in the repository: the
    vendor's guides only name the folder; "" if somebody has. ``files`` are the user's own, next to the rows made
    from them.
    """

    with_cuda: tuple[str, ...] = ()
    flavours: tuple[str, ...] = ()
    repository: Repository | None = None
    unread: str = ""
    packages: tuple[PackageSet, ...] = ()
    cross_repository: Repository | None = None
    cross_packages: tuple[PackageSet, ...] = ()
    archives: tuple[Archive, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    images: tuple[ServerImage, ...] = ()
    files: tuple[OwnFile, ...] = ()

    def package_set(self, role: str) -> PackageSet | None:
        """The most specific package set of a role, None if the facts have none for this offer."""
        return next((row for row in self.packages if row.role == role), None)
