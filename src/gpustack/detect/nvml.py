"""What the driver itself reports about its GPUs, through NVML. The only importer of pynvml."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

TIME_LIMIT_S = 10.0
"""A wedged driver can keep NVML from answering; detection continues without it after this time."""


def read_nvml() -> dict[str, Any] | None:
    """Driver version and one record per GPU; {"error": ...} if NVML fails, None if it is not installed."""
    answer: dict[str, Any] = {}
    worker = threading.Thread(target=_ask, args=(answer,), daemon=True)
    worker.start()
    worker.join(TIME_LIMIT_S)
    if worker.is_alive():
        return {"error": f"NVML gave no answer within {TIME_LIMIT_S:g} s"}
    return answer or None


def _ask(answer: dict[str, Any]) -> None:
    try:
        import pynvml  # noqa: PLC0415
    except ImportError:
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        answer["error"] = str(exc)
        return
    try:
        answer["driver"] = _text(pynvml.nvmlSystemGetDriverVersion())
        answer["gpus"] = [_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as exc:
        answer["error"] = str(exc)
    finally:
        _value(pynvml.nvmlShutdown)


def _gpu(pynvml: ModuleType, number: int) -> dict[str, Any]:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    except pynvml.NVMLError as exc:
        return {"error": str(exc)}
    pci = _value(pynvml.nvmlDeviceGetPciInfo, handle)
    capability = _value(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _value(pynvml.nvmlDeviceGetMemoryInfo, handle)
    mig = _value(pynvml.nvmlDeviceGetMigMode, handle)
    return {
        "name": _text(_value(pynvml.nvmlDeviceGetName, handle)),
        "uuid": _text(_value(pynvml.nvmlDeviceGetUUID, handle)),
        "bus_id": _text(pci.busId) if pci else None,
        "device_id": int(pci.pciDeviceId) if pci else None,
        "subsystem_id": int(pci.pciSubSystemId) if pci else None,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "memory_mib": memory.total // (1 << 20) if memory else None,
        "persistence": _value(pynvml.nvmlDeviceGetPersistenceMode, handle),
        "mig": mig[0] if isinstance(mig, (list, tuple)) and mig else None,
    }


def _value(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 (each call has its own type)
    """The result of one NVML call, None if this driver or GPU does not support it."""
    import pynvml  # noqa: PLC0415

    try:
        return function(*arguments)
    except (pynvml.NVMLError, AttributeError, TypeError, UnicodeDecodeError):
        return None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
