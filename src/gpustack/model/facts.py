"""The facts that decisions are based on: releases, rules, offers. Each row names its source."""

import re
from typing import Literal

from msgspec import Struct, field

Known = Literal["stated", "tested", "reported"]
Strength = Literal["required", "only-if", "optional", "compiling", "advised", "unproven"]

COMPONENTS = (
    "driver",
    "fabric-manager",
    "imex",
    "cuda",
    "cuda-compat",
    "cudnn",
    "nccl",
    "tensorrt",
    "tensorrt-rtx",
    "nv-codec-headers",
    "ffmpeg",
    "container-toolkit",
    "dcgm",
    "gdrcopy",
    "gds",
    "triton",
)
"""Everything that has a version and a place in a stack, in the order of installation."""

CHECKED_FRAMEWORKS = ("torch", "tensorflow", "jax", "onnxruntime-gpu", "cupy", "vllm")
"""Frameworks for Python that have checks, which run when they are named."""

CHECKED_WITH = {
    "fabric-manager": "driver",
    "cuda-compat": "driver",
    "tensorrt-rtx": "tensorrt",
    "container-toolkit": "",
}
"""Components without checks of their own, and the one whose checks cover them ("" none)."""

MIRRORED = {"fabric-manager": "driver", "imex": "driver", "cuda-compat": "cuda", "gds": "cuda"}
"""Components whose versions follow another: equal to it, or made for its release line."""

PROPERTIES = ("compute-capability", "kernel", "glibc", "gcc", "clang", "msvc", "python", "l4t")
"""What a rule may require of a host besides components; l4t is the Jetson Linux of a Jetson."""


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, file or measurement that facts come from. ``dated`` is its own date, ``read`` when it was read.

    ``makes`` names the tables, one word each, whose rows from this source alone are generated and not written by hand.
    """

    address: str
    known: Known
    dated: str = ""
    read: str = ""
    makes: str = ""
    note: str = ""


class When(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions on the host under which a rule applies; all must hold, and an empty one always does.

    On a host with several GPUs a GPU condition holds when any GPU meets it. ``gpu`` names product names; ``fabric``
    means GPUs of NVSwitch baseboards, or (false) for a host without any NVSwitch, ``mig`` for GPUs that are split
    by MIG, or are to be. ``system`` names distributions by the ID of their os-release; ``glibc`` is a range.
    """

    os: Literal["", "linux", "windows"] = ""
    system: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    gpu_class: tuple[str, ...] = ()
    compute_capability: str = ""
    gpu: tuple[str, ...] = ()
    fabric: bool | None = None
    mig: bool = False
    glibc: str = ""
    flavour: Literal["", "open", "proprietary"] = ""
    method: tuple[str, ...] = ()


class Rule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One statement about compatibility. Exactly one of ``any``, ``none``, ``equal`` is set.

    * range: ``of`` "cuda>=13,<14" ``needs`` "driver" ``any`` [">=580"]
    * two-sided window: ``of`` "cuda==12.9.*" ``needs`` "compute-capability" ``any`` [">=5.0,<=12.1"]
    * exclusion: ``of`` ... ``needs`` ... ``none`` ["==9.10.0"]
    * exact equality: ``of`` "driver" ``equal`` ["fabric-manager", "imex"]: the same version text

    ``strength``: required (also adds the object to the stack), only-if (required while ``when`` holds),
    optional (binds only if both are present), compiling (the compiler does not compile otherwise: a breach refuses the
    toolkit that ``check`` is asked about, and is a warning elsewhere), advised (a breach is a warning),
    unproven (between components: a breach is unknown, because sources disagree).
    ``says`` replaces the derived sentence if the source states an exception.
    """

    id: str
    of: str
    needs: str = ""
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()
    when: When = field(default_factory=When)
    strength: Strength = "optional"
    says: str = ""
    note: str = ""
    known: Literal["", "stated", "tested", "reported"] = ""
    src: tuple[str, ...] = ()


_SUBJECT = re.compile(r"[a-z][a-z0-9-]*")


def subject_of(of: str) -> str:
    """The component that a rule's ``of`` begins with, "" when it begins with none."""
    match = _SUBJECT.match(of)
    return match.group() if match else ""


