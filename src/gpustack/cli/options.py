"""Option types that commands share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from gpustack.cli.declare import Option
from gpustack.errors import UsageError
from gpustack.model.facts import COMPONENTS

if TYPE_CHECKING:
    from gpustack.detect.properties import Properties
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


class Imex(str, Enum):
    """Who runs IMEX on a compute tray of an NVLink rack."""

    HOST = "host"
    DRA = "dra"
    OFF = "off"


class Stage(str, Enum):
    """What a component is for: to build programs with it, or only to run them."""

    BUILD = "build"
    RUNTIME = "runtime"


class KernelModule(str, Enum):
    """Which kernel modules the driver may install."""

    AUTO = "auto"
    OPEN = "open"
    PROPRIETARY = "proprietary"


class OnOff(str, Enum):
    """On or off."""

    ON = "on"
    OFF = "off"


class EnvironmentName(str, Enum):
    """Where a host runs."""

    BARE_METAL = "bare-metal"
    VM = "vm"
    CONTAINER = "container"
    WSL = "wsl"
    JETSON = "jetson"


Root = Annotated[
    Path | None,
    Option(
        "--root",
        metavar="PATH",
        help="Read another file system tree instead of /, or a text: a bug report, pasted logs (- is stdin).",
    ),
]
HostFile = Annotated[
    Path | None, Option("--host", metavar="FILE", help="A host saved by `gpustack detect --format json`.")
]
Os = Annotated[
    str | None, Option("--os", metavar="NAME", help="Describe a host: ubuntu24.04, noble, rhel9.4, jetpack6.2, ...")
]
Arch = Annotated[str | None, Option("--arch", metavar="ARCH", help="x86_64 or aarch64, with --os.")]
Gpu = Annotated[
    list[str] | None,
    Option("--gpu", metavar="NAME", help='A GPU of the host: "H200", "8x H200", 10de:2335 or cc:9.0; repeatable.'),
]
Driver = Annotated[str | None, Option("--driver", metavar="VERSION", help="The driver of the host.")]
Kernel = Annotated[str | None, Option("--kernel", metavar="RELEASE", help="Its kernel: 6.17.0-8-generic.")]
Gcc = Annotated[str | None, Option("--gcc", metavar="VERSION", help="Its GCC: 14.2.")]
Clang = Annotated[str | None, Option("--clang", metavar="VERSION", help="Its Clang: 19.")]
Msvc = Annotated[str | None, Option("--msvc", metavar="VERSION", help="Its Visual C++: 19.44.")]
Glibc = Annotated[str | None, Option("--glibc", metavar="VERSION", help="Its C library: 2.41.")]
Python = Annotated[str | None, Option("--python", metavar="VERSION", help="Its Python: 3.12.")]
SecureBoot = Annotated[OnOff | None, Option("--secure-boot", help="Whether the host uses Secure Boot.")]
Interpreter = Annotated[
    str | None,
    Option("--python", metavar="FILE", help="Also look into the environment of this Python: /srv/app/bin/python."),
]
Anonymous = Annotated[bool | None, Option("--anonymous", help="Leave the host's name out of documents.")]
Mig = Annotated[bool | None, Option("--mig", help="Its GPUs are to be split by MIG.")]
EnvironmentOption = Annotated[EnvironmentName | None, Option("--environment", help="Where it runs.")]
MethodOption = Annotated[
    list[str] | None,
    Option(
        "--method", metavar="METHOD", help="Installation method for all components, or for one (cudnn=tar). Repeatable."
    ),
]
FromOption = Annotated[
    list[str] | None,
    Option(
        "--from",
        metavar="COMPONENT=FILE",
        help="A file that you have downloaded (tar, deb, rpm, run, zip, whl), to install this component from. "
        "Repeatable.",
    ),
]
PolicyOption = Annotated[Policy | None, Option("--policy", help="Which releases to prefer (default: production).")]
UpgradeOption = Annotated[
    list[str] | None,
    Option(
        "--upgrade",
        metavar="[COMPONENT]",
        alone="all",
        words=("all", *COMPONENTS),
        help="Install the newest of everything requested, or one component; else compatible installed versions stay.",
    ),
]
Strict = Annotated[bool | None, Option("--strict", help="Refuse (exit 3) a stack that cannot be judged completely.")]
LiveOption = Annotated[
    bool | None,
    Option("--live", help="Use what the host's own package repositories offer, as its package manager has read them."),
]
ModuleOption = Annotated[KernelModule | None, Option("--kernel-module", help="Kernel module flavour.")]
ImexOption = Annotated[
    Imex | None, Option("--imex", help="Who runs IMEX on GB200 and GB300 (host): a service, Kubernetes' DRA, nobody.")
]
StageOption = Annotated[
    Stage | None, Option("--stage", help="runtime: only the libraries that programs load, no compilers or headers.")
]
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
        help="Download files whose address begins with FROM from TO instead. Repeatable.",
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
        help="Abandon a download slower than this many KiB/s for a minute (default: 1; 0: never).",
    ),
]
DenyVulnerable = Annotated[
    bool | None,
    Option("--deny-vulnerable", help="Refuse a version for which a security bulletin names a later fixed release."),
]
LockOption = Annotated[
    Path | None,
    Option("--lock", metavar="FILE", help="Write the lock: the stack with everything pinned; - is standard output."),
]
OutOption = Annotated[Path | None, Option("--out", metavar="FILE", help="Save the plan as JSON; - is standard output.")]
DetailedExitCode = Annotated[bool | None, Option("--detailed-exitcode", help="Exit 6 when changes are pending.")]

# Groups of options that several commands share: name of the argument, its type; all are optional.
HOST_OPTIONS: Group = {
    "root": Root,
    "host": HostFile,
    "os": Os,
    "arch": Arch,
    "gpu": Gpu,
    "driver": Driver,
    "kernel": Kernel,
    "gcc": Gcc,
    "clang": Clang,
    "msvc": Msvc,
    "glibc": Glibc,
    "python": Python,
    "secure_boot": SecureBoot,
    "environment": EnvironmentOption,
    "mig": Mig,
    "anonymous": Anonymous,
}
CHOICE_OPTIONS: Group = {
    "file": RequestFile,
    "method": MethodOption,
    "files": FromOption,
    "policy": PolicyOption,
    "upgrade": UpgradeOption,
    "kernel_module": ModuleOption,
    "deny_vulnerable": DenyVulnerable,
    "imex": ImexOption,
}
PLAN_OPTIONS: Group = {
    **CHOICE_OPTIONS,
    "strict": Strict,
    "live": LiveOption,
    "target": TargetOption,
    "stage": StageOption,
    "out": OutOption,
    "detailed_exitcode": DetailedExitCode,
}


class HostQuestion(Struct, frozen=True, kw_only=True):
    """The options that select or describe a host, and those that override what is known about it."""

    root: Path | None = None
    host: Path | None = None
    os: str | None = None
    arch: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    kernel: str | None = None
    gcc: str | None = None
    clang: str | None = None
    msvc: str | None = None
    glibc: str | None = None
    python: str | None = None
    interpreter: str | None = None
    secure_boot: OnOff | None = None
    environment: EnvironmentName | None = None
    mig: bool | None = None
    anonymous: bool | None = None


FIELDS = {"method": "methods", "upgrade": "upgrades", "gpu": "gpus", "detailed_exitcode": "is_exit_detailed"}
"""Fields of `HostQuestion` and `StackOptions` that are not named like their option."""


def fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by the field that holds each."""
    return {
        FIELDS.get(key, key): tuple(value) if isinstance(value, list) else value
        for key, value in options.items()
        if value is not None
    }


