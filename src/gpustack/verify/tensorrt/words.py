"""What TensorRT's own errors mean, and what mends them."""

from __future__ import annotations

import re

from msgspec import Struct

_EXPECTED = re.compile(r"expecting library version (\d+(?:\.\d+)+) got (\d+(?:\.\d+)+)")
_CAPABILITY = re.compile(r"compute (?:capability )?(\d+\.\d+).*?(?:compute|capability) (\d+\.\d+)", re.IGNORECASE)
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


_KNOWN = (
    (
        "cudaError 35",
        "the driver is missing, or older than the CUDA that this TensorRT was built with",
        "`gpustack verify driver` tells which; `gpustack install driver`",
    ),
    ("cudaError 100", "no GPU can be seen", "look at CUDA_VISIBLE_DEVICES and at what the container was given"),
    (
        "incompatible device",
        "the engine was built on a GPU of another compute capability",
        "build the engine again on this GPU",
    ),
    ("Magic tag does not match", "the file is no engine, or a damaged one", "build the engine again"),
    (
        "libcudnn",
        "cuDNN is not on the loader's path, and this TensorRT needs it",
        "`gpustack install cudnn`",
    ),
    ("libcuda.so.1", "the driver's library libcuda.so.1 is not here", "`gpustack install driver`"),
    ("out of memory", "the GPU's memory is full", "end other programs on this GPU (`nvidia-smi` lists them)"),
)
