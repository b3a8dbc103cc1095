"""Findings that only say what follows from another one of the same host: they are not told next to it."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.problems.registry import DETECTORS, Finding, problem_of
from gpustack.detect.scene import Scene
from gpustack.model.host import Problem

_OF_MODULE = frozenset({
    "kernel_too_new", "detect-module-build", "detect-clang-kernel", "detect-next-kernel-module",
    "detect-kernel-replaced", "detect-no-module", "detect-kernel-meta",
})  # fmt: skip
"""Why the driver's module is not there for the kernel that runs."""

_OF_START = _OF_MODULE | {
    "secure_boot_unsigned", "nouveau_loaded", "detect-blacklisted", "detect-gpu-driver-window",
    "old_distro_driver_new_gpu", "proprietary_on_blackwell", "driver_library_mismatch", "detect-gpu-lost",
    "detect-gpu-switched-off", "detect-kernel-log", "detect-no-driver", "detect-wsl-windows-driver",
}  # fmt: skip
"""Why the driver does not start."""

_OF_BRANCH = frozenset({"detect-gpu-driver-window", "proprietary_on_blackwell", "old_distro_driver_new_gpu"})
_REFUSED = ("no longer supports the GPU", "does not support this GPU", "requires the open kernel modules")
"""The driver's own words about a GPU that it is not for: the line stands for what the releases tell."""

_NO_MODULE = frozenset({"mod-not-found", "mod-fatal-parts"})
"""Rows of modprobe's lines about a module that is not there."""

_BUILDS = ("compile/", "message/module-compile", "message/nix-driver-build")
"""Starts of the rows about builds of the driver that failed."""

AGE = frozenset({"branch_eol", "eol_distro", "no_repo_for_distro"})
"""What the system is, and no cause of a failure that somebody posts."""

_OF_FABRIC = frozenset({"fm-nothing", "fm-versions"})
"""Rows of services about Fabric Manager, whose lines its own log has too."""

_NIX = "install/install-nixpkgs-says-build"
"""NixOS about a driver and kernel that do not fit, with the cure that NixOS has."""

_POWER = "message/rm-power-plugs"
"""The line that goes before RmInitAdapter's about missing power."""

_BLOCKED = "GPU access blocked by the operating system"
_LOG = "detect-service-log"
_SILENT = ("couldn't communicate with the NVIDIA driver", "No devices were found", "Driver Not Loaded")
"""NVML's words about any driver that has not started."""


def find_problems(scene: Scene) -> tuple[Problem, ...]:
    """All findings of all detectors that no other one explains, the blocking ones first, otherwise as registered."""
    found = [(identity, finding) for identity, detector in DETECTORS.items() for finding in detector(scene)]
    ids = {identity for identity, finding in found if finding.severity != "info" or identity == _LOG}
    everything = {identity for identity, _ in found}
    rows = {finding.row for _, finding in found}
    if scene.evidence.pasted and any(_is_cause(identity, finding) for identity, finding in found):
        found = [(identity, finding) for identity, finding in found if not finding.follows]
    over = {name for _, finding in found for name in finding.over}
    refused = bool(scene.evidence.pasted) and any(
        identity == "detect-kernel-log" and any(words in finding.message for words in _REFUSED)
        for identity, finding in found
    )
    builds = [finding for _, finding in found if finding.row.startswith(_BUILDS)]
    if scene.evidence.pasted:
        found = list(_once(found))
    told = [
        problem_of(scene, identity, finding)
        for identity, finding in found
        if not over & {identity, finding.row}
        and not (everything | rows) & {*finding.after}
        and not _follows(scene, identity, finding, ids, everything)
        and not (scene.evidence.pasted and _is_less(identity, finding, ids | rows, everything))
        and not (refused and identity in _OF_BRANCH)
        and not _is_again(finding, builds)
    ]
    order = {"block": 0, "warn": 1, "info": 2}
    return tuple(sorted(told, key=lambda problem: order[problem.severity]))


def _once(found: list[tuple[str, Finding]]) -> Iterator[tuple[str, Finding]]:
    """Of findings of one kind with one cure the first: a text has many lines of its failure."""
    seen = set()
    for identity, finding in found:
        key = (identity, finding.fix if identity in {_LOG, "detect-unexplained-log"} else finding.message)
        if key not in seen:
            seen.add(key)
            yield identity, finding


def _is_cause(identity: str, finding: Finding) -> bool:
    """Whether a finding can be why a program fails: a warning, or what a line means, and not the age of the system."""
    is_of_line = finding.severity != "info" or identity == "detect-unexplained-log"
    return is_of_line and not finding.follows and identity not in AGE


def _is_again(finding: Finding, builds: list[Finding]) -> bool:
    """Whether it is a further error of a build that failed."""
    return any(finding is one for one in builds[1:] if one.row == builds[0].row)


def _is_less(identity: str, finding: Finding, ids: set[str], everything: set[str]) -> bool:
    """Whether another finding of a pasted text tells more of the same failure; ``ids`` also has the rows' own."""
    if identity == "detect-fabric-log" or finding.row == _POWER:
        return bool(ids & (_OF_FABRIC if identity == "detect-fabric-log" else {"detect-kernel-log"}))
    if identity == "kernel_too_new" and _NIX in ids:
        return True
    if identity in {"kernel_too_new", "detect-next-kernel-module"}:
        return "detect-module-build" in ids or (identity != "kernel_too_new" and "kernel_too_new" in ids)
    return finding.follows and not finding.row and bool(everything - AGE - {identity})


def _follows(scene: Scene, identity: str, finding: Finding, ids: set[str], everything: set[str]) -> bool:
    if finding.row in _NO_MODULE:
        return bool(ids & _OF_MODULE)
    if finding.row.startswith((*_BUILDS, "message/dkms-") if scene.evidence.pasted else _BUILDS):
        return "kernel_too_new" in ids
    if finding.row == "wsl-blocked" or (identity == "detect-nvml" and _BLOCKED in finding.message):
        return "detect-wsl-windows-driver" in ids
    # A text is an excerpt about one failure: what one of its lines names is why others fail.
    by_log = {_LOG, "detect-output"} if scene.evidence.pasted else set()
    if identity in AGE and scene.evidence.pasted:
        return bool(everything - AGE)
    is_vague = any(words in finding.message for words in (*_SILENT, "Insufficient Permissions", "NVML: N/A"))
    if identity == "detect-nvml" and is_vague and scene.evidence.pasted and ids - AGE - {identity}:
        return True
    if identity != "detect-nvml" or not any(words in finding.message for words in _SILENT):
        return False
    is_given_away = bool(scene.gpus) and all(gpu.bound == "vfio-pci" for gpu in scene.gpus)
    return is_given_away or bool(ids & (_OF_START | by_log))
