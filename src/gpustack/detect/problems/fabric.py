"""How GPUs reach each other: IOMMU and ACS between them, what boards with NVLink 5 need, IMEX channels."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from gpustack.detect.parse import pci, settings
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, Severity, detects
from gpustack.detect.problems.rows import within
from gpustack.detect.scene import Scene

_NVLINK5 = ">=10.0"
_IMEX = r"nvidia-imex(?:-\d+)?"
_CHANNELS = "nvidia-caps-imex-channels"
_UNITS = ("/usr/lib/systemd/system", "/lib/systemd/system")
_WANTED = tuple(f"{folder}/multi-user.target.wants" for folder in ("/etc/systemd/system", *_UNITS))
_TRANSLATE, _PASS = {"intel_iommu=on", "amd_iommu=on"}, {"iommu=pt", "iommu.passthrough=1"}
"""Words of the kernel's command line."""

_MOST = 8
"""So many bridges are named."""

_NO_SWITCH = r"GeForce|RTX|Quadro|\b(?:[TLP]4|P40|A2|A10G?|A16|A30|A40|L40S?)\b"
_CHANNEL_OPTION = "NVreg_CreateImexChannel0=1"


def _are_peers(scene: Scene) -> bool:
    """Whether several GPUs of this machine reach each other over PCIe only."""
    over_pcie = [gpu for gpu in scene.gpus if gpu.fabric not in {"nvswitch", "nvl"}]
    return len(over_pcie) > 1 and scene.environment == "bare-metal"


def _severity(scene: Scene) -> Severity:
    """GeForce boards have no peer access by NVIDIA's own driver: it is a remark there."""
    return "info" if all(gpu.kind == "consumer" for gpu in scene.gpus) else "warn"


@detects("detect-iommu")
def iommu(scene: Scene) -> Iterator[Finding]:
    """An IOMMU that translates what GPUs send to each other."""
    if not _are_peers(scene):
        return
    words = settings.command_line(scene.evidence)
    kinds = {scene.evidence.line(f"{pci.BASE}/{gpu.bus_id}/iommu_group/type") or "" for gpu in scene.gpus}
    translating = next((kind for kind in sorted(kinds) if kind.startswith("DMA")), "")
    is_on = _TRANSLATE & set(words) and not _PASS & set(words)
    if translating or (not any(kinds) and is_on):
        told = f"mode {translating}" if translating else "the kernel's command line has no iommu=pt"
        yield Finding(
            message=f"the IOMMU translates what GPUs send to each other over PCIe ({told}): peer copies and NCCL hang, "
            "are slow, or return wrong data",
            fix=f"{cures.kernel_argument(scene, 'iommu=pt')}; or switch the IOMMU off in the firmware settings",
            severity=_severity(scene),
            reboot=True,
        )


@detects("detect-acs")
def acs(scene: Scene) -> Iterator[Finding]:
    """Bridges that send peers' requests up to the root."""
    if not _are_peers(scene):
        return
    found = [
        path.removesuffix("/config").rpartition("/")[2]
        for path, mark in sorted(scene.evidence.marks.items())
        if mark.startswith("acs ") and int(mark.removeprefix("acs "), 16) & pci.REDIRECTS
    ][:_MOST]
    if found:
        commands = " && ".join(f"sudo setpci -s {name} ECAP_ACS+6.w=0000" for name in found)
        yield Finding(
            message=f"ACS is on in the PCIe bridges between GPUs ({', '.join(found)}): their requests to"
            " each other go up to the processor, so that peer copies and NCCL hang or are slow",
            fix=f"switch ACS off in the firmware settings; until the next boot: `{commands}`. Leave it on where GPUs"
            " are handed to virtual machines",
            severity=_severity(scene),
            reboot=False,
        )


