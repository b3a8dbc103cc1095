"""Makes a CUDA context on every GPU through libcuda alone. One JSON line a step, so that a hang names its place.

Runs as a program of its own: what a broken driver does to it stays there.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any


def report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def loaded() -> str:
    """The libcuda that was loaded, as the kernel names its file."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 (starts faster)
            return next((line.split(None, 5)[5].strip() for line in maps if "libcuda.so" in line), "")
    except OSError:
        return ""


def named(cuda: Any, code: int) -> str:  # noqa: ANN401 (a library)
    text = ctypes.c_char_p()
    try:
        cuda.cuGetErrorName(code, ctypes.byref(text))
    except AttributeError:
        return ""
    return (text.value or b"").decode("ascii", "replace")


def about(cuda: Any, device: ctypes.c_int) -> dict[str, str]:  # noqa: ANN401 (a library)
    """Name, UUID and place on the bus of a GPU."""
    name, bus, uuid = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32), (ctypes.c_ubyte * 16)()
    found: dict[str, str] = {}
    if cuda.cuDeviceGetName(name, 256, device) == 0:
        found["called"] = name.value.decode("utf-8", "replace")
    if cuda.cuDeviceGetPCIBusId(bus, 32, device) == 0:
        found["bus"] = bus.value.decode("ascii", "replace")
    get_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    if get_uuid is not None and get_uuid(ctypes.byref(uuid), device) == 0:
        text = bytes(uuid).hex()
        found["uuid"] = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return found


def work(cuda: Any, device: ctypes.c_int) -> tuple[str, int]:  # noqa: ANN401 (a library)
    """A context, memory, bytes there and back. The step that failed and its code; ("", 0) when all held."""
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    size = 1 << 20
    back = (ctypes.c_ubyte * size)()
    code: int = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if code:
        return "context", code
    steps: tuple[tuple[str, Callable[[], int]], ...] = (
        ("context", lambda: cuda.cuCtxSetCurrent(context)),
        ("memory", lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))),
        ("fill", lambda: cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(0xA5), ctypes.c_size_t(size))),
        ("copy", lambda: cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(size))),
    )
    for step, run in steps:
        code = run()
        if code:
            return step, code
    cuda.cuMemFree_v2(memory)
    cuda.cuDevicePrimaryCtxRelease(device)
    return ("", 0) if bytes(back) == b"\xa5" * size else ("compare", 0)


def main() -> None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as exc:
        report(step="load", error=str(exc))
        return
    report(step="load", library=loaded())
    code = cuda.cuInit(0)
    report(step="init", code=code, name=named(cuda, code))
    if code:
        return
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    code = cuda.cuDeviceGetCount(ctypes.byref(count))
    report(step="count", code=code, name=named(cuda, code), count=count.value, cuda=version.value)
    for number in range(count.value):
        device = ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        report(step="begin", gpu=number, **about(cuda, device))
        step, code = work(cuda, device)
        report(step="end", gpu=number, at=step, code=code, name=named(cuda, code))


if __name__ == "__main__":
    main()
