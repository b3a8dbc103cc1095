"""What TensorRT's own errors mean, and what mends them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

_EXPECTED = re.compile(r"expecting library version (\d+(?:\.\d+)+) got (\d+(?:\.\d+)+)?")
_SERIALIZED = re.compile(r"Current Version: (\d+), Serialized Engine Version: (\d+)")
_COMPUTE = re.compile(r"expecting compute (\d+\.\d+) got compute (\d+\.\d+)")
_TARGET = re.compile(r"Target GPU SM (\d+)(\d) is not supported by this TensorRT release")
_SUPPORTED = re.compile(r"compute capability (\d+\.\d+)\. Supported compute capabilities: ([^.]*(?:\.\d[^.]*)*)\.")
_TURING = re.compile(r"Cannot compile operation '([^']*)' for Turing \(SM75\): ([^.]*)")


class Meaning(Struct, frozen=True, kw_only=True):
    """An error in the user's words. ``refusal``: TensorRT cannot do this here, which says nothing against the host."""

    cause: str
    cure: str = ""
    refusal: bool = False


def meaning(said: str) -> Meaning:
    """What an error message of TensorRT means; the message itself where nothing more is known."""
    found = _versions(said) or _gpus(said)
    if found:
        return found
    for text, (cause, cure) in _KNOWN.items():
        if text in said:
            return Meaning(cause=cause, cure=cure)
    return Meaning(cause=said)


def nearest(messages: Iterable[str]) -> str:
    """Of what TensorRT said, that which is nearest to the cause: what has a known meaning, else the first error."""
    kept = tuple(messages)
    faults = [one for one in kept if one.startswith(("ERROR", "INTERNAL", "In node"))]
    known = (one for one in (*faults, *kept) if meaning(one).cause != one)
    return next(iter((*known, *faults)), "TensorRT did not say why")


def _versions(said: str) -> Meaning | None:
    """What it says about the release that built an engine."""
    again = "build the engine again with this TensorRT"
    match = _EXPECTED.search(said)
    if match:
        builder = f"TensorRT {match[2]}" if match[2] else "another TensorRT"
        return Meaning(cause=f"the engine was built by {builder}, and this is {match[1]}", cure=again)
    match = _SERIALIZED.search(said)
    if match:
        return Meaning(
            cause="the engine was built by another release of TensorRT, or is damaged:"
            f" it is written in serialization {match[2]}, and this TensorRT reads {match[1]}",
            cure=again,
        )
    return None


def _gpus(said: str) -> Meaning | None:
    """What it says about the GPU."""
    match = _COMPUTE.search(said)
    if match:
        return Meaning(
            cause=f"the engine was built on a GPU of compute capability {match[2]}, and this one has {match[1]}",
            cure="build the engine again on this GPU",
        )
    match = _TARGET.search(said)
    if match:
        return Meaning(
            cause=f"this TensorRT does not build for this GPU's compute capability {match[1]}.{match[2]}",
            cure="`gpustack plan tensorrt` names the releases that do",
        )
    match = _SUPPORTED.search(said)
    if match:
        return Meaning(
            cause=f"TensorRT-RTX does not know this GPU: it has compute capability {match[1]}, known are {match[2]}",
            cure="use TensorRT itself on this GPU: `gpustack install tensorrt`",
            refusal=True,
        )
    match = _TURING.search(said)
    if match:
        return Meaning(
            cause=f"TensorRT-RTX cannot build this network for Turing (7.5): {match[2]}",
            cure="build for compute capability 8.0 or newer, or with fewer bits for Turing",
            refusal=True,
        )
    return None


_NO_GPU = "no GPU can be seen"
_SHOW_GPU = "look at CUDA_VISIBLE_DEVICES and at what the container was given"
_OLD_DRIVER = "the driver is missing, or older than the CUDA that this TensorRT was built with"
_WHICH_DRIVER = "`gpustack verify driver` tells which; `gpustack install driver`"
_EXPORT = "export or copy the ONNX file anew"
_DAMAGED, _ANEW = "the engine file is damaged inside", "copy or build it again"
_KNOWN = {
    "cudaError 35": (_OLD_DRIVER, _WHICH_DRIVER),
    "CUDA driver version is insufficient": (_OLD_DRIVER, _WHICH_DRIVER),
    "cudaError 100": (_NO_GPU, _SHOW_GPU),
    "no CUDA-capable device is detected": (_NO_GPU, _SHOW_GPU),
    "CUDA_ERROR_NO_DEVICE": (_NO_GPU, _SHOW_GPU),
    "CUDA initialization failure with error: 100": (_NO_GPU, _SHOW_GPU),
    "incompatible device": (
        "the engine was built on a GPU of another compute capability",
        "build the engine again on this GPU",
    ),
    "Magic tag does not match": ("the file is no engine, or a damaged one", "build the engine again"),
    # From here to the serialization assertions as TensorRT 8.6.0 said it of damaged files on an H200.
    "magicTag == rt::kPLAN_MAGIC_TAG": ("the file is no engine, or a damaged one", "build the engine again"),
    "header.size == blobSize": ("the engine file is cut off, or has something added", _ANEW),
    "kEND_OF_PLAN_MARKER": ("the engine file is damaged at its end", _ANEW),
    "empty memory buffer": ("the engine file is empty", _ANEW),
    "Engine not found in plan": (_DAMAGED, _ANEW),
    "Version tag does not match": (
        "the engine was built by another release of TensorRT, or is damaged",
        "build the engine again with this TensorRT",
    ),
    "Serialization assertion": (_DAMAGED, _ANEW),
    "libnvinfer_lean": (
        "TensorRT's lean runtime libnvinfer_lean is not here, which a version-compatible engine takes in",
        "install the package libnvinfer-lean of the same release",
    ),
    "getEngineHostCodeAllowed() is false": (
        "the engine carries a runtime of its own, which a program runs only if it allows code out of engine files",
        "trust the file, and set engine_host_code_allowed of the runtime; or build an engine without it",
    ),
    "MODEL_DESERIALIZE_FAILED": ("the file is no ONNX model, or a damaged one", _EXPORT),
    # trtexec goes on after the parser has given up, and says no more than this.
    "Network must have at least one output": ("the file is no ONNX model, or a damaged one", _EXPORT),
    "Error opening engine file": ("the engine file is not there, or cannot be read", "name a file that is there"),
    "libcudnn": (
        "cuDNN is not on the loader's path, and this TensorRT needs it",
        "`gpustack install cudnn`",
    ),
    "libcuda.so.1": ("the driver's library libcuda.so.1 is not here", "`gpustack install driver`"),
    "out of memory": ("the GPU's memory is full", "end other programs on this GPU (`nvidia-smi` lists them)"),
}
