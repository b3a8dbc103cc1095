"""Kernel modules that were not built: what their build says first, and how this host builds or gets them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse.builds import INSTALLER, BuildLog, failed_builds
from gpustack.detect.parse.kernel import compiler_name
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.rows import view
from gpustack.detect.scene import Scene
from gpustack.model.facts import Rule
from gpustack.versions import is_within, version_key

DKMS_PACKAGES = r"nvidia-dkms-.*|nvidia-kernel-(?:open-)?dkms|kmod-nvidia.*dkms|dkms-nvidia|nvidia.*-dkms"
"""Packages of every system whose modules dkms builds."""

DRIVER_MODULE = r"nvidia(?!-fs|-peermem)[\w-]*"
"""Names under which dkms and akmods build the driver's modules; nvidia-fs is GPUDirect Storage's."""

_PRECOMPILED = r"kmod-nvidia-(?:open-)?\d[\d.]+-\d.*"
_KMOD = r"kmod-nvidia(?:-open)?"
"""Of AlmaLinux and ELRepo, whose names do not have the kernel that they are for."""
_PREBUILT = r"linux-modules-nvidia-(\d[\w-]*?)-\d+\.\d+\.\d+-.*"
_INTERFACE = (
    r"implicit declaration|has no member|undeclared|too (?:few|many) arguments|incompatible pointer|conflicting types|"
    r"unknown type name|No such file or directory|expected .* before|assignment to|initialization of|passing argument"
)
_SHORT = (
    ("No space left", "The disk is full.", "`df -h /var /tmp` shows which file system; make room"),
    (
        r"Killed\b|internal compiler error",
        "The compiler was killed, most likely for lack of memory.",
        "add memory or swap",
    ),
)
_TOOL = (
    r"([\w.+-]+): (?:command )?not found$|"
    r"^make\S*: (?!/lib/modules/|/usr/src/)(?:[\w.+-]*/)*([\w.+-]+): (?:No such file|Command not found)"
)
_OF_TOOLS = {
    "g++": ("g++", "gcc-c++"), "c++": ("g++", "gcc-c++"), "cc": ("gcc", "gcc"), "ld": ("binutils", "binutils"),
    "strip": ("binutils", "binutils"), "objcopy": ("binutils", "binutils"), "pahole": ("pahole", "dwarves"),
}  # fmt: skip
"""The packages of programs whose name they do not have: of Debian's family, and of the others."""

OWN_HEADER = r"(?:nvmisc|nvtypes|nvstatus|os-interface|nv-linux|nv-misc|nv-kernel-interface-api|conftest)\.h"
"""Headers that a driver's own sources have."""

_NO_HEADERS = (
    r"headers .*cannot be found|kernel source.*cannot be found|No rule to make target|Kernel configuration is invalid|"
    r"(?:autoconf\.h|auto\.conf|modules/[^/\s]+/build)\b.{0,20}(?:are missing|No such file)"
)
_CLANG = r"(?:^|/)clang(?:-\d+)?: |ld\.lld: |file not recognized"
_UNFIT = (
    ("GPL-only symbol|GPL-incompatible", "This kernel lets only GPL modules use a function that this driver calls."),
    (
        rf"{OWN_HEADER}: No such file",
        "Kernels from 6.15 on no longer read EXTRA_CFLAGS, with which older drivers name the folders of their headers.",
    ),
    (
        "as enumeration constant|std=(?:c23|gnu17)",
        "gcc 15 takes C23 as its standard, and this driver's sources are older; gcc 14 builds them (CC=gcc-14).",
    ),
)
"""Errors that a newer driver does not have."""


