"""A host: the snapshot of one machine that every later stage uses. Unknown is None, never an error."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Environment = Literal["bare-metal", "vm", "container", "wsl", "chroot", "jetson"]


Count = Annotated[int, Meta(ge=0)]
Digits = Annotated[str, Meta(pattern=r"^\d+(\.\d+)*$")]
RepositoryId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]*$(?!\n)")]
Numbered = Annotated[str, Meta(pattern=r"^\d")]


class OperatingSystem(Struct, frozen=True, kw_only=True):
    """The system by os-release. ``family`` is the package family of ``systems`` ("" unknown), ``repo`` NVIDIA's folder.

    ``base`` is the system whose repository a derivative uses, as ID + VERSION ("ubuntu24.04").
    ``system`` is the row of ``systems`` that covers it, as its id + version ("wsl-ubuntu24.04", "l4t36", "rhel9").
    """

    id: str | None = None
    version_id: str | None = None
    family: str | None = None
    name: str | None = None
    eol: str | None = None
    codename: str | None = None
    like: tuple[str, ...] = ()
    repo: str | None = None
    base: str | None = None
    system: str | None = None

    @property
    def spelled(self) -> str:
        """ID + VERSION_ID in the form of ``--os``."""
        return f"{self.id or 'unknown'}{self.version_id or ''}"

    @property
    def called(self) -> str:
        """Its name for people, else as it is spelled."""
        return self.name or self.spelled

    @property
    def release(self) -> str:
        """The beginning of VERSION_ID that the hosts of one plan share, "" for a rolling system.

        Minor releases of an rpm system use one repository, so they are one host.
        """
        version = self.version_id or ""
        if not version[:1].isdigit():
            return ""
        return version.partition(".")[0] if self.family in {"dnf", "yum", "tdnf"} else version


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU. ``pci_id`` is "10de:2335"; ``memory_mib`` in MiB; ``nvenc``/``nvdec`` count engines (None: not known).

    ``kind`` is the product class of the matrix (datacenter, professional, consumer, soc); ``open_module`` says whether
    open kernel modules can, must or cannot drive it; ``bound`` is the kernel module bound to it now. ``part`` names
    the visible part of it: "MIG 1g.5gb", "MIG" for one that is split, or to be, "vGPU T4-16Q",
    "vGPU of g6f.large" if the type is unknown; omitted from the document for a whole GPU. ``devices`` are the PCI ids
    of all products that a given name stands for; omitted where ``pci_id`` is known, and on a machine.
    """

    name: str | None = None
    pci_id: str | None = None
    subsystem_id: str | None = None
    architecture: str | None = None
    compute_capability: Digits | None = None
    nvenc: Count | None = None
    nvdec: Count | None = None
    memory_mib: Count | None = None
    bus_id: str | None = None
    kind: str | None = None
    open_module: str | None = None
    fabric: str | None = None
    driver_first: Digits | None = None
    driver_last: Digits | None = None
    bound: str | None = None
    part: str | UnsetType = UNSET
    uuid: str | None = None
    devices: tuple[str, ...] | UnsetType = UNSET

    @property
    def called(self) -> str:
        """Its name, else its PCI id, and the visible part of it."""
        name = self.name or self.pci_id or "unnamed GPU"
        return f"{name} {self.part}" if self.part else name

    @property
    def is_mig(self) -> bool:
        """Whether MIG splits it, or will."""
        return bool(self.part) and str(self.part).startswith("MIG")

    @property
    def is_vgpu(self) -> bool:
        """Whether vGPU software of a hypervisor shares it."""
        return bool(self.part) and str(self.part).startswith("vGPU")


class Installed(Struct, frozen=True, kw_only=True):
    """One installed component: its version, its method, its location, and its owner.

    ``method`` is a method of the contract, or "unknown"; ``origin`` says more ("nvidia", "ubuntu", "debian", "wheel").
    ``packaged`` is the version of its packages, which after an update differs from the running one.
    """

    version: str | None = None
    method: str | None = None
    path: str | None = None
    origin: str | None = None
    packages: tuple[str, ...] = ()
    packaged: str | None = None


