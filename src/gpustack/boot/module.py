"""The kernel module after the packages changed: the one that runs may still be that of the former set."""

from __future__ import annotations

from pathlib import Path

from gpustack.system.run import Runner

_LOADED = Path("/sys/module")
_MODULES = ("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia_peermem", "nvidia")


def replaced(runner: Runner, driver: str, loaded: Path = _LOADED) -> bool:
    """Unload a module of another release, and load that of the driver; False if something holds it."""
    try:
        if (loaded / "nvidia/version").read_text(encoding="ascii").strip() == driver:
            return True
    except OSError:
        return True
    present = [name for name in _MODULES if (loaded / name).is_dir()]
    if runner.run(("modprobe", "--remove", *present), timeout=60).code != 0:
        return False
    return runner.run(("modprobe", "nvidia"), timeout=60).code == 0


def unit(program: str) -> str:
    """The systemd unit that selects the set before anything uses a GPU; ``program`` is quoted."""
    users = (
        "nvidia-persistenced.service nvidia-fabricmanager.service nvidia-imex.service docker.service "
        "containerd.service kubelet.service slurmd.service display-manager.service"
    )
    return (
        "[Unit]\nDescription=Select the NVIDIA driver for the GPUs of this machine\n"
        "DefaultDependencies=no\nConflicts=shutdown.target\nRequiresMountsFor=/usr /var/lib/gpustack\n"
        f"After=local-fs.target systemd-udevd.service\nBefore=sysinit.target shutdown.target {users}\n"
        "ConditionPathExists=/var/lib/gpustack/boot/table\n\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nTimeoutStartSec=30min\nSuccessExitStatus=5\n"
        f"ExecStart={program} boot-select select\n\n"
        "[Install]\nWantedBy=sysinit.target\n"
    )