def rebuild(scene: Scene, kernel: str) -> str:
    """The commands that install the driver's module for a kernel on this host, its headers before it."""
    if cures.is_image(scene) and scene.installed("akmod-nvidia.*"):
        return (
            f"{cures.command('rpm-ostree', 'upgrade')}, which builds the layered akmod's module for the image's kernel"
        )
    if scene.installed("akmod-nvidia.*") or any(path.startswith("/var/cache/akmods/") for path in scene.evidence.files):
        return f"{headers(scene, kernel)} and {cures.command('akmods', '--force', '--kernels', kernel)}"
    stream = _precompiled_stream(scene)
    if stream is not None:
        return _precompiled(scene, kernel, stream)
    prebuilt = next((re.sub(_PREBUILT, r"\1", one.name) for one in scene.installed(_PREBUILT)), None)
    if prebuilt is not None and not scene.installed(r"nvidia-dkms-.*"):
        return cures.command("apt-get", "install", f"linux-modules-nvidia-{prebuilt}-{kernel}")
    kmp = next((one.name for one in scene.installed(r"nvidia-.*-kmp-\w+")), None)
    if kmp is not None:
        return f"let zypper install the {kmp} of that release (`zypper search -s {kmp}` lists them)"
    kmod = next((p.name for p in scene.packages if p.installed and re.fullmatch(_KMOD, p.name)), None)
    if kmod is not None and not scene.installed(DKMS_PACKAGES):
        again = cures.command("dnf", "upgrade", "--refresh", kmod)
        return f"{again} once its repository has {kmod} for {kernel}; boot another kernel until then"
    build = cures.command("dkms", "autoinstall", "-k", kernel)
    if "/usr/bin/nvidia-uninstall" in scene.evidence.marks and not _has_dkms(scene):
        return f"{headers(scene, kernel)}, boot {kernel}, and run the driver's .run file again: no dkms builds it here"
    return f"{headers(scene, kernel)} and {build}"


def _has_dkms(scene: Scene) -> bool:
    return any(re.match(rf"/var/lib/dkms/{DRIVER_MODULE}$", folder) for folder in scene.evidence.listings)


def _precompiled_stream(scene: Scene) -> str | None:
    """The enabled module stream of precompiled modules, "" where only their packages tell."""
    stream = next((one.partition(":")[2] for one in scene.streams if one.startswith("nvidia-driver:")), "")
    if scene.installed(r"kmod-nvidia.*dkms|dkms-nvidia") or stream.endswith(("-dkms", "-open")):
        return None
    return stream if stream or scene.installed(_PRECOMPILED) else None


def _precompiled(scene: Scene, kernel: str, stream: str) -> str:
    keep = f"boot kernel {scene.kernel} until then, or " if scene.kernel and scene.kernel != kernel else ""
    change = cures.command("dnf", "module", "switch-to", f"nvidia-driver:{stream or 'latest'}-dkms")
    return (
        f"{cures.command('dnf', 'upgrade', '--refresh', 'kmod-nvidia*')} once NVIDIA's repository has the precompiled "
        f"kmod-nvidia for {kernel}; {keep}{change} builds modules on this host"
    )


def headers(scene: Scene, kernel: str) -> str:
    """The command that installs a kernel's headers, else the words for it."""
    return cures.headers(scene, kernel) or f"install the headers of {kernel}"


@detects("detect-module-build")
def failed(scene: Scene) -> Iterator[Finding]:
    """A build of the driver's module that failed, with the first error of its log."""
    for log in told(scene):
        why, fix = _refused(scene, log) or _cause(scene, log)
        builds_here = log.kernel == scene.kernel and re.search(rf"-(?:k|-kernels) {re.escape(log.kernel)}`$", fix)
        yield Finding(
            message=f"the module of driver {log.version} was not built for {_kernel_of(scene, log)}: "
            f"{log.error or 'the build failed'} ({log.path}). {why}",
            fix=f"{fix}, then `sudo modprobe nvidia`" if builds_here and not scene.driver_is_loaded else fix,
            reboot=False,
        )


def told(scene: Scene) -> Iterator[BuildLog]:
    """The failed builds of the driver's module that are findings: what follows from one is none of its own."""
    for log in failed_builds(scene.evidence):
        has_failed = log.error or log.path.endswith(".failed.log")
        if has_failed and re.fullmatch(DRIVER_MODULE, log.module) and not _built_since(scene, log):
            yield log


def _kernel(scene: Scene, log: BuildLog) -> str:
    """The kernel that the build was for: dkms builds for one that was installed, before it runs."""
    return log.kernel or scene.next_kernel or scene.kernel or ""


def _kernel_of(scene: Scene, log: BuildLog) -> str:
    kernel = _kernel(scene, log)
    return f"kernel {kernel}" if kernel else "the kernel"


def _built_since(scene: Scene, log: BuildLog) -> bool:
    """Whether a module of that kernel is there after all, or the kernel is gone."""
    kernels = scene.evidence.listings.get("/lib/modules", ())
    if log.path == INSTALLER and scene.driver_is_loaded:
        return True
    gone = bool(log.kernel and kernels) and log.kernel not in kernels
    return gone or has_file(scene, log.kernel)


def has_file(scene: Scene, kernel: str) -> bool:
    """Whether a kernel's folder has the driver's module."""
    return any(
        folder.startswith(f"/lib/modules/{kernel}/") and any(name.startswith("nvidia.ko") for name in names)
        for folder, names in scene.evidence.listings.items()
    )


