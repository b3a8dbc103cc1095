"""Reads the health of every GPU from NVML and prints it as JSON. A separate program: a wedged driver hangs only it."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import pynvml


def value(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 (each call has its own type)
    """One value; None if this GPU or driver does not support it."""
    try:
        found = function(*arguments)
    except (pynvml.NVMLError, AttributeError, TypeError):
        return None
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found


def asked(name: str, *arguments: object) -> Any:  # noqa: ANN401 (each call has its own type)
    function = getattr(pynvml, name, None)
    return None if function is None else value(function, *arguments)


def remapped(handle: Any) -> dict[str, Any] | None:  # noqa: ANN401 (a handle of NVML's)
    rows = asked("nvmlDeviceGetRemappedRows", handle)
    if rows is None:
        return None
    names = ("corrected", "uncorrected", "pending", "failed")
    return {name: int(number) for name, number in zip(names, rows, strict=False)}


def fabric(handle: Any) -> dict[str, Any] | None:  # noqa: ANN401 (a handle of NVML's)
    kind = getattr(pynvml, "c_nvmlGpuFabricInfo_t", None)
    if kind is None:
        return None
    info = kind()
    try:
        # pynvml passes this argument on unchanged, and the library expects a pointer.
        pynvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    except (pynvml.NVMLError, AttributeError, TypeError):
        return None
    return {"state": int(info.state), "status": int(info.status)}


def gpu(number: int) -> dict[str, Any]:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    except pynvml.NVMLError as exc:
        return {"index": number, "error": str(exc), "code": exc.value}
    pci = value(pynvml.nvmlDeviceGetPciInfo, handle)
    bus = getattr(pci, "busId", b"")
    ecc = asked("nvmlDeviceGetEccMode", handle)
    mig = asked("nvmlDeviceGetMigMode", handle)
    memory = value(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return {
        "index": number,
        "name": value(pynvml.nvmlDeviceGetName, handle),
        "uuid": value(pynvml.nvmlDeviceGetUUID, handle),
        "bus_id": bus.decode("ascii", "replace") if isinstance(bus, bytes) else bus,
        "ecc": ecc[0] if ecc else None,
        "ecc_pending": ecc[1] if ecc else None,
        "uncorrected": asked("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
        "uncorrected_ever": asked("nvmlDeviceGetTotalEccErrors", handle, 1, 1),
        "corrected": asked("nvmlDeviceGetTotalEccErrors", handle, 0, 0),
        "remapped": remapped(handle),
        "retirement_pending": asked("nvmlDeviceGetRetiredPagesPendingStatus", handle),
        "throttle": asked("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
        "temperature": asked("nvmlDeviceGetTemperature", handle, 0),
        "power_mw": asked("nvmlDeviceGetPowerUsage", handle),
        "power_limit_mw": asked("nvmlDeviceGetEnforcedPowerLimit", handle),
        "power_default_mw": asked("nvmlDeviceGetPowerManagementDefaultLimit", handle),
        "clock_mhz": asked("nvmlDeviceGetClockInfo", handle, 1),
        "clock_max_mhz": asked("nvmlDeviceGetMaxClockInfo", handle, 1),
        "memory_used_mib": memory.used >> 20 if memory else None,
        "memory_mib": memory.total >> 20 if memory else None,
        "persistence": asked("nvmlDeviceGetPersistenceMode", handle),
        "compute_mode": asked("nvmlDeviceGetComputeMode", handle),
        "mig": mig[0] if mig else None,
        "mig_pending": mig[1] if mig else None,
        "mig_instances": instances(handle) if mig and mig[0] else None,
        "fabric": fabric(handle),
        "link_width": asked("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "link_width_max": asked("nvmlDeviceGetMaxPcieLinkWidth", handle),
    }


def instances(handle: Any) -> int:  # noqa: ANN401 (a handle of NVML's)
    """How many MIG instances a GPU has."""
    count = asked("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    return sum(asked("nvmlDeviceGetMigDeviceHandleByIndex", handle, number) is not None for number in range(count))


def main() -> None:
    try:
        pynvml.nvmlInit()
        answer = {
            "driver": value(pynvml.nvmlSystemGetDriverVersion),
            "gpus": [gpu(number) for number in range(pynvml.nvmlDeviceGetCount())],
        }
    except pynvml.NVMLError as exc:
        answer = {"error": str(exc), "code": exc.value}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