def host_of(matrix: Matrix, question: HostQuestion, *, with_problems: bool = True) -> Host:
    """The host that the options select: a tree, a saved document, a description, or this machine.

    The other options override its values. Without problems no log is read. Raises UsageError.
    """
    found = _selected(matrix, question, with_problems=with_problems)
    if not (question.anonymous and found.name):
        return found
    from msgspec import UNSET
    from msgspec.structs import replace

    return replace(found, name=UNSET)


def _selected(matrix: Matrix, question: HostQuestion, *, with_problems: bool) -> Host:
    """The host with its name."""
    named = (("--root", question.root), ("--host", question.host), ("--os", question.os))
    given = [name for name, value in named if value is not None]
    if len(given) > 1:
        msg = f"{' and '.join(given)} name two different hosts"
        raise UsageError(msg, code="conflicting-options", hint="give one of --root, --host and --os")
    if question.arch is not None and question.os is None:
        msg = "--arch describes a host, so it requires --os"
        raise UsageError(msg, code="missing-argument", hint="for example --os ubuntu24.04 --arch ...")
    if question.os is not None:
        from gpustack.detect.describe import describe

        return _split(
            question,
            describe(matrix, os=question.os, arch=question.arch, gpus=question.gpus, properties=_properties(question)),
        )
    found = _load_host(matrix, question, with_problems=with_problems)
    plain = HostQuestion(
        root=question.root, host=question.host, anonymous=question.anonymous, interpreter=question.interpreter
    )
    if question == plain:
        return found
    from gpustack.detect.describe import redescribed

    return _split(question, redescribed(matrix, found, gpus=question.gpus, properties=_properties(question)))


