"""Operating systems, repositories and GPUs as the matrices know them."""

from typing import Literal

from msgspec import Struct

Known = Literal["", "stated", "tested", "reported"]


class System(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operating system release.

    ``id`` and ``version`` as in os-release (a version may be a prefix: "9" covers 9.4). ``family`` is the package
    family (apt, dnf, yum, zypper, tdnf, windows, none); ``manager`` the command. ``repo`` is NVIDIA's repository
    folder; if empty, ``no_repo`` says why and what to do instead. ``base`` is the system whose
    repository and packages a derivative uses ("ubuntu24.04"). ``kernel``, ``gcc``, ``glibc`` are its defaults;
    ``glibc_least`` is the oldest of the service packs or point releases that a row without them stands for.
    ``gcc_least`` is the major version of the oldest GCC that it packages.
    ``binaries`` none: NVIDIA's programs cannot run there at all (another libc, another kernel, 32 bits).
    ``python`` is the version of its python3. ``rolling``: its libraries change within the release; the values are
    the latest known. ``lts`` is the date on which paid or extended support ends. ``immutable``: nothing can
    be installed into its read-only system. ``support`` "own channel": its publisher provides the driver.
    """

    id: str
    version: str
    name: str
    family: str
    manager: str = ""
    repo: str = ""
    no_repo: str = ""
    base: str = ""
    codename: str = ""
    eol: str = ""
    arch: tuple[str, ...] = ()
    kernel: str = ""
    gcc: str = ""
    glibc: str = ""
    glibc_least: str = ""
    gcc_least: str = ""
    python: str = ""
    rolling: bool | str = False
    initramfs: str = ""
    binaries: Literal["", "none"] = ""
    lts: str = ""
    immutable: bool | str = False
    support: str = ""
    note: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name by which hosts and other rows refer to this one: "ubuntu24.04"."""
        return f"{self.id}{self.version}"

    @property
    def is_read_only(self) -> bool:
        """Whether its system is read-only, so that nothing can be installed."""
        return self.immutable in {True, "yes"}


def find_system(systems: tuple[System, ...], identity: str | None, version: str | None) -> System | None:
    """The row of this ID and VERSION_ID; a row's version may be a prefix of it, and the longest wins."""
    if not identity:
        return None
    same = [row for row in systems if row.id.lower() == identity.lower() and covers(row.version, version)]
    return max(same, key=lambda row: len(row.version), default=None)


def covers(row: str, version: str | None) -> bool:
    """Whether a row's version equals a host's or is a prefix of it (3 is also 3.0); an empty one covers all."""
    if not row or not version:
        return not row
    known, given = row.lower(), version.lower()
    if given[:1] == "v" and given[1:2].isdigit():  # Kylin writes V10
        given = given[1:]
    return given in {known, known.removesuffix(".0")} or given.startswith(f"{known}.")


class OfferedKernel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A further kernel that a release of a system offers besides its first one; ``comes`` says how."""

    id: str
    version: str
    kernel: str
    comes: str
    note: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()


class JetPack(Struct, frozen=True, kw_only=True):
    """One JetPack: its release of Jetson Linux, and the versions of its packages (``cuda``: that of nvcc).

    ``also`` are further releases of Jetson Linux with the same libraries; ``meta`` is the version of the package
    nvidia-jetpack in NVIDIA's repository for Jetson, "" if it was not seen there. ``capabilities`` are the compute
    capabilities of the modules that it supports.
    """

    jetpack: str
    l4t: str
    also: tuple[str, ...] = ()
    cuda: str = ""
    cudnn: str = ""
    tensorrt: str = ""
    meta: str = ""
    capabilities: tuple[str, ...] = ()


class Repository(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One repository folder for one architecture. ``url`` is the whole base address, ``key`` a row of ``keys``.

    ``file`` is the repository file that a plan writes; ``repo_file`` the vendor's own .repo address; ``keyring`` the
    vendor's keyring package address if one exists; ``pin_file`` the vendor's apt preferences file.
    ``status``: supported, dropped, frozen, new.
    """

    repo: str
    arch: str
    family: str
    url: str
    key: str = ""
    repo_file: str = ""
    keyring: str = ""
    keyring_sha256: str = ""
    pin_file: str = ""
    status: str = ""
    note: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()


class SigningKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A repository signing key. ``fingerprint`` is 40 hexadecimal digits, empty if nobody published it.

    ``armoured`` is the public key itself, if it was seen; ``matrix check`` cannot read keys, so a test compares it with
    the fingerprint. ``status``: current or retired; a retired key is never rendered for a live system.
    """

    id: str
    file: str
    fingerprint: str = ""
    formats: tuple[str, ...] = ()
    status: Literal["current", "retired"] = "current"
    since: str = ""
    until: str = ""
    sha256: str = ""
    armoured: str = ""
    note: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()


class ImageRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The container image of one operating system release, by its full name with registry and tag.

    ``version`` may be a prefix of the host's, as in ``System``.
    """

    id: str
    version: str
    image: str
    note: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()


class GpuProduct(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One product by PCI id. Several rows share a device id; ``subsystem`` ("10de:1234") distinguishes them.

    ``kind``: datacenter, professional, consumer, soc, mobile-... ; ``open_module``: impossible, possible, required.
    ``nvenc``/``nvdec`` are engines on the board (0: known to be none, None: unknown). ``fabric``: "" or the reason
    why its baseboard requires a fabric manager ("nvswitch", "nvl72", ...). ``sessions``: NVENC session limit class.
    ``driver_listed`` is the first driver that NVIDIA lists it for, ``open_listed`` the first with open modules;
    ``announced`` the day on which NVIDIA presented it.
    ``bandwidth_gbs``/``fp16_tflops`` are datasheet figures (GB/s; dense TFLOP/s).
    """

    device: str
    name: str
    architecture: str
    compute_capability: str = ""
    subsystem: str = ""
    chip: str = ""
    kind: str = ""
    open_module: Literal["", "impossible", "possible", "required"] = ""
    driver_first: str = ""
    driver_listed: str = ""
    open_listed: str = ""
    driver_last: str = ""
    announced: str = ""
    memory_gib: float | None = None
    nvenc: int | None = None
    nvdec: int | None = None
    fabric: str = ""
    mig_max: int | None = None
    bandwidth_gbs: float | None = None
    fp16_tflops: float | None = None
    aliases: tuple[str, ...] = ()
    confidence: str = ""
    note: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()


class ConflictRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A known bad state of a host: how it is detected, what it means, and how to fix it.

    ``detect`` is prose for people; the code that detects it carries the same ``id``. ``severity``: block, warn, info.
    ``reboot`` says whether the fix requires one ("yes", "no", "" if it depends).
    """

    id: str
    what: str
    severity: str
    fix: tuple[str, ...] = ()
    detect: tuple[str, ...] = ()
    reboot: str = ""
    known: Known = ""
    src: tuple[str, ...] = ()
