"""Option types that commands share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli.declare import Option
from gpustack.errors import UsageError

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix
    from gpustack.model.host import Host


Group = dict[str, Any]
"""Options by the name of their argument."""


class TextOrJson(str, Enum):
    """The formats of commands that describe."""

    TEXT = "text"
    JSON = "json"


class Policy(str, Enum):
    """How the solver chooses."""

    NEWEST = "newest"
    PRODUCTION = "production"
    MINIMAL = "minimal"


class KernelModule(str, Enum):
    """Which kernel modules the driver may bring."""

    AUTO = "auto"
    OPEN = "open"
    PROPRIETARY = "proprietary"


Root = Annotated[Path | None, Option("--root", metavar="DIR", help="Read another file system tree instead of /.")]
HostFile = Annotated[
    Path | None, Option("--host", metavar="FILE", help="A host saved by `gpustack detect --format json`.")
]
Os = Annotated[str | None, Option("--os", metavar="NAME", help="Describe a host: ubuntu24.04, rhel9.4, ...")]
Arch = Annotated[str | None, Option("--arch", metavar="ARCH", help="x86_64 or aarch64, with --os.")]
Gpu = Annotated[
    list[str] | None,
    Option("--gpu", metavar="NAME", help='A GPU of the host: "H200", 10de:2335 or cc:9.0; repeatable; with --os.'),
]
Driver = Annotated[str | None, Option("--driver", metavar="VERSION", help="The driver it has, with --os.")]
MethodOption = Annotated[
    list[str] | None,
    Option(
        "--method", metavar="METHOD", help="Installation method for all components, or for one (cudnn=tar). Repeatable."
    ),
]
PolicyOption = Annotated[Policy | None, Option("--policy", help="How to choose (production if not given).")]
ModuleOption = Annotated[KernelModule | None, Option("--kernel-module", help="Kernel module flavour.")]
RequestFile = Annotated[
    Path | None, Option("--file", metavar="FILE", help="Requirements and options from a gpustack.toml.")
]
TargetOption = Annotated[
    str | None, Option("--target", metavar="NAME", help="Cross-compile for sbsa, drive-os or qnx.")
]
MirrorOption = Annotated[
    list[str] | None,
    Option(
        "--mirror",
        metavar="FROM=TO",
        envvar="GPUSTACK_MIRRORS",
        help="Take files whose address begins with FROM from TO instead; repeatable.",
    ),
]
WaitOption = Annotated[
    float | None,
    Option(
        "--wait", metavar="SECONDS", min=0, help="How long to wait for locks held by other processes (default: 300)."
    ),
]
MinSpeedOption = Annotated[
    float | None,
    Option(
        "--min-speed",
        metavar="KIB",
        min=0,
        envvar="GPUSTACK_MIN_SPEED",
        help="Give a download up that brings fewer KiB a second for a minute (1); 0: never.",
    ),
]
LockOption = Annotated[
    Path | None,
    Option("--lock", metavar="FILE", help="Write the lock: the stack with everything pinned; - is standard output."),
]
OutOption = Annotated[Path | None, Option("--out", metavar="FILE", help="Save the plan as JSON; - is standard output.")]
DetailedExitCode = Annotated[bool | None, Option("--detailed-exitcode", help="Exit 6 when changes are pending.")]

# Groups of options that several commands take whole: name of the argument, its type; none is given by default.
HOST_OPTIONS: Group = {"root": Root, "host": HostFile, "os": Os, "arch": Arch, "gpu": Gpu, "driver": Driver}
CHOICE_OPTIONS: Group = {
    "file": RequestFile,
    "method": MethodOption,
    "policy": PolicyOption,
    "kernel_module": ModuleOption,
}
PLAN_OPTIONS: Group = {
    **CHOICE_OPTIONS,
    "target": TargetOption,
    "out": OutOption,
    "detailed_exitcode": DetailedExitCode,
}


def host_of(  # one argument for each option that can name a host
    matrix: Matrix,
    root: Path | None,
    host: Path | None,
    os: str | None,
    arch: str | None,
    gpu: Sequence[str] | None,
    driver: str | None,
) -> Host:
    """The host that the options name: a tree, a saved document, a description, or this machine. Raises UsageError."""
    given = [name for name, value in (("--root", root), ("--host", host), ("--os", os)) if value is not None]
    if len(given) > 1:
        msg = f"{' and '.join(given)} name two different hosts"
        raise UsageError(msg, code="conflicting-options", hint="give one of --root, --host and --os")
    described = [n for n, v in (("--arch", arch), ("--gpu", gpu or None), ("--driver", driver)) if v is not None]
    if described and os is None:
        msg = f"{described[0]} describes a host, so it needs --os"
        raise UsageError(msg, code="missing-argument", hint=f"for example --os ubuntu24.04 {described[0]} ...")
    if os is not None:
        from gpustack.detect.describe import describe

        return describe(matrix, os=os, arch=arch, gpus=tuple(gpu or ()), driver=driver)
    if host is not None:
        from gpustack.detect.hostfile import load

        return load(host)
    if root is not None and not _is_folder(root):
        msg = f"{root} is not a folder"
        raise UsageError(msg, code="not-a-folder", hint="--root takes the root folder of a file system tree")
    from gpustack.detect.api import detect

    return detect(root, matrix)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, a NUL in it
        return False
