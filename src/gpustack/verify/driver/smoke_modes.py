"""Smoke checks of how the driver is set up: fabric, MIG and compute mode, and the libraries that programs need."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gpustack.verify.cuda.errors import SUBJECT
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed
from gpustack.verify.driver.nvml import GpuHealth, health, unreadable
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
"""The driver's libraries by the capability with which a container asks for them."""


@check(
    "driver.modes",
    level="smoke",
    title="fabric, MIG and compute mode let programs in",
    expects="The fabric is set up where there is one, MIG GPUs have instances, and no GPU is closed to programs.",
    mends="`nvidia-smi -q -d COMPUTE`, `nvidia-smi mig -lgi`, `systemctl status nvidia-fabricmanager`",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=40.0,
)
def modes(context: Context) -> Outcome:
    found = health(context)
    bad = unreadable(context, found)
    if bad is not None:
        return bad
    for gpu in found.gpus:
        closed = _closed(gpu, context)
        if closed is not None:
            return closed
    return passed("; ".join(_mode(gpu) for gpu in found.gpus), evidence=found.evidence)


def _closed(gpu: GpuHealth, context: Context) -> Outcome | None:
    """Why this GPU takes no programs; None if it does."""
    if gpu.error:
        return failed(
            f"GPU {gpu.index} cannot be reached: {gpu.error}",
            "look for its Xid line in `sudo dmesg`; one that fell off the bus comes back only by a cold start",
        )
    how = _fabric(gpu, context)
    if how:
        where = "on the machine below the container: " if context.host.environment == "container" else ""
        return failed(
            f"the NVLink fabric of {gpu.called} {how}; CUDA answers with error 802 until it is done",
            f"{where}`systemctl status nvidia-fabricmanager` and /var/log/fabricmanager.log",
        )
    if gpu.mig == 1 and gpu.mig_instances == 0:
        return failed(
            f"MIG is on for {gpu.called}, but it is divided into no instances, so CUDA sees no GPU there",
            "`sudo nvidia-smi mig -cgi PROFILE -C` makes some (they are gone after a reboot);"
            " `sudo nvidia-smi -mig 0` turns MIG off",
        )
    if gpu.compute_mode == 2:
        return failed(
            f"the compute mode of {gpu.called} is prohibited: no program gets a context",
            f"`sudo nvidia-smi -i {gpu.index} -c 0`",
        )
    return None


def _fabric(gpu: GpuHealth, context: Context) -> str:
    """What keeps CUDA waiting for the fabric; "" for nothing. A status counts only where the set-up has ended."""
    if gpu.fabric is None:
        return ""
    state, status = gpu.fabric.get("state"), gpu.fabric.get("status")
    if state == _FABRIC_DONE:
        return f"failed (status {status})" if status else ""
    rows = context.matrix.rows(SUBJECT, "fabric_states", FabricState)
    return next((row.says for row in rows if row.state == state and row.blocks), "")


def _mode(gpu: GpuHealth) -> str:
    said = [
        f"MIG with {gpu.mig_instances} instances" if gpu.mig else "",
        f"MIG {'on' if gpu.mig_pending else 'off'} after the next reset"
        if gpu.mig_pending not in {None, gpu.mig}
        else "",
        f"{_COMPUTE_MODES[gpu.compute_mode]} mode" if gpu.compute_mode in _COMPUTE_MODES else "",
        "fabric set up" if (gpu.fabric or {}).get("state") == _FABRIC_DONE else "",
    ]
    return f"{gpu.called}: {', '.join(part for part in said if part) or 'open to every program'}"


@check(
    "driver.libraries",
    level="smoke",
    title="the driver's libraries, by what they are for",
    expects="The libraries of compute, utility and video are on the loader's path.",
    mends="Install the driver's libraries: `gpustack install driver`.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu, host_facts.is_jetson),
)
def libraries(context: Context) -> Outcome:
    there = _on_loader_path(context)
    missing = {kind: [name for name in names if name not in there] for kind, names in LIBRARIES.items()}
    lacking = {kind: names for kind, names in missing.items() if names}
    if not lacking:
        return passed(f"all of {', '.join(LIBRARIES)}")
    if context.host.environment == "container":
        return _in_container(lacking)
    if "compute" in lacking or "utility" in lacking:
        kind, names = next(iter(lacking.items()))
        return failed(f"the driver library {', '.join(names)} ({kind}) is missing", "`gpustack install driver`")
    return needless(
        f"no {', '.join(lacking['video'])}: this driver was installed without its video libraries",
        "`gpustack install driver` brings them; only encoding and decoding need them",
    )


def _in_container(lacking: dict[str, list[str]]) -> Outcome:
    """What was not asked for is told apart from what the machine below does not have."""
    asked = os.environ.get("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")
    given = set(LIBRARIES) if asked == "all" else {part.strip() for part in asked.split(",")}
    absent = {kind: names for kind, names in lacking.items() if kind in given}
    if absent:
        kind, names = next(iter(absent.items()))
        return failed(
            f"{', '.join(names)} ({kind}) was asked for but is not here: the machine below the container lacks it",
            "install the driver's full set of libraries on that machine",
            actual=f"NVIDIA_DRIVER_CAPABILITIES={asked}",
        )
    kinds = ",".join(sorted(lacking))
    return needless(
        f"the container was not given {', '.join(name for names in lacking.values() for name in names)}",
        f"start it with NVIDIA_DRIVER_CAPABILITIES={asked},{kinds} if programs need {' and '.join(sorted(lacking))}",
    )


def _on_loader_path(context: Context) -> set[str]:
    """The names of the driver's libraries in LD_LIBRARY_PATH and in the loader's cache."""
    wanted = {name for names in LIBRARIES.values() for name in names}
    folders = (Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part)
    found = {name for folder in folders for name in wanted if (folder / name).exists()}
    for ldconfig in ("ldconfig", "/sbin/ldconfig"):
        end = context.run(ldconfig, "-p", timeout=8.0)
        if end.code == 0:
            return found | _named(end.out.split(), wanted)
    return found


def _named(words: Iterable[str], wanted: set[str]) -> set[str]:
    return {word for word in words if word in wanted}
