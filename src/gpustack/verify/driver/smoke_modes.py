"""Smoke checks of the driver's configuration: fabric, MIG and compute mode, and the libraries that programs require."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gpustack.verify.cuda.errors import SUBJECT
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed
from gpustack.verify.driver.nvml import GpuHealth, health_failure, read_health
from gpustack.verify.frame import host_facts

_FABRIC_DONE = 3
_COMPUTE_MODES = {1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


class FabricState(Struct, frozen=True, kw_only=True):
    """A state of a GPU's registration with the fabric; ``blocks`` where CUDA cannot be used meanwhile."""

    state: int
    says: str
    blocks: bool


LIBRARIES = {
    "compute": ("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1"),
    "utility": ("libnvidia-ml.so.1",),
    "video": ("libnvidia-encode.so.1", "libnvcuvid.so.1"),
}
"""The driver's libraries by the capability that a container requests for them."""


@check(
    "driver.modes",
    level="smoke",
    title="fabric, MIG and compute mode allow programs",
    expects="The NVSwitch fabric (if any) is initialized, GPUs in MIG mode have instances, and no GPU is in prohibited"
    " compute mode.",
    fix="`nvidia-smi -q -d COMPUTE`, `nvidia-smi mig -lgi`, `systemctl status nvidia-fabricmanager`",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=40.0,
)
def modes(context: Context) -> Outcome:
    found = read_health(context)
    bad = health_failure(context, found)
    if bad is not None:
        return bad
    for gpu in found.gpus:
        closed = _closed(gpu, context)
        if closed is not None:
            return closed
    return passed("; ".join(_mode(gpu) for gpu in found.gpus), evidence=found.evidence)


def _closed(gpu: GpuHealth, context: Context) -> Outcome | None:
    """Why this GPU accepts no programs; None if it does."""
    if gpu.error:
        return failed(
            f"GPU {gpu.index} cannot be reached: {gpu.error}",
            "check `sudo dmesg` for its Xid message; a GPU that fell off the bus requires a power cycle",
        )
    how = _fabric(gpu, context)
    if how:
        where = "on the container's host: " if context.host.environment == "container" else ""
        return failed(
            f"the NVLink fabric of {gpu.called} {how}; until then, CUDA fails with error 802",
            f"{where}see `systemctl status nvidia-fabricmanager` and /var/log/fabricmanager.log",
        )
    if gpu.mig == 1 and gpu.mig_instances == 0:
        return failed(
            f"{gpu.called} is in MIG mode without instances, so CUDA cannot use it",
            "create instances: `sudo nvidia-smi mig -cgi PROFILE -C` (a reboot removes them), or disable MIG:"
            " `sudo nvidia-smi -mig 0`",
        )
    if gpu.compute_mode == 2:
        return failed(
            f"{gpu.called} is in prohibited compute mode: no program can create a context",
            f"`sudo nvidia-smi -i {gpu.index} -c 0`",
        )
    return None


def _fabric(gpu: GpuHealth, context: Context) -> str:
    """Why CUDA waits for the fabric; "" where it does not. A status counts only after initialization has ended."""
    if gpu.fabric is None:
        return ""
    state, status = gpu.fabric.get("state"), gpu.fabric.get("status")
    if state == _FABRIC_DONE:
        return f"failed to initialize (status {status})" if status else ""
    rows = context.matrix.rows(SUBJECT, "fabric_states", FabricState)
    return next((row.says for row in rows if row.state == state and row.blocks), "")


def _mode(gpu: GpuHealth) -> str:
    said = [
        f"MIG with {gpu.mig_instances} instances" if gpu.mig else "",
        f"MIG {'on' if gpu.mig_pending else 'off'} after the next reset"
        if gpu.mig_pending not in {None, gpu.mig}
        else "",
        f"{_COMPUTE_MODES[gpu.compute_mode]} mode" if gpu.compute_mode in _COMPUTE_MODES else "",
        "fabric initialized" if (gpu.fabric or {}).get("state") == _FABRIC_DONE else "",
    ]
    return f"{gpu.called}: {', '.join(part for part in said if part) or 'available to every program'}"


@check(
    "driver.libraries",
    level="smoke",
    title="driver libraries for compute, utility and video",
    expects="The driver's libraries for compute, utility and video are on the loader's path.",
    fix="Install the driver's libraries: `gpustack install driver`.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu, host_facts.is_jetson),
)
def libraries(context: Context) -> Outcome:
    found = _on_loader_path(context)
    missing = {kind: [name for name in names if name not in found] for kind, names in LIBRARIES.items()}
    lacking = {kind: names for kind, names in missing.items() if names}
    if not lacking:
        return passed(f"all of {', '.join(LIBRARIES)}")
    if context.host.environment == "container":
        return _in_container(lacking)
    if "compute" in lacking or "utility" in lacking:
        kind, names = next(iter(lacking.items()))
        return failed(f"the driver library {', '.join(names)} ({kind}) is missing", "`gpustack install driver`")
    return needless(
        f"{', '.join(lacking['video'])} not found: the driver was installed without its video libraries",
        "`gpustack install driver` installs them; only encoding and decoding require them",
    )


def _in_container(lacking: dict[str, list[str]]) -> Outcome:
    """Distinguishes what was not requested from what the container's host lacks."""
    asked = os.environ.get("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")
    given = set(LIBRARIES) if asked == "all" else {part.strip() for part in asked.split(",")}
    absent = {kind: names for kind, names in lacking.items() if kind in given}
    if absent:
        kind, names = next(iter(absent.items()))
        return failed(
            f"{', '.join(names)} ({kind}) was requested but is missing on the container's host",
            "install all of the driver's libraries on the host",
            actual=f"NVIDIA_DRIVER_CAPABILITIES={asked}",
        )
    kinds = ",".join(sorted(lacking))
    return needless(
        f"not available in this container: {', '.join(name for names in lacking.values() for name in names)}",
        f"start it with NVIDIA_DRIVER_CAPABILITIES={asked},{kinds} if programs require {' and '.join(sorted(lacking))}",
    )


def _on_loader_path(context: Context) -> set[str]:
    """The names of the driver's libraries in LD_LIBRARY_PATH and in the loader's cache."""
    wanted = {name for names in LIBRARIES.values() for name in names}
    folders = (Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part)
    found = {name for folder in folders for name in wanted if (folder / name).exists()}
    for ldconfig in ("ldconfig", "/sbin/ldconfig"):
        end = context.run(ldconfig, "-p", timeout=8.0)
        if end.code == 0:
            return found | _select(end.out.split(), wanted)
    return found


def _select(words: Iterable[str], wanted: set[str]) -> set[str]:
    return {word for word in words if word in wanted}