def _refused(scene: Scene, log: BuildLog) -> tuple[str, str] | None:
    """A kernel that the driver's build refuses, and what to do about it."""
    if re.search(r"version[- ]check failed", log.error):
        build = cures.command("env", "IGNORE_CC_MISMATCH=1", "dkms", "autoinstall", "-k", _kernel(scene, log))
        why = "The kernel was built with another gcc than the one here, and this driver's build refuses that."
        return why, f"update the system and start its newest kernel, which its gcc built; at your own risk {build}"
    match = re.search(r"installing for is a (PREEMPT_RT|Xen) kernel", log.error)
    if match is None:
        return None
    lift = f"IGNORE_{match[1].upper()}_PRESENCE=1"
    build = cures.command("env", lift, "dkms", "autoinstall", "-k", _kernel(scene, log))
    return (
        f"NVIDIA does not support {match[1]} kernels, and its build refuses them.",
        f"boot a standard kernel; at your own risk {build} builds it",
    )


def _cause(scene: Scene, log: BuildLog) -> tuple[str, str]:
    """What the first error means, and what puts it right."""
    kernel, error = _kernel(scene, log), log.error
    again = rebuild(scene, kernel)
    lacks = _lacks(scene, error)
    if lacks:
        return lacks[0], f"{lacks[1]}, then {again}"
    if re.search(rf"{_CLANG}|command-line option|plugin", error):
        return _other_compiler(scene, log, kernel)
    if re.search(_NO_HEADERS, error):
        return "The kernel's headers are missing or incomplete.", again
    if re.match(r"(?:g?awk|mawk|perl|python3): ", error):
        return "A script of the kernel's headers fails, not the driver: no driver builds.", _other_kernel(scene, kernel)
    why = next((why for words, why in _UNFIT if re.search(words, error)), "")
    if why:
        return why, _newer_driver(scene, log, kernel)
    rule = ceiling(scene, log.version, log.kernel)
    if rule or re.search(_INTERFACE, error):
        stated = rule.says if rule else ""
        newer = f"Kernel {kernel}" if kernel else "The kernel"
        return f"{newer} is newer than this driver knows. {stated}".rstrip(), _newer_driver(scene, log, kernel)
    return "The rest of the log says more.", f"check {log.path}; then {again}"


def _lacks(scene: Scene, error: str) -> tuple[str, str] | None:
    """The room, package or program that a build did not find, and what adds it."""
    short = next((one for one in _SHORT if re.search(one[0], error)), None)
    if short:
        return short[1], short[2]
    package = re.match(r"(\S+) is needed by ", error)
    if package:
        return "A package that the build requires is missing.", cures.install(scene, [package[1]])
    tool = re.search(_TOOL, error)
    if tool:
        name = tool[1] or tool[2]
        return f"The program {name}, which the build runs, is not installed.", _install(scene, name)
    return None


def _install(scene: Scene, tool: str) -> str:
    """The command that installs a program which a build runs."""
    debian, other = _OF_TOOLS.get(tool, (tool, tool))
    if scene.system is not None and scene.system.manager == "pacman":
        return cures.install(scene, ["base-devel"])
    return cures.install(scene, [debian if scene.os.family == "apt" else other])


def _other_compiler(scene: Scene, log: BuildLog, kernel: str) -> tuple[str, str]:
    if re.search(_CLANG, log.error):
        return _clang(scene, log, kernel)
    if (log.compiler or "").startswith("clang"):
        why = f"The kernel was built with {log.compiler}, the module with gcc."
        return why, f"install clang, llvm and lld, then `sudo env LLVM=1 dkms autoinstall -k {kernel}`"
    why = f"The kernel was built with {log.compiler or 'another compiler'}, the module with an older one."
    if scene.os.family == "apt" and log.compiler:
        build = f"`sudo env CC={log.compiler} dkms autoinstall -k {kernel}`"
        return why, f"{cures.command('apt-get', 'install', log.compiler)}, then {build}"
    return why, f"install {log.compiler or 'the compiler of the kernel'}, then {rebuild(scene, kernel)}"


def _clang(scene: Scene, log: BuildLog, kernel: str) -> tuple[str, str]:
    """A build with clang: of a kernel that gcc built, or of one that clang built and this driver does not know."""
    built = compiler_name(scene.evidence) or log.compiler
    link = scene.evidence.links.get("/usr/bin/cc", "")
    if not built.startswith("gcc") and "clang" not in link:
        return (
            "clang or lld ran, as for a kernel that clang built, and this driver's build does not go with them.",
            f"install clang, llvm and lld in the kernel's release; {_newer_driver(scene, log, kernel)}",
        )
    why = f"The compiler that ran is clang{f' (/usr/bin/cc leads to {link})' if link else ''}, and gcc builds kernels."
    return why, f"{cures.command('ln', '-sf', 'gcc', '/usr/bin/cc')}, then {rebuild(scene, kernel)}"


