"""CUDA toolkits: mixed installations, stale links, host compilers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse.toolkit import default_toolkit, gcc_version
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.rows import view
from gpustack.detect.scene import Scene
from gpustack.model.facts import Rule
from gpustack.versions import is_within


@detects("mix_toolkit_runfile_packages")
def toolkit_mixed(scene: Scene) -> Iterator[Finding]:
    """One X.Y both from a runfile and from packages."""
    for kit in scene.toolkits:
        if kit.runfile and kit.packages:
            yield Finding(
                message=f"CUDA {kit.folder} in {kit.path} was installed from a runfile and from packages "
                f"({kit.packages[0]})",
                fix=f"{cures.command(f'{kit.path}/bin/cuda-uninstaller')}, then reinstall the packages",
                reboot=False,
            )


@detects("stale_cuda_symlink")
def stale_link(scene: Scene) -> Iterator[Finding]:
    """/usr/local/cuda points nowhere, or to an older toolkit."""
    evidence = scene.evidence
    kits = tuple(kit for kit in scene.toolkits if kit.path != "/usr")
    target = evidence.links.get("/usr/local/cuda")
    if target is not None and evidence.marks.get("/usr/local/cuda") == "dangling":
        final = evidence.links.get(target, target)
        yield Finding(
            message=f"/usr/local/cuda points at {final}, which does not exist (a stale link)",
            fix=f"{cures.command('ln', '-sfn', kits[-1].path, '/usr/local/cuda')}, or "
            "`sudo update-alternatives --config cuda`"
            if kits
            else f"{cures.command('rm', '/usr/local/cuda')}, or install a toolkit",
            reboot=False,
        )
    default = default_toolkit(evidence, kits)
    if default is None:
        return
    if kits[-1] is not default:
        newest = kits[-1].path
        yield Finding(
            message=f"/usr/local/cuda points at {default.path} ({default.version}) although {newest} is installed too",
            fix=f"{cures.command('ln', '-sfn', newest, '/usr/local/cuda')} makes the newer one the default",
            severity="info",
            reboot=False,
        )


@detects("ubuntu2604_same_named_cuda")
def canonical_cuda(scene: Scene) -> Iterator[Finding]:
    """Canonical's CUDA packages on Ubuntu 26.04, which share NVIDIA's names."""
    mine = [
        p
        for p in scene.installed(r"cuda-.*-13-1|libcusolver-13-1|libnvvm-13-1")
        if re.search(r"-0ubuntu\d+$", p.version)
    ]
    if scene.os.id == "ubuntu" and scene.os.version_id == "26.04" and mine:
        yield Finding(
            message=f"{mine[0].name} {mine[0].version} is Canonical's build of a package that NVIDIA's repository "
            f"has under the same name",
            fix=f"{cures.remove(scene, mine)}, then {cures.plan('cuda')}, which gives NVIDIA's packages priority",
        )


def _refusing(scene: Scene, cuda: str, needs: str, number: str) -> Rule | None:
    """The first rule about compiling with this CUDA with a range that a version of something else is outside of."""
    here = view(scene)
    return next(
        (
            rule
            for rule in scene.matrix.rules("cuda")
            if rule.needs == needs
            and rule.any
            and rule.strength == "compiling"
            and is_within(cuda, rule.of.removeprefix("cuda"))
            and not any(is_within(number, text) for text in rule.any)
            and here.holds(rule, "cuda")
        ),
        None,
    )


@detects("nvcc_host_gcc")
def host_compiler(scene: Scene) -> Iterator[Finding]:
    """The default gcc is outside of the range that the default toolkit supports."""
    kit = default_toolkit(scene.evidence, scene.toolkits)
    number = re.match(r"\d+(?:\.\d+)*", gcc_version(scene.evidence, scene.packages))
    if kit is None or number is None or kit.path == "/usr":
        return
    rule = _refusing(scene, kit.version, "gcc", number[0])
    if rule is not None:
        yield Finding(
            message=f"gcc {number[0]} is outside what nvcc of CUDA {kit.version} accepts as host compiler "
            f"({' or '.join(rule.any)})",
            fix=_older_compiler(scene, rule.any),
            reboot=False,
            severity="info",
        )


@detects("detect-toolkit-glibc")
def headers_of_c(scene: Scene) -> Iterator[Finding]:
    """The default toolkit's headers declare functions that this system's C library declares otherwise."""
    kit = default_toolkit(scene.evidence, scene.toolkits)
    number = next(iter(view(scene).values("glibc")), "")
    if kit is None or not number or kit.path == "/usr":
        return
    rule = _refusing(scene, kit.version, "glibc", number)
    if rule is not None:
        yield Finding(
            message=f"nvcc of CUDA {kit.version} in {kit.path} does not compile against this system's glibc "
            f"{number}: {rule.says}",
            fix=f"{cures.plan('cuda>=13.2')} where driver and GPUs allow it; or compile in a container of an older "
            "system",
            severity="info",
            reboot=False,
            sources=scene.matrix.addresses(rule.src),
        )


@detects("detect-two-nvcc")
def two_compilers(scene: Scene) -> Iterator[Finding]:
    """The distribution's nvcc in /usr/bin next to NVIDIA's toolkit: PATH decides, and CMake takes the former."""
    own = next((kit for kit in scene.toolkits if kit.path == "/usr"), None)
    kit = next((kit for kit in reversed(scene.toolkits) if kit.path != "/usr"), None)
    if own is None or kit is None or own.folder == kit.folder or not scene.evidence.has(f"{kit.path}/bin/nvcc"):
        return
    if not scene.evidence.has("/usr/bin/nvcc"):
        return
    yield Finding(
        message=f"two CUDA compilers: /usr/bin/nvcc of the package {own.packages[0]} is {own.folder}, and {kit.path} "
        "is "
        f"{kit.folder}: CMake and builds find the first in PATH, mostly /usr/bin",
        fix=f"{cures.remove(scene, scene.installed(own.packages[0]))}; or `export PATH={kit.path}/bin:$PATH`, and "
        f"-DCMAKE_CUDA_COMPILER={kit.path}/bin/nvcc for CMake",
        severity="info",
        reboot=False,
    )


def _older_compiler(scene: Scene, windows: tuple[str, ...]) -> str:
    """How to install a supported compiler; Debian and derivatives name the packages by major version."""
    for major in re.findall(r"<(\d+)", windows[-1]) if scene.os.family == "apt" else ():
        newest = f"g++-{int(major) - 1}"
        return f"{cures.command('apt-get', 'install', newest)} and `nvcc -ccbin {newest}`, or an older one"
    return "install a g++ inside that window and pass it with `nvcc -ccbin`"