def _split(question: HostQuestion, host: Host) -> Host:
    """The host with its GPUs split by MIG, if requested. Raises UsageError if it has none."""
    if not question.mig:
        return host
    if not host.gpus:
        msg = "--mig needs a GPU to split"
        raise UsageError(msg, code="missing-argument", where="--mig", hint='for example --gpu "H200"')
    if shared := next((gpu for gpu in host.gpus if gpu.is_vgpu), None):
        msg = f"{shared.called} is a vGPU, and the virtual machine cannot split it"
        fix = "leave --mig out; the type of a vGPU that MIG backs has two numbers (A100-1-5C)"
        raise UsageError(msg, code="impossible-host", where="--mig", hint=fix)
    from msgspec.structs import replace

    return replace(host, gpus=tuple(gpu if gpu.part else replace(gpu, part="MIG") for gpu in host.gpus))


def _properties(question: HostQuestion) -> Properties:
    from gpustack.detect.properties import Properties

    names = ("driver", "kernel", "gcc", "clang", "msvc", "glibc", "python")
    return Properties(
        **{name: getattr(question, name) for name in names},
        secure_boot=None if question.secure_boot is None else question.secure_boot is OnOff.ON,
        environment=None if question.environment is None else question.environment.value,
    )


def _load_host(matrix: Matrix, question: HostQuestion, *, with_problems: bool) -> Host:
    """The host from a document, a tree, or this machine."""
    root = question.root
    if question.host is not None:
        from gpustack.detect.hostfile import load

        return load(question.host)
    if root is not None and str(root) != "-" and not (_is_folder(root) or _is_file(root)):
        msg = f"{root} is not a folder"
        raise UsageError(
            msg,
            code="not-a-folder",
            hint="--root requires the root folder of a file system tree, or a text with logs and outputs of commands",
        )
    from gpustack.detect.api import detect

    if question.interpreter is not None and root is None and not _is_file(Path(absolute(question.interpreter))):
        msg = f"there is no file {question.interpreter!r}"
        raise UsageError(msg, code="unreadable-file", where="--python", hint="name an interpreter: /srv/app/bin/python")
    if question.interpreter is not None and root is None and not _is_interpreter(Path(absolute(question.interpreter))):
        msg = f"{question.interpreter!r} is no Python interpreter by its name, and lies in no environment"
        raise UsageError(msg, code="unreadable-file", where="--python", hint="name an interpreter: /srv/app/bin/python")
    return detect(root, matrix, python=absolute(question.interpreter or ""), with_problems=with_problems)


def _is_interpreter(path: Path) -> bool:
    """Whether a file is named like an interpreter, or lies in a virtual environment."""
    return path.name.startswith(("python", "pypy")) or _is_file(path.parent.parent / "pyvenv.cfg")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # name too long, or a NUL in it
        return False


def absolute(python: str) -> str:
    """The path of an interpreter without "..", and with its links: an environment is where its link is."""
    import os.path

    return os.path.abspath(os.path.expanduser(python)) if python else ""  # noqa: PTH100, PTH111 (resolve() follows)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # name too long, or a NUL in it
        return False
