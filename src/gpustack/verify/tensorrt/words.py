"""What TensorRT's own errors mean, and what mends them."""

from __future__ import annotations

import re

from msgspec import Struct

_EXPECTED = re.compile(r"expecting library version (\d+(?:\.\d+)+) got (\d+(?:\.\d+)+)")
_SUPPORTED = re.compile(r"compute capability (\d+\.\d+)\. Supported compute capabilities: ([^.]*(?:\.\d[^.]*)*)\.")
_TURING = re.compile(r"Cannot compile operation '([^']*)' for Turing \(SM75\): ([^.]*)")


class Meaning(Struct, frozen=True, kw_only=True):
    """An error in the user's words. ``refusal``: TensorRT cannot do this here, which says nothing against the host."""

    cause: str
    cure: str = ""
    refusal: bool = False


def meaning(said: str) -> Meaning:
    """What an error message of TensorRT means; the message itself where nothing more is known."""
    match = _EXPECTED.search(said)
    if match:
        return Meaning(
            cause=f"the engine was built by TensorRT {match[2]}, and this is {match[1]}",
            cure="build the engine again with this TensorRT",
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
    for text, cause, cure in _KNOWN:
        if text in said:
            return Meaning(cause=cause, cure=cure)
    return Meaning(cause=said)


_NO_GPU = "no GPU can be seen"
_SHOW_GPU = "look at CUDA_VISIBLE_DEVICES and at what the container was given"
_KNOWN = (
    (
        "cudaError 35",
        "the driver is missing, or older than the CUDA that this TensorRT was built with",
        "`gpustack verify driver` tells which; `gpustack install driver`",
    ),
    ("cudaError 100", _NO_GPU, _SHOW_GPU),
    ("CUDA_ERROR_NO_DEVICE", _NO_GPU, _SHOW_GPU),
    ("CUDA initialization failure with error: 100", _NO_GPU, _SHOW_GPU),
    (
        "incompatible device",
        "the engine was built on a GPU of another compute capability",
        "build the engine again on this GPU",
    ),
    ("Magic tag does not match", "the file is no engine, or a damaged one", "build the engine again"),
    # From here to the version tag as TensorRT 8.6.0 said it on an H200.
    ("magicTag == rt::kPLAN_MAGIC_TAG", "the file is no engine, or a damaged one", "build the engine again"),
    ("header.size == blobSize", "the engine file is cut off, or has something added", "copy or build it again"),
    ("kEND_OF_PLAN_MARKER", "the engine file is damaged at its end", "copy or build it again"),
    ("empty memory buffer", "the engine file is empty", "copy or build it again"),
    (
        "Version tag does not match",
        "the engine was built by another version of TensorRT, or is damaged",
        "build the engine again with this TensorRT",
    ),
    (
        "libcudnn",
        "cuDNN is not on the loader's path, and this TensorRT needs it",
        "`gpustack install cudnn`",
    ),
    ("libcuda.so.1", "the driver's library libcuda.so.1 is not here", "`gpustack install driver`"),
    ("out of memory", "the GPU's memory is full", "end other programs on this GPU (`nvidia-smi` lists them)"),
)