@detects("detect-nvlink5")
def nvlink5(scene: Scene) -> Iterator[Finding]:
    """What NVSwitches of NVLink 5 are managed with: InfiniBand modules and the subnet manager."""
    boards = [gpu for gpu in scene.gpus if gpu.fabric == "nvswitch" and within(gpu.compute_capability, _NVLINK5)]
    if len(boards) < 2 or scene.environment not in {"bare-metal", "vm"} or not scene.modules:
        return
    modules = [name for name in ("mlx5_ib", "ib_umad") if name not in scene.modules]
    has_manager = not scene.packages or scene.installed("nvlsm") or "/opt/nvidia/nvlsm" in scene.evidence.marks
    lacking = [*(f"the kernel module {name}" for name in modules), *([] if has_manager else ["the package nvlsm"])]
    if not lacking:
        return
    names = " and ".join(dict.fromkeys(gpu.called for gpu in boards))
    is_extra = scene.os.family == "apt" and "mlx5_ib" in modules and scene.kernel
    packages = [
        *([f"linux-modules-extra-{scene.kernel}"] if is_extra else []),
        *([] if has_manager else ["nvlsm", "infiniband-diags"]),
    ]
    steps = [cures.install(scene, packages)] if packages else []
    if modules:
        load = cures.command("modprobe", "-a", *modules)
        written = f"`echo {shlex.quote(' '.join(modules))} | sudo tee /etc/modules-load.d/nvlink5.conf`"
        steps += [load, written]
    yield Finding(
        message=f"the NVSwitches of {names} boards are managed over InfiniBand, and {' and '.join(lacking)}"
        f" {'is' if len(lacking) == 1 else 'are'} missing: Fabric Manager does not start, CUDA answers error 802",
        fix=f"{', '.join(steps)}, then `sudo systemctl restart nvidia-fabricmanager`",
        severity="warn",
        reboot=False,
    )


@detects("detect-fabric-manager-unneeded")
def unneeded_manager(scene: Scene) -> Iterator[Finding]:
    """Fabric Manager on a machine whose GPUs have no NVSwitch."""
    is_enabled = any(f"{folder}/nvidia-fabricmanager.service" in scene.evidence.marks for folder in _WANTED)
    names = dict.fromkeys(gpu.called for gpu in scene.gpus)
    if is_enabled and scene.gpus and all(re.search(_NO_SWITCH, name) for name in names):
        yield Finding(
            message=f"nvidia-fabricmanager is enabled, and {next(iter(names))} has no NVSwitch: it fails at each start"
            " (NV_WARN_NOTHING_TO_DO); bridges between two boards need no Fabric Manager",
            fix="`sudo systemctl disable --now nvidia-fabricmanager`",
            severity="info",
            reboot=False,
        )


@detects("detect-fabric-manager-disabled")
def disabled_manager(scene: Scene) -> Iterator[Finding]:
    """Fabric Manager is installed on a machine with NVSwitches, and systemd does not start it."""
    is_here = any(f"{folder}/nvidia-fabricmanager.service" in scene.evidence.marks for folder in _UNITS)
    is_enabled = any(f"{folder}/nvidia-fabricmanager.service" in scene.evidence.marks for folder in _WANTED)
    if is_here and scene.nvswitches and not is_enabled and scene.environment in {"bare-metal", "vm"}:
        yield Finding(
            message="nvidia-fabricmanager is installed and not enabled: after a boot the GPUs behind "
            f"the NVSwitches ({scene.nvswitches} found) stay unready, and CUDA answers error 802 (system not yet "
            "initialized)",
            fix="`sudo systemctl enable --now nvidia-fabricmanager`",
            severity="warn",
            reboot=False,
        )


@detects("detect-imex")
def imex(scene: Scene) -> Iterator[Finding]:
    """A compute tray of an NVLink rack: IMEX and a channel for its programs."""
    trays = [gpu for gpu in scene.gpus if gpu.fabric == "nvl"]
    if not trays or scene.driver_version is None or scene.environment not in {"bare-metal", "vm"}:
        return
    name = trays[0].called
    if not scene.installed(_IMEX):
        yield Finding(
            message=f"{name} is the GPU of an NVLink rack, and nvidia-imex is not installed: programs of several trays"
            " cannot share GPU memory",
            fix=f"{cures.plan(f'driver=={scene.driver_version}', 'imex')} installs it in the driver's version; in "
            "Kubernetes, NVIDIA's DRA driver runs it",
            severity="warn",
        )
        return
    has_channels = scene.evidence.listings.get(f"/dev/{_CHANNELS}")
    options = settings.module_options(scene.evidence)
    if (
        _CHANNELS in (scene.evidence.text("/proc/devices") or "")
        and not has_channels
        and (options.get(("nvidia", "NVreg_CreateImexChannel0"), ("", ""))[0] != "1")
    ):
        yield Finding(
            message=f"IMEX is installed but /dev/{_CHANNELS} has no channel: cuMemCreate of memory that trays share "
            "answers CUDA_ERROR_NOT_PERMITTED",
            fix=f"for one user, {cures.module_option(f'nvidia {_CHANNEL_OPTION}', 'nvidia-imex', '')}; in Kubernetes, "
            "NVIDIA's DRA driver makes channels",
            severity="warn",
            reboot=True,
        )