@detects("detect-clang-kernel")
def clang_missing(scene: Scene) -> Iterator[Finding]:
    """A kernel that clang built, on a system without clang: no module can be built for it."""
    kernel, marks = scene.kernel, scene.evidence.marks
    tools = [name for name in ("clang", "ld.lld") if f"/usr/bin/{name}" not in marks]
    if not kernel or not tools or scene.driver_is_loaded or not compiler_name(scene.evidence).startswith("clang"):
        return
    if scene.installed(DKMS_PACKAGES) or _has_dkms(scene):
        yield Finding(
            message=f"clang built the running kernel {kernel}, and {' and '.join(tools)}"
            f" {'is' if len(tools) == 1 else 'are'} not here: dkms cannot build the driver's module for it",
            fix=f"{cures.install(scene, ['clang', 'llvm', 'lld'])}, then {rebuild(scene, kernel)}; or boot a kernel "
            "that gcc built",
            severity="warn",
            reboot=True,
        )


def _newer_driver(scene: Scene, log: BuildLog, kernel: str) -> str:
    branch = log.version.partition(".")[0]
    last = next((gpu for gpu in scene.gpus if gpu.driver_last == branch), None)
    if last is not None and not _has_newer(scene, log.version):
        return (
            f"boot {_before(scene, kernel)}: {branch} is the last branch for {last.called} and has no newer release; "
            "distributions' packages of it have patches for later kernels (Arch: the AUR's, Debian: the tesla ones)"
        )
    akmods = f", then {rebuild(scene, kernel)}" if scene.installed("akmod-nvidia.*") else ""
    plan = cures.plan(f"driver>{log.version}") if branch.isdigit() else cures.plan("driver")
    return f"{plan} installs a newer release{akmods}; or boot {_before(scene, kernel)}"


def _has_newer(scene: Scene, version: str) -> bool:
    """Whether the facts know a later release of that branch."""
    branch = version.partition(".")[0]
    rows = scene.matrix.rows("driver", "releases", dict)
    found = (str(row["version"]) for row in rows)
    return any(one.partition(".")[0] == branch and version_key(one) > version_key(version) for one in found)


def _other_kernel(scene: Scene, kernel: str) -> str:
    return f"upgrade the kernel and its headers together; until they are mended boot {_before(scene, kernel)}"


def _before(scene: Scene, kernel: str) -> str:
    """Another installed kernel than this one, in words where none is seen."""
    older = [name for name in scene.evidence.listings.get("/lib/modules", ()) if name != kernel]
    return f"kernel {older[-1]}" if older else "the kernel before it"


def ceiling(scene: Scene, version: str, kernel: str) -> Rule | None:
    """The rule by which the modules of a release do not build on a kernel of this host."""
    here = view(scene, kernel=kernel)
    numbers = here.values("kernel")
    rules = (rule for rule in scene.matrix.rules("driver") if rule.needs == "kernel")
    of_it = (rule for rule in rules if is_within(version, rule.of.removeprefix("driver")))
    found = (rule for rule in of_it for number in numbers if any(is_within(number, text) for text in rule.none))
    return next(
        (
            rule
            for rule in found
            if rule.when.flavour in {"", scene.flavour or rule.when.flavour} and here.holds(rule, "driver")
        ),
        None,
    )


@detects("detect-gds-build")
def storage(scene: Scene) -> Iterator[Finding]:
    """A build of GPUDirect Storage's module that failed: the driver is not concerned."""
    for log in failed_builds(scene.evidence):
        if log.module != "nvidia-fs" or not log.error:
            continue
        names = [package.name for package in scene.installed(r"nvidia-fs.*|nvidia-gds.*")] or ["nvidia-fs"]
        drop = cures.command("dkms", "remove", f"nvidia-fs/{log.version}", "--all")
        yield Finding(
            message=f"nvidia-fs {log.version}, GPUDirect Storage's module and not the driver's, was not built for "
            f"{_kernel_of(scene, log)}: {log.error} ({log.path})",
            fix=f"{cures.install(scene, names)} installs a newer nvidia-fs where there is one; without GPUDirect "
            f"Storage {drop}",
            reboot=False,
        )
