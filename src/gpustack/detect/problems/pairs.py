"""Driver, GPU and kernel that are known to go wrong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import settings
from gpustack.detect.problems import cures
from gpustack.detect.problems.kernels import initramfs_command
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.solve.pairs import Pair, pairs_of


@detects("detect-known-bad")
def known_bad(scene: Scene) -> Iterator[Finding]:
    """The driver that is here on GPUs, a kernel or a flavour with which it goes wrong."""
    version, module = scene.driver_version, scene.module
    if version is None or scene.environment in {"wsl", "jetson", "container"}:
        return
    match = re.match(r"\d+(?:\.\d+)*", scene.kernel or scene.next_kernel or "")
    kernel = match[0] if match else None
    flavour = module.flavour if module is not None else None
    for row in pairs_of(scene.matrix, scene.gpus, kernel, scene.os.repo):
        if row.holds(version, flavour) and _is_set(scene, row.setting) and not (row.option and _is_cured(scene, row)):
            kernel_too = f" with kernel {kernel}" if row.kernel else ""
            yield Finding(
                message=f"{row.reason(version, scene.gpus)}{kernel_too}",
                fix=_cure(scene, row),
                severity="info" if row.effect == "warns" else "warn",
                reboot=bool(row.option),
                sources=scene.matrix.addresses(row.src),
            )


def _is_set(scene: Scene, setting: str) -> bool:
    """Whether the module has the setting that a row speaks of: the loaded one, else by its options."""
    name, _, value = setting.partition("=")
    option = settings.module_options(scene.evidence).get(("nvidia", f"NVreg_{name}"), ("", ""))[0]
    return settings.same_value(settings.params(scene.evidence).get(name, option), value)


def _is_cured(scene: Scene, row: Pair) -> bool:
    """Whether the option that helps is set already."""
    module, *wanted = row.option.split()
    found = settings.module_options(scene.evidence)
    pairs = (word.partition("=") for word in wanted)
    return all(settings.same_value(found.get((module, name), ("", ""))[0], value) for name, _, value in pairs)


def _cure(scene: Scene, row: Pair) -> str:
    parts = [cures.module_option(row.option, f"gpustack-{row.id}", initramfs_command(scene))] if row.option else []
    return "; or ".join([*parts, *([row.fix] if row.fix else [])])