class Copy(Struct, frozen=True, kw_only=True):
    """One copy of a library that programs could load, in load order; ``wins`` marks the one that the loader uses."""

    component: str
    path: str
    version: str | None = None
    soname: str | None = None
    owner: str | None = None
    wins: bool = False


class KernelModule(Struct, frozen=True, kw_only=True):
    """The loaded (or installed) kernel module of the driver. ``flavour``: open or proprietary."""

    version: str | None = None
    flavour: Literal["open", "proprietary"] | None = None
    loaded: bool = False
    signer: str | None = None


class RepositoryEntry(Struct, frozen=True, kw_only=True):
    """One configured package source that names NVIDIA.

    ``fault`` says why the package manager cannot use it; omitted from the document if nothing says so.
    """

    path: str
    url: str
    signed_by: str | None = None
    enabled: bool = True
    fault: str | UnsetType = UNSET


class Problem(Struct, frozen=True, kw_only=True):
    """Something wrong with the host, with its fix. ``id`` is a row of the conflicts matrix or a detect-* name.

    ``reboot`` says whether the fix requires one (None: it depends).
    """

    id: str
    message: str
    fix: str = ""
    severity: Literal["block", "warn", "info"] = "warn"
    reboot: bool | None = None
    sources: tuple[str, ...] = ()


class Unseen(Struct, frozen=True, kw_only=True):
    """What could not be examined, and why."""

    what: str
    why: str


class Looked(Struct, frozen=True, kw_only=True):
    """What the problems of a host were looked for in, and what of it could not be examined."""

    at: tuple[str, ...] = ()
    not_at: tuple[Unseen, ...] = ()


class PythonEnvironment(Struct, frozen=True, kw_only=True):
    """One Python environment with software of NVIDIA or a framework in it.

    ``path`` is its prefix (/opt/venv), ``site`` its folder of packages; ``packages`` maps names to versions.
    """

    path: str
    site: str
    python: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/host/v1``.

    ``name`` is what the machine calls itself; omitted if it is described, recorded, or to stay anonymous, and no plan
    depends on it.
    ``looked`` says where problems were looked for; None if nobody looked.
    ``l4t`` is the release of Jetson Linux; omitted if the host is not a Jetson.
    ``codeready`` is the id of CodeReady Builder in the RHUI of a cloud; omitted without one.
    ``environments`` are the Python environments; omitted without one. ``problems`` has theirs too.
    ``cross_packages`` are the installed packages that build for other machines, with versions; omitted if none.
    """

    schema: Literal["gpustack/host/v1"] = "gpustack/host/v1"
    name: str | UnsetType = UNSET
    os: OperatingSystem = field(default_factory=OperatingSystem)
    arch: str | None = None
    kernel: str | None = None
    next_kernel: str | None = None
    environment: Environment | None = None
    secure_boot: bool | None = None
    gpus: tuple[Gpu, ...] = ()
    nvswitches: Count | None = None
    module: KernelModule | None = None
    installed: dict[str, Installed] = field(default_factory=dict)
    copies: tuple[Copy, ...] = ()
    glibc: Numbered | None = None
    gcc: str | None = None
    clang: str | None = None
    msvc: str | None = None
    python: str | None = None
    repositories: tuple[RepositoryEntry, ...] = ()
    keys: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    cross_packages: dict[str, str] | UnsetType = UNSET
    environments: tuple[PythonEnvironment, ...] | UnsetType = UNSET
    codeready: RepositoryId | UnsetType = UNSET
    l4t: Digits | UnsetType = UNSET
    reboot_pending: bool | None = None
    described: bool = False
    problems: tuple[Problem, ...] = ()
    looked: Looked | None = None
