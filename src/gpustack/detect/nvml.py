"""What the driver itself reports about its GPUs, through NVML. The only importer of pynvml."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gpustack.model.nvml import DAMAGED

TIME_LIMIT_S = 10.0
"""A wedged driver can keep NVML from answering; detection continues without it after this time."""


def read_nvml() -> dict[str, Any] | None:
    """Driver version and one record per GPU; {"error": ...} if NVML fails, None if it is not installed.

    It is asked by a copy of this process: a driver that hangs, and a library that is damaged, end only that one.
    """
    if not hasattr(os, "fork"):
        return _answer() or None
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(writer)
    os.close(writer)
    text = _read(reader)
    if text is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)  # one that waits for the driver cannot end
        return {"error": f"NVML gave no answer within {TIME_LIMIT_S:g} s"}
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        name = signal.Signals(-code).name
        return {"error": f"a program that asks it crashed ({name}): {DAMAGED}"}
    found: dict[str, Any] = json.loads(text or b"{}")
    return found or None


def _tell(writer: int) -> None:
    """Write the answer and end this copy of the process, without what ends the other one."""
    code = 1
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(_answer()).encode())
        code = 0
    finally:
        os._exit(code)


def _read(reader: int) -> bytes | None:
    """What is written until the other end closes; None if that takes too long."""
    text, end = b"", time.monotonic() + TIME_LIMIT_S
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            part = pipe.read(1 << 16)
            if not part:
                return text
            text += part


def _answer() -> dict[str, Any]:
    try:
        import pynvml  # noqa: PLC0415
    except ImportError:
        return {}
    answer: dict[str, Any] = {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        return {"error": str(exc)}
    try:
        answer["driver"] = _text(pynvml.nvmlSystemGetDriverVersion())
        answer["gpus"] = [_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as exc:
        answer["error"] = str(exc)
    finally:
        _value(pynvml.nvmlShutdown)
    return answer


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
