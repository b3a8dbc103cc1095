"""Creates a CUDA context on every GPU through libcuda alone, then adds vectors with the kernel of the PTX next to it.

One JSON line per step, so that a hang is located. Runs as a separate program: what a broken driver does to it stays
there.
"""

from __future__ import annotations

import ctypes
import json
import sys
from array import array
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
    """A context, memory, bytes there and back. The failed step and its code; ("", 0) if all succeeded."""
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


_SUMS = 1 << 18
_THREADS = 256
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
"""Options of the compiler inside the driver: where it writes what it finds wrong, and how much room there is."""


def add(cuda: Any, device: ctypes.c_int, ptx: bytes) -> dict[str, Any]:  # noqa: ANN401 (a library)
    """Vectors added on one GPU: ``at`` is the step that failed, ``wrong`` how many sums are wrong."""
    context = ctypes.c_void_p()
    code: int = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if code:
        return {"at": "context", "code": code}
    try:
        return _added(cuda, context, ptx)
    finally:
        cuda.cuDevicePrimaryCtxRelease(device)


def _added(cuda: Any, context: ctypes.c_void_p, ptx: bytes) -> dict[str, Any]:  # noqa: ANN401 (a library)
    module, function, log = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), len(log))
    first, second = array("f", (i % 1000 for i in range(_SUMS))), array("f", (i % 7 * 1000 for i in range(_SUMS)))
    back = array("f", bytes(4 * _SUMS))
    size = ctypes.c_size_t(4 * _SUMS)
    memory = [ctypes.c_uint64() for _ in range(3)]
    words = [*memory, ctypes.c_int(_SUMS)]
    given = (ctypes.c_void_p * 4)(*(ctypes.addressof(word) for word in words))
    at = [ctypes.c_void_p(one.buffer_info()[0]) for one in (first, second, back)]
    steps: tuple[tuple[str, Callable[[], int]], ...] = (
        ("context", lambda: cuda.cuCtxSetCurrent(context)),
        ("module", lambda: cuda.cuModuleLoadDataEx(ctypes.byref(module), ptx, 2, options, values)),
        ("function", lambda: cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add")),
        *(("memory", lambda one=one: cuda.cuMemAlloc_v2(ctypes.byref(one), size)) for one in memory),
        ("copy", lambda: cuda.cuMemcpyHtoD_v2(memory[0], at[0], size)),
        ("copy", lambda: cuda.cuMemcpyHtoD_v2(memory[1], at[1], size)),
        (
            "launch",
            lambda: cuda.cuLaunchKernel(function, _SUMS // _THREADS, 1, 1, _THREADS, 1, 1, 0, None, given, None),
        ),
        ("kernel", cuda.cuCtxSynchronize),
        ("copy", lambda: cuda.cuMemcpyDtoH_v2(at[2], memory[2], size)),
    )
    for step, run in steps:
        code = run()
        if code:
            return {"at": step, "code": code, "log": log.value.decode("utf-8", "replace").strip()}
    for one in memory:
        cuda.cuMemFree_v2(one)
    cuda.cuModuleUnload(module)
    return {"at": "", "code": 0, "wrong": sum(x + y != z for x, y, z in zip(first, second, back, strict=True))}


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
    with open(__file__.replace("cuda_contexts.py", "sums.ptx"), "rb") as stream:  # noqa: PTH123 (starts faster)
        kernel = stream.read() + b"\0"
    for number in range(count.value):
        device = ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        report(step="adds", gpu=number, **about(cuda, device))
        found = add(cuda, device, kernel)
        report(step="added", gpu=number, name=named(cuda, found["code"]), **found)


if __name__ == "__main__":
    main()
