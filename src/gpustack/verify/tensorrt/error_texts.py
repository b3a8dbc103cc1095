"""What TensorRT's error messages mean, and what fixes them."""

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
    """What an error means. ``refusal``: TensorRT does not support this here; the host is not at fault."""

    cause: str
    fix: str = ""
    refusal: bool = False


def explain_error(said: str) -> Meaning:
    """What an error message of TensorRT means; the message itself where its meaning is unknown."""
    found = _versions(said) or _gpus(said)
    if found:
        return found
    for text, (cause, fix) in _KNOWN.items():
        if text in said:
            return Meaning(cause=cause, fix=fix)
    return Meaning(cause=said)


def choose_message(messages: Iterable[str]) -> str:
    """The message nearest to the cause: the first with a known meaning, else the first error."""
    kept = tuple(messages)
    faults = [one for one in kept if one.startswith(("ERROR", "INTERNAL", "In node"))]
    known = (one for one in (*faults, *kept) if explain_error(one).cause != one)
    return next(iter((*known, *faults)), "TensorRT reported no reason")


def _versions(said: str) -> Meaning | None:
    """The meaning of a message about the release that built an engine."""
    again = "rebuild the engine with this TensorRT"
    match = _EXPECTED.search(said)
    if match:
        builder = f"TensorRT {match[2]}" if match[2] else "another TensorRT"
        return Meaning(cause=f"the engine was built by {builder}, but TensorRT {match[1]} is installed", fix=again)
    match = _SERIALIZED.search(said)
    if match:
        return Meaning(
            cause="the engine was built by another release of TensorRT, or is damaged:"
            f" its serialization version is {match[2]}, and this TensorRT reads {match[1]}",
            fix=again,
        )
    return None


def _gpus(said: str) -> Meaning | None:
    """The meaning of a message about the GPU."""
    match = _COMPUTE.search(said)
    if match:
        return Meaning(
            cause=f"the engine was built for compute capability {match[2]}, but this GPU has {match[1]}",
            fix="rebuild the engine on this GPU",
        )
    match = _TARGET.search(said)
    if match:
        return Meaning(
            cause=f"this TensorRT does not support this GPU (compute capability {match[1]}.{match[2]})",
            fix="find a release that does: `gpustack plan tensorrt`",
        )
    match = _SUPPORTED.search(said)
    if match:
        return Meaning(
            cause=f"TensorRT-RTX does not support this GPU: compute capability {match[1]}, supported are {match[2]}",
            fix="use TensorRT itself on this GPU: `gpustack install tensorrt`",
            refusal=True,
        )
    match = _TURING.search(said)
    if match:
        return Meaning(
            cause=f"TensorRT-RTX cannot build this network for Turing (7.5): {match[2]}",
            fix="build for compute capability 8.0 or newer, or use a lower precision for Turing",
            refusal=True,
        )
    return None


_NO_GPU = "no GPU is visible"
_SHOW_GPU = "check CUDA_VISIBLE_DEVICES and the container's `--gpus` option"
_OLD_DRIVER = "the driver is missing, or too old for the CUDA that this TensorRT was built with"
_WHICH_DRIVER = "find out which with `gpustack verify driver`, then `gpustack install driver`"
_EXPORT = "export or copy the ONNX file again"
_DAMAGED, _AGAIN = "the engine file is damaged", "copy or build it again"
_KNOWN = {
    "cudaError 35": (_OLD_DRIVER, _WHICH_DRIVER),
    "CUDA driver version is insufficient": (_OLD_DRIVER, _WHICH_DRIVER),
    "cudaError 100": (_NO_GPU, _SHOW_GPU),
    "no CUDA-capable device is detected": (_NO_GPU, _SHOW_GPU),
    "CUDA_ERROR_NO_DEVICE": (_NO_GPU, _SHOW_GPU),
    "CUDA initialization failure with error: 100": (_NO_GPU, _SHOW_GPU),
    "incompatible device": (
        "the engine was built for another compute capability",
        "rebuild the engine on this GPU",
    ),
    "Magic tag does not match": ("the file is not an engine, or is damaged", "rebuild the engine"),
    # From here to the serialization assertions: messages of TensorRT 8.6.0 for damaged files on an H200.
    "magicTag == rt::kPLAN_MAGIC_TAG": ("the file is not an engine, or is damaged", "rebuild the engine"),
    "header.size == blobSize": ("the engine file is truncated or has extra data", _AGAIN),
    "kEND_OF_PLAN_MARKER": ("the engine file is damaged at its end", _AGAIN),
    "empty memory buffer": ("the engine file is empty", _AGAIN),
    "Engine not found in plan": (_DAMAGED, _AGAIN),
    "Version tag does not match": (
        "the engine was built by another release of TensorRT, or is damaged",
        "rebuild the engine with this TensorRT",
    ),
    "Serialization assertion": (_DAMAGED, _AGAIN),
    "libnvinfer_lean": (
        "TensorRT's lean runtime libnvinfer_lean, which a version-compatible engine requires, is not installed",
        "install the package libnvinfer-lean from the same release",
    ),
    "getEngineHostCodeAllowed() is false": (
        "the engine contains a runtime, which a program runs only if it allows code from engine files",
        "if you trust the file, set the runtime's engine_host_code_allowed; otherwise build an engine without it",
    ),
    "MODEL_DESERIALIZE_FAILED": ("the file is not an ONNX model, or is damaged", _EXPORT),
    # trtexec continues after the parser has failed, and prints only this.
    "Network must have at least one output": ("the file is not an ONNX model, or is damaged", _EXPORT),
    "Error opening engine file": (
        "the engine file does not exist or cannot be read",
        "specify an existing, readable file",
    ),
    "libcudnn": (
        "cuDNN, which this TensorRT requires, is not on the loader's path",
        "`gpustack install cudnn`",
    ),
    "libcuda.so.1": ("the driver's library libcuda.so.1 was not found", "`gpustack install driver`"),
    "out of memory": ("the GPU's memory is full", "stop other programs on this GPU (`nvidia-smi` lists them)"),
}
