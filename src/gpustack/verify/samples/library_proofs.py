"""Uses one library on every GPU without a compiler: a product by cuBLAS, a convolution by cuDNN, a sum by NCCL.

    python3 library_proofs.py cublas|cudnn|nccl LIBRARY

All numbers are small integers, so every right result is exact. One JSON line a step. Runs as a program of its own: what
a broken library does to it stays there.
"""

from __future__ import annotations

import ctypes
import json
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Any

SIDE = 32
"""Rows and columns of the matrices, and of the picture."""

_FORMAT_NCHW, _FLOAT, _CROSS_CORRELATION, _IMPLICIT_GEMM = 0, 0, 1, 0
_NCCL_FLOAT, _NCCL_SUM = 7, 0

Library = Any
"""A library's functions have no types here."""


class Broken(Exception):  # noqa: N818 (a call that did not hold)
    """A call returned something else than success."""

    def __init__(self, **facts: object) -> None:
        super().__init__()
        self.facts = facts


def report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Cuda:
    """Libcuda: contexts and memory. Every call holds, or raises Broken."""

    def __init__(self) -> None:
        self._own: Library = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        self.hold("init", self._own.cuInit(0))
        count = ctypes.c_int()
        self.hold("count", self._own.cuDeviceGetCount(ctypes.byref(count)))
        self.count = count.value

    def hold(self, step: str, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._own.cuGetErrorName(code, ctypes.byref(text))
            raise Broken(step=f"cuda {step}", code=code, name=(text.value or b"").decode("ascii", "replace"))

    def use(self, number: int) -> ctypes.c_void_p:
        """Make the GPU's own context the current one."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.hold("device", self._own.cuDeviceGet(ctypes.byref(device), number))
        self.hold("context", self._own.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.select(context)
        return context

    def select(self, context: ctypes.c_void_p) -> None:
        self.hold("context", self._own.cuCtxSetCurrent(context))

    def put(self, numbers: array[float]) -> ctypes.c_void_p:
        """The numbers in the GPU's memory."""
        place = ctypes.c_uint64()
        size = ctypes.c_size_t(4 * len(numbers))
        self.hold("memory", self._own.cuMemAlloc_v2(ctypes.byref(place), size))
        self.hold("copy", self._own.cuMemcpyHtoD_v2(place, ctypes.c_void_p(numbers.buffer_info()[0]), size))
        return ctypes.c_void_p(place.value)

    def take(self, place: ctypes.c_void_p, length: int) -> array[float]:
        """So many numbers of the GPU's memory, when all work there has ended."""
        numbers = array("f", bytes(4 * length))
        self.hold("kernel", self._own.cuCtxSynchronize())
        at = ctypes.c_void_p(numbers.buffer_info()[0])
        self.hold("copy", self._own.cuMemcpyDtoH_v2(at, ctypes.c_uint64(place.value or 0), ctypes.c_size_t(4 * length)))
        return numbers


def integers(length: int, step: int) -> array[float]:
    """Small numbers that repeat after a while."""
    return array("f", ((i * step) % 7 for i in range(length)))


def wrong(found: array[float], known: Iterator[float]) -> int:
    return sum(one != right for one, right in zip(found, known, strict=True))


def cublas(cuda: Cuda, own: Library) -> None:
    """A product of two matrices."""

    def hold(step: str, code: int) -> None:
        if code:
            raise Broken(step=f"cublas {step}", code=code, name=_BLAS.get(code, f"cuBLAS status {code}"))

    numbers = [ctypes.c_int() for _ in range(3)]
    for kind, number in enumerate(numbers):
        hold("cublasGetProperty", own.cublasGetProperty(kind, ctypes.byref(number)))
    report(library=".".join(str(number.value) for number in numbers))
    first, second = integers(SIDE * SIDE, 3), integers(SIDE * SIDE, 5)
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    for gpu in range(cuda.count):
        cuda.use(gpu)
        handle = ctypes.c_void_p()
        hold("cublasCreate", own.cublasCreate_v2(ctypes.byref(handle)))
        a, b, c = cuda.put(first), cuda.put(second), cuda.put(array("f", bytes(4 * SIDE * SIDE)))
        hold("cublasSgemm", own.cublasSgemm_v2(handle, 0, 0, SIDE, SIDE, SIDE, one, a, SIDE, b, SIDE, zero, c, SIDE))
        found = cuda.take(c, SIDE * SIDE)
        own.cublasDestroy_v2(handle)
        known = (
            sum(first[row + SIDE * k] * second[k + SIDE * column] for k in range(SIDE))
            for column in range(SIDE)
            for row in range(SIDE)
        )
        report(gpu=gpu, wrong=wrong(found, known), of=SIDE * SIDE)


_BLAS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
}  # fmt: skip


