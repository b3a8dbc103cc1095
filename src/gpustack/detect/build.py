"""Evidence to Host. Pure: the same evidence and facts give the same host on any machine and day."""

from __future__ import annotations

import re

from msgspec import UNSET
from msgspec.structs import replace

from gpustack.detect.evidence import Evidence
from gpustack.detect.installed import find_installed, toolkit_copies
from gpustack.detect.looked import looked
from gpustack.detect.parse import platform, repositories, toolkit
from gpustack.detect.parse.packages import matching
from gpustack.detect.scene import Scene, build_scene
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host, Problem


def host_of(evidence: Evidence, matrix: Matrix, *, with_problems: bool = True) -> Host:
    """The host that the evidence describes, with all its problems."""
    scene = build_scene(evidence, matrix)
    host = _without_environments(scene, evidence, with_problems=with_problems)
    if not any(path.endswith(("/site-packages", "/dist-packages")) for path in evidence.listings):
        return host
    from gpustack.detect.environments.judge import judged  # noqa: PLC0415 (most hosts have no framework)

    found = judged(scene, host)
    return _without_symptoms(scene, found) if evidence.excerpt and with_problems else found


def _without_symptoms(scene: Scene, host: Host) -> Host:
    """The host of a text without what PyTorch reports of a build that its packages name."""
    from gpustack.detect.environments.named import without_reports  # noqa: PLC0415 (texts only)

    return replace(host, problems=without_reports(scene, host.problems))


def _without_environments(scene: Scene, evidence: Evidence, *, with_problems: bool) -> Host:
    return Host(
        name=platform.host_name(evidence) or UNSET,
        os=scene.os,
        arch=scene.arch,
        kernel=scene.kernel,
        next_kernel=scene.next_kernel,
        environment=scene.environment,
        secure_boot=scene.secure_boot,
        gpus=scene.gpus,
        nvswitches=scene.nvswitches,
        module=scene.module,
        installed=find_installed(scene),
        copies=(*scene.copies, *toolkit_copies(scene)),
        glibc=toolkit.glibc_version(evidence, scene.packages) or None,
        gcc=_gcc(scene),
        clang=_numbers(scene, "clang", r"\d+(?:\.\d+)*"),
        python=_python(scene),
        repositories=repositories.nvidia_repositories(scene.sources, scene.source_faults),
        keys=scene.keys,
        pins=repositories.pins(evidence),
        holds=repositories.holds(evidence, scene.packages),
        streams=repositories.streams(evidence),
        codeready=repositories.codeready(scene.sources, scene.arch or "") or UNSET,
        l4t=platform.l4t_release(scene.evidence) or UNSET,
        cross_packages={one.name: one.version for one in scene.installed(CROSS_PACKAGES)} or UNSET,
        reboot_pending=platform.reboot_pending(evidence, scene.kernel, scene.next_kernel),
        problems=_problems(scene) if with_problems else (),
        looked=looked(scene),
    )


def _problems(scene: Scene) -> tuple[Problem, ...]:
    from gpustack.detect.problems import find_problems  # noqa: PLC0415 (half of what a host costs)

    return find_problems(scene)


CROSS_PACKAGES = r"cuda-cross-.*|libcudnn\d+-(?:dev-)?cross-.*|libcudnn\d+-samples|g\+\+-aarch64-linux-gnu"
"""Compilers, headers, libraries and samples that build programs for another machine."""


def _gcc(scene: Scene) -> str | None:
    number = re.match(r"\d+(?:\.\d+)*", toolkit.gcc_version(scene.evidence, scene.packages))
    return number[0] if number else None


def _python(scene: Scene) -> str | None:
    found = _numbers(scene, r"python3", r"\d+\.\d+(?:\.\d+)?")
    name = re.fullmatch(r"python(3\.\d+)", scene.evidence.links.get("/usr/bin/python3", "").rpartition("/")[2])
    return found or (name[1] if name else None)


def _numbers(scene: Scene, package: str, pattern: str) -> str | None:
    found = matching(scene.packages, package)
    match = re.match(pattern, found[0].version) if found else None
    return match[0] if match else None
