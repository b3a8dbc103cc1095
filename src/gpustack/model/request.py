"""What the user requested."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from gpustack.model.image import ImageContent
from gpustack.model.own_file import OwnFile

Method = Literal["network", "local", "tar", "runfile", "distro", "pip", "source", "container", "zip"]
METHODS: tuple[Method, ...] = ("network", "local", "tar", "runfile", "distro", "pip", "source", "container", "zip")
Policy = Literal["newest", "production", "minimal"]
Imex = Literal["host", "dra", "off"]
Stage = Literal["build", "runtime"]
KernelModule = Literal["auto", "open", "proprietary"]
Target = Literal["", "sbsa", "drive-os", "qnx"]


class Requirement(Struct, frozen=True, kw_only=True):
    """A component and the acceptable versions; ``versions`` is a range in the syntax of PEP 440 ("" is any)."""

    component: str
    versions: str = ""

    def __str__(self) -> str:
        return f"{self.component}{self.versions}"


class Request(Struct, frozen=True, kw_only=True):
    """The requirements and options of a request. ``methods`` maps a component to its method, "" to that of all others.

    ``named`` are the properties of the host that ``check`` is given by name: compilers, kernel, glibc, python.
    ``upgrades`` are components to upgrade to the newest compatible version, "all" for each; others stay if compatible.
    ``imex`` says who runs IMEX on a tray of an NVLink rack: a service of the host (the default), the DRA
    driver of Kubernetes, or nobody.
    ``files`` are downloaded by the user: their components come from them alone.
    ``stage`` "runtime" installs only the libraries that programs load, without compilers and headers.
    ``frameworks`` are requirements on frameworks for Python; ``requirements`` holds the others.
    ``deny_vulnerable`` refuses versions for which a security bulletin names a later fixed release.
    """

    requirements: tuple[Requirement, ...]
    methods: dict[str, Method] = field(default_factory=dict)
    policy: Policy = "production"
    kernel_module: KernelModule = "auto"
    target: Target = ""
    named: tuple[str, ...] | UnsetType = UNSET
    upgrades: tuple[str, ...] | UnsetType = UNSET
    deny_vulnerable: bool | UnsetType = UNSET
    imex: Imex | UnsetType = UNSET
    files: tuple[OwnFile, ...] | UnsetType = UNSET
    stage: Stage | UnsetType = UNSET
    frameworks: tuple[Requirement, ...] | UnsetType = UNSET

    def method(self, component: str) -> Method | None:
        """The method requested for this component, None without one."""
        return self.methods.get(component) or self.methods.get("")

    def own_files(self, component: str) -> tuple[OwnFile, ...]:
        """The files that the user has downloaded for a component; () where it is had another way."""
        return () if self.files is UNSET else tuple(one for one in self.files if one.component == component)

    def upgrades_to_newest(self, component: str) -> bool:
        """Whether an installed version of this component may be replaced by a newer one."""
        return self.upgrades is not UNSET and not {component, "all"}.isdisjoint(self.upgrades)


class Beside(Struct, frozen=True, kw_only=True):
    """What ``check`` judges besides components: codecs ("nvenc-av1"), and a container image by name or content."""

    codecs: tuple[str, ...] = ()
    image: str | ImageContent | None = None