def cudnn(cuda: Cuda, own: Library) -> None:
    """A convolution of a picture with nine numbers."""
    own.cudnnGetErrorString.restype = ctypes.c_char_p
    own.cudnnGetVersion.restype = ctypes.c_size_t

    def hold(call: str, *given: object) -> None:
        code = getattr(own, call)(*given)
        if code:
            name = own.cudnnGetErrorString(code).decode("ascii", "replace")
            raise Broken(step=f"cudnn {call}", code=code, name=name)

    report(library=own.cudnnGetVersion())
    wide = SIDE - 2
    picture, filters = integers(SIDE * SIDE, 3), integers(9, 5)
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    for gpu in range(cuda.count):
        cuda.use(gpu)
        handle, source, target, weights, how = (ctypes.c_void_p() for _ in range(5))
        hold("cudnnCreate", ctypes.byref(handle))
        for descriptor in (source, target):
            hold("cudnnCreateTensorDescriptor", ctypes.byref(descriptor))
        hold("cudnnCreateFilterDescriptor", ctypes.byref(weights))
        hold("cudnnCreateConvolutionDescriptor", ctypes.byref(how))
        hold("cudnnSetTensor4dDescriptor", source, _FORMAT_NCHW, _FLOAT, 1, 1, SIDE, SIDE)
        hold("cudnnSetTensor4dDescriptor", target, _FORMAT_NCHW, _FLOAT, 1, 1, wide, wide)
        hold("cudnnSetFilter4dDescriptor", weights, _FLOAT, _FORMAT_NCHW, 1, 1, 3, 3)
        hold("cudnnSetConvolution2dDescriptor", how, 0, 0, 1, 1, 1, 1, _CROSS_CORRELATION, _FLOAT)
        x, w, y = cuda.put(picture), cuda.put(filters), cuda.put(array("f", bytes(4 * wide * wide)))
        nothing = (ctypes.c_void_p(), ctypes.c_size_t(0))
        call = (handle, one, source, x, weights, w, how, _IMPLICIT_GEMM, *nothing, zero, target, y)
        hold("cudnnConvolutionForward", *call)
        found = cuda.take(y, wide * wide)
        own.cudnnDestroy(handle)
        known = (
            sum(picture[(row + k // 3) * SIDE + column + k % 3] * filters[k] for k in range(9))
            for row in range(wide)
            for column in range(wide)
        )
        report(gpu=gpu, wrong=wrong(found, known), of=wide * wide)


def nccl(cuda: Cuda, own: Library) -> None:
    """A sum over all GPUs."""
    own.ncclGetErrorString.restype = ctypes.c_char_p

    def hold(call: str, *given: object) -> None:
        code = getattr(own, call)(*given)
        if code:
            name = own.ncclGetErrorString(code).decode("ascii", "replace")
            raise Broken(step=f"nccl {call}", code=code, name=name)

    number = ctypes.c_int()
    hold("ncclGetVersion", ctypes.byref(number))
    report(library=number.value)
    length, count = 4096, cuda.count
    contexts = [cuda.use(gpu) for gpu in range(count)]
    ranks = (ctypes.c_void_p * count)()
    hold("ncclCommInitAll", ranks, count, None)
    places = []
    for gpu, context in enumerate(contexts):
        cuda.select(context)
        places.append((cuda.put(integers(length, gpu + 1)), cuda.put(array("f", bytes(4 * length)))))
    hold("ncclGroupStart")
    for gpu, (source, target) in enumerate(places):
        cuda.select(contexts[gpu])
        rank = ctypes.c_void_p(ranks[gpu])
        hold("ncclAllReduce", source, target, ctypes.c_size_t(length), _NCCL_FLOAT, _NCCL_SUM, rank, None)
    hold("ncclGroupEnd")
    for gpu, (_, target) in enumerate(places):
        cuda.select(contexts[gpu])
        found = cuda.take(target, length)
        known = (float(sum((i * (other + 1)) % 7 for other in range(count))) for i in range(length))
        report(gpu=gpu, wrong=wrong(found, known), of=length)


PROOFS: dict[str, Callable[[Cuda, Library], None]] = {"cublas": cublas, "cudnn": cudnn, "nccl": nccl}


def main(kind: str, library: str) -> None:
    try:
        cuda = Cuda()
        if not cuda.count:
            report(step="cuda count", code=100, name="CUDA_ERROR_NO_DEVICE")
            return
        PROOFS[kind](cuda, ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL))
    except OSError as exc:
        report(step="load", error=str(exc))
    except AttributeError as exc:  # ctypes names the symbol
        report(step="symbol", error=str(exc))
    except Broken as broken:
        report(**broken.facts)


if __name__ == "__main__":
    main(*sys.argv[1:])