SEEN = "seen"
"""The status of a release that exists, and whose requirements nobody has read: ``date`` is the day of release."""


class Release(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a component: the domain of the solver. Further columns of its row are for readers.

    ``os`` lists the systems it was released for (empty: no statement). ``branch`` and ``kind`` carry driver branches
    and their support class (LTS, PB, NFB, legacy, beta, developer). ``status``: released, preview, beta, withdrawn,
    pip-only, or SEEN. ``arch`` lists architectures (empty: no statement): for Windows the plain word means x86_64
    only, and 64-bit ARM is windows-aarch64.
    """

    version: str
    component: str = ""
    date: str = ""
    os: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    branch: str = ""
    kind: str = ""
    status: str = "released"
    note: str = ""
    known: Literal["", "stated", "tested", "reported"] = ""
    src: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether somebody has read what the release requires."""
        return self.status != SEEN

    def is_for(self, system: str, arch: str | None) -> bool:
        """Whether it was released for this system and architecture; yes if it, or the host, makes no statement."""
        word = f"{system}-{arch}" if system == "windows" and arch != "x86_64" else arch
        return (not self.os or system in self.os) and (not self.arch or arch is None or word in self.arch)


class Availability(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which versions of a component a place offers: a vendor repository folder (``repo``) for an architecture folder.

    ``versions`` is a range over the component's releases. ``basis`` is "seen", "range" (both ends seen), "bundled" (the
    driver of a toolkit that was seen there), "guide" (guides name the folder, but its content is unread) or "site"
    (what the package manager of this host has read).
    """

    component: str
    method: str
    repo: str
    arch: tuple[str, ...]
    versions: str
    basis: str = ""
    note: str = ""
    known: Literal["", "stated", "tested", "reported"] = ""
    src: tuple[str, ...] = ()


class PackageSet(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The packages that install a component, by package family and era.

    ``composed`` marks a set with names that nobody has seen: they follow the pattern of other releases.

    ``role``: main (what a plan installs), dev, samples, static, doc, pinning, branch-lock, module-stream ... ``repos``
    narrows to repository folders (empty: all of the family). ``with_cuda`` narrows to CUDA versions. ``pin`` is the
    package version with ``{version}`` for the release ("" if the name itself pins it). ``flavour`` is the kernel module
    flavour of the set. ``exact`` marks a set that must have one version throughout.
    """

    component: str
    method: str
    family: str
    versions: str
    packages: tuple[str, ...]
    role: str = "main"
    repos: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    with_cuda: str = ""
    flavour: Literal["", "open", "proprietary"] = ""
    pin: str = ""
    exact: bool = False
    composed: bool = False
    note: str = ""
    known: Literal["", "stated", "tested", "reported"] = ""
    src: tuple[str, ...] = ()


class Archive(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file that can be downloaded: a tar or zip archive, a runfile, a local repository package, a wheel.

    ``size`` is in bytes; ``sha256`` is empty if nobody publishes one. ``part`` is the vendor's component name.
    ``distro`` is the repository folder that a local installer is for, ``driver`` the driver that it includes.
    ``login`` marks a file that the vendor offers behind a developer login.
    """

    version: str
    platform: str
    file: str
    component: str = ""
    method: str = ""
    part: str = ""
    distro: str = ""
    cuda: str = ""
    url: str = ""
    sha256: str = ""
    md5: str = ""
    size: int | None = None
    top_dir: str = ""
    driver: str = ""
    login: bool = False
    note: str = ""
    known: Literal["", "stated", "tested", "reported"] = ""
    src: tuple[str, ...] = ()


def normalized(name: str) -> str:
    """The name of a Python distribution as indexes compare it: "NVIDIA_cuDNN.cu12" is nvidia-cudnn-cu12."""
    return re.sub(r"[-_.]+", "-", name).lower()
