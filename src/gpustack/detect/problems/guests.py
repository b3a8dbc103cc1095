"""Guests: WSL without what Windows gives it, vGPUs without a licence; and GPUs that are to survive a suspend."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.probes import QUERY
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.rows import within
from gpustack.detect.scene import Scene
from gpustack.detect.services import JOURNAL

WSL_LIBRARIES = "/usr/lib/wsl/lib"
GRIDD = "/etc/nvidia/gridd.conf"
_BLOCKED = "GPU access blocked by the operating system"
_ACQUIRED = r"License (?:acquired|renewed) successfully"
_REFUSED = (
    r"Failed to (?:acquire|renew|borrow|update local trusted store|register client)|Valid GRID license not found|"
    r"Invalid (?:token|response)|License (?:has )?expired"
)
_STATUS = r"License Status\s*:\s*(Unlicensed[^\n]*|Expired[^\n]*)"
_PRESERVE = r"PreserveVideoMemoryAllocations\s*[:=]\s*1"
_SERVICES = ("nvidia-suspend.service", "nvidia-hibernate.service", "nvidia-resume.service")


@detects("detect-wsl-windows-driver")
def wsl(scene: Scene) -> Iterator[Finding]:
    """WSL that lacks the device, the libraries, or access to them: all three come from Windows."""
    if scene.environment != "wsl":
        return
    marks, libraries = scene.evidence.marks, scene.evidence.listings.get(WSL_LIBRARIES)
    error = (scene.evidence.nvml or {}).get("error")
    if (scene.kernel or "").endswith("-Microsoft"):
        yield Finding(
            message=f"this is WSL 1 (kernel {scene.kernel}), which has no GPUs: only WSL 2 passes them on",
            fix="on Windows `wsl --list --verbose` names this system; `wsl --set-version` with that name and 2 "
            "converts it",
            reboot=False,
        )
    elif "/dev/dxg" not in marks and scene.evidence.live:
        yield Finding(
            message="/dev/dxg is missing, so no GPU reaches this WSL: its kernel has no dxgkrnl (a custom kernel), or "
            "Windows has no GPU for it",
            fix="on Windows `wsl --update` and `wsl --shutdown`, without a line kernel= in .wslconfig",
            reboot=False,
        )
    elif libraries is not None and not any(name.startswith("libcuda.so") for name in libraries):
        yield Finding(
            message=f"{WSL_LIBRARIES} has no libcuda: Windows maps its driver's libraries in there, and its driver is "
            "missing or too old for WSL",
            fix="install the current NVIDIA driver on Windows, then `wsl --shutdown` there; install no driver in WSL",
            reboot=False,
        )
    elif _BLOCKED in str(error):
        yield Finding(
            message=f"{_BLOCKED}: Windows lets WSL have no NVIDIA GPU, as with a data-center board in TCC mode or an "
            "old Windows driver",
            fix="on Windows, as administrator: `nvidia-smi` shows the driver model; `nvidia-smi -dm 0` (WDDM) or, on "
            "boards without WDDM, `nvidia-smi -dm 2` (MCDM, of newer drivers) changes it, then reboot Windows; with "
            "WDDM already, update the Windows driver and `wsl --update`; a guest of Hyper-V needs all files of the "
            "host's driver in /usr/lib/wsl/lib and /usr/lib/wsl/drivers, also after each update of it",
            reboot=False,
        )


@detects("detect-vgpu-licence")
def licence(scene: Scene) -> Iterator[Finding]:
    """A vGPU guest that has no licence: after a while its GPU is slow or gone."""
    marks = scene.evidence.marks
    status = re.search(_STATUS, scene.evidence.output(QUERY) or "")
    token = any(path.startswith("/etc/nvidia/ClientConfigToken/") for path in marks)
    line = _refusal(scene)
    if status or line:
        said = f"License Status: {status[1].strip()}" if status else line
        yield Finding(
            message=f"this vGPU guest has no licence ({said}): its GPU is restricted after a while, and CUDA fails",
            fix=(
                "" if token else "put the client token of the licence server into /etc/nvidia/ClientConfigToken, then "
            )
            + "`sudo systemctl restart nvidia-gridd`; `nvidia-smi -q` must say License Status: Licensed",
            reboot=False,
        )
    elif GRIDD in marks and "/usr/bin/nvidia-gridd" in marks and not _is_enabled(scene, "nvidia-gridd.service"):
        yield Finding(
            message="this vGPU guest asks for no licence: nvidia-gridd.service is not enabled",
            fix="`sudo systemctl enable --now nvidia-gridd`; where systemd does not know it, install the GRID driver "
            "again, or a release with the unit",
            reboot=False,
        )


def _refusal(scene: Scene) -> str:
    """What nvidia-gridd wrote first since it last had a licence, "" where it has one or wrote nothing."""
    logs = (scene.evidence.text("/var/log/syslog", "/var/log/messages"), scene.evidence.output(JOURNAL))
    of_daemon = ([line for line in (text or "").splitlines() if "nvidia-gridd" in line] for text in logs)
    lines = next(filter(None, of_daemon), [])
    last = max((number for number, line in enumerate(lines) if re.search(_ACQUIRED, line)), default=-1)
    found = next((line for line in lines[last + 1 :] if re.search(_REFUSED, line)), "")
    return found.partition("nvidia-gridd")[2].partition(": ")[2].strip()


def _is_enabled(scene: Scene, unit: str) -> bool:
    marks = (path for path, mark in scene.evidence.marks.items() if mark == "there")
    return any(path.startswith("/etc/systemd/system/") and path.endswith(f"/{unit}") for path in marks)


@detects("detect-suspend-services")
def suspend(scene: Scene) -> Iterator[Finding]:
    """Video memory that is to be kept over a suspend, without the services that do it."""
    options = (text for path, text in scene.evidence.files.items() if "/modprobe.d/" in path)
    params = scene.evidence.text("/proc/driver/nvidia/params") or ""
    wanted = [text for text in (params, *options) if re.search(_PRESERVE, text)]
    kernel_does = any(re.search(r"UseKernelSuspendNotifiers\s*[:=]\s*1", text) for text in (params, *wanted))
    units = {path.rpartition("/")[2] for path in scene.evidence.marks if "/lib/systemd/system/" in path}
    missing = [unit for unit in _SERVICES if not _is_enabled(scene, unit)]
    if wanted and not kernel_does and "nvidia-suspend.service" in units and missing:
        yield Finding(
            message="NVreg_PreserveVideoMemoryAllocations is 1, but what keeps the video memory does not run: "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not enabled; a suspend fails or loses it",
            fix=f"{cures.command('systemctl', 'unmask', *missing)}, then "
            f"{cures.command('systemctl', 'enable', *missing)}",
            severity="info",
            reboot=False,
        )
    elif not (wanted or kernel_does) and "nvidia-suspend.service" in units and _loses_memory(scene):
        yield Finding(
            message="NVreg_PreserveVideoMemoryAllocations is not set: over a suspend the driver keeps only part of the "
            "video memory, and screens or windows of this laptop can be black afterwards",
            fix=f"{cures.module_option('nvidia NVreg_PreserveVideoMemoryAllocations=1', 'nvidia-suspend', '')}, with "
            f"{cures.command('systemctl', 'enable', *_SERVICES)}",
            severity="info",
            reboot=True,
        )


def _loses_memory(scene: Scene) -> bool:
    """Whether this is a laptop whose driver does not keep the video memory by itself, as it does from 595 on."""
    is_mobile = any(re.search(r"Mobile|Laptop|Max-Q", gpu.name or "") for gpu in scene.gpus)
    return is_mobile and within(scene.driver_version, "<595")
