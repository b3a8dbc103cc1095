"""GPUDirect: memory of GPUs for network adapters (peermem), for the processor (GDRCopy) and for storage (GDS)."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.versions import is_within

_ADAPTERS = "/sys/class/infiniband"


def _is_running(scene: Scene) -> bool:
    """Whether the modules of the running kernel are known, and NVIDIA's is one of them."""
    return "nvidia" in scene.modules and scene.environment in {"bare-metal", "vm"}


def _has_successor(scene: Scene) -> bool:
    """Whether the driver has nvidia_peermem."""
    return is_within(scene.driver_version or "0", ">=470")


@detects("detect-peermem")
def peermem(scene: Scene) -> Iterator[Finding]:
    """RDMA adapters next to proprietary modules, which offer them GPU memory by nvidia_peermem alone."""
    adapters = scene.evidence.listings.get(_ADAPTERS)
    if not adapters or not _is_running(scene) or {"nvidia_peermem", "nv_peer_mem"} & set(scene.modules):
        return
    if scene.flavour == "proprietary" and _has_successor(scene):
        write = "`echo nvidia_peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf`"
        yield Finding(
            message=f"the RDMA adapter {min(adapters)} is here and nvidia_peermem is not loaded: with the"
            " proprietary kernel modules, which have no DMA-BUF, GPUDirect RDMA is off and NCCL copies through memory"
            " of the processor",
            fix=f"{cures.command('modprobe', 'nvidia_peermem')}, and at each boot {write}",
            severity="info",
            reboot=False,
        )


@detects("detect-nv-peer-mem")
def nv_peer_mem(scene: Scene) -> Iterator[Finding]:
    """The module before nvidia_peermem, on a driver that has its successor."""
    mine = scene.installed(r"nvidia-peer-memory(?:-dkms)?|nvidia_peer_memory")
    if (mine or "nv_peer_mem" in scene.modules) and _has_successor(scene):
        drop = f"{cures.remove(scene, mine)}, then " if mine else ""
        unload = f"{cures.command('modprobe', '-r', 'nv_peer_mem')}, then " if "nv_peer_mem" in scene.modules else ""
        yield Finding(
            message=f"nv_peer_mem is installed next to driver {scene.driver_version}, which has its successor"
            " nvidia_peermem: an adapter takes one of them at a time",
            fix=f"{unload}{drop}{cures.command('modprobe', 'nvidia_peermem')}",
            severity="warn",
            reboot=False,
        )


@detects("detect-gdrdrv")
def gdrdrv(scene: Scene) -> Iterator[Finding]:
    """GDRCopy's library without its kernel module."""
    mine = scene.installed(r"libgdrapi|gdrcopy")
    if not mine or not _is_running(scene) or "gdrdrv" in scene.modules:
        return
    load, package = cures.command("modprobe", "gdrdrv"), "gdrdrv-dkms" if scene.os.family == "apt" else "gdrcopy-kmod"
    has_module = scene.installed(r"gdrdrv-dkms|gdrcopy-kmod.*")
    yield Finding(
        message=f"GDRCopy {mine[0].upstream} is installed and its kernel module gdrdrv is not loaded: programs cannot"
        " map GPU memory, and MPI, UCX and NVSHMEM use slower copies",
        fix=f"{load}; if the module does not exist, `dkms status` says why"
        if has_module
        else f"install {package} {mine[0].upstream} from where GDRCopy came, then {load}",
        severity="warn",
        reboot=False,
    )


@detects("detect-nvidia-fs")
def nvidia_fs(scene: Scene) -> Iterator[Finding]:
    """GPUDirect Storage without its kernel module, where neither Secure Boot nor the flavour explains it."""
    mine = scene.installed(r"nvidia-gds.*|nvidia-fs.*")
    if not mine or not _is_running(scene) or "nvidia_fs" in scene.modules:
        return
    if scene.secure_boot or scene.flavour == "proprietary":
        return
    yield Finding(
        message="GPUDirect Storage is installed and its kernel module nvidia_fs is not loaded: reads and writes of"
        " files go through memory of the processor",
        fix=f"{cures.command('modprobe', 'nvidia_fs')}; if the module does not exist, `dkms status` says why",
        severity="warn",
        reboot=False,
    )
