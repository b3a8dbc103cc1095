"""Images that no fact names, judged by their name: the CUDA, the framework, the board or the maker in it."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.model.image import Installed

PYTORCH = "pytorch/pytorch"
"""The images of PyTorch's makers. Their tags name release, CUDA and cuDNN; not all have cuda-compat."""

_REGISTRY = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?/|[\w-]+:\d+/")
_PATH = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")

_CUDA = re.compile(r"(?<![a-z0-9])(?:cuda|cu)[-_]?(\d{2}\.\d{1,2}(?:\.\d{1,2})?)(?![\d.]*\d)")
"""cuda12.4.1, cuda-12.4, cu12.8."""

_DIGITS = re.compile(r"(?<![a-z0-9])(?:cuda|cu)[-_]?(\d{2})(\d)(\d)?(?![\d.])")
"""cu128 is CUDA 12.8, cu1281 is 12.8.1."""

_MAJOR = re.compile(r"(?<![a-z0-9])(?:cuda|cu)[-_]?(\d{2})(?![\d.])")
_FIRST = re.compile(r"(\d{2}\.\d{1,2}(?:\.\d{1,2})?)(?=-|$)")
_OTHER = re.compile(r"(?<![a-z0-9])(rocm|xpu|intel|cpu|gaudi|hpu|neuron|musa|npu)(?![a-z])")
_TEGRA = re.compile(r"(?:^|[-_])r(\d{2})\.(\d+)(?:\.\d+)?")
_RELEASE = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?post\d+)?)(?:-|$)")
_TORCH = re.compile(r"(?<![a-z0-9])torch-?(\d)\.?(\d{1,2})\.?(\d)(?![\d.]*\d)")

FRAMEWORKS = {
    "vllm/vllm-openai": "vllm",
    "lmsysorg/sglang": "sglang",
    "tensorflow/tensorflow": "tensorflow",
}
"""Images that contain the framework's release that their tag names."""


class Name(Struct, frozen=True):
    """An image's name in parts: without its registry and digest. ``registry`` is "" for Docker Hub's short form."""

    registry: str
    repository: str
    tag: str


def parsed(text: str) -> Name | None:
    """The parts of an image's name; None if it is none. Without a tag it is "latest", or "digest"."""
    rest, digests = _DIGEST.subn("", text.strip())
    host = _REGISTRY.match(rest)
    registry = host[0].rstrip("/") if host is not None else ""
    path, _, tag = rest[len(host[0]) if host is not None else 0 :].partition(":")
    tag = tag or ("digest" if digests else "latest")
    if not _PATH.fullmatch(path) or not _TAG.fullmatch(tag):
        return None
    return Name(registry, path, tag)


def named_cuda(name: Name) -> str:
    """The CUDA that the name states, as major, minor and perhaps patch; "" if it states none, or its major only."""
    words = f"{name.repository.rpartition('/')[2]} {name.tag}".lower()
    if found := _CUDA.search(words):
        return found[1]
    if found := _DIGITS.search(words):
        return ".".join(filter(None, found.groups()))
    first = _FIRST.match(name.tag) if name.repository.rpartition("/")[2] == "cuda" else None
    return first[1] if first is not None else ""


def named_major(name: Name) -> str:
    """The major of CUDA that the name states without a minor, "" otherwise."""
    found = _MAJOR.search(f"{name.repository} {name.tag}".lower())
    return found[1] if found is not None else ""


def other_maker(name: Name) -> str:
    """The word of the tag that says that the image is not for NVIDIA's GPUs, "" without one."""
    if name.repository == "tensorflow/tensorflow" and _RELEASE.match(name.tag) and "gpu" not in name.tag:
        return "nothing of a GPU"
    found = _OTHER.search(f"{name.repository.rpartition('/')[2]} {name.tag}".lower())
    return found[1] if found is not None else ""


def tegra_of(name: Name) -> tuple[str, str] | None:
    """Major and minor of the Jetson Linux that an image of Jetson is for; None for other images."""
    if not (name.repository.startswith("dustynv/") or "l4t" in f"{name.repository} {name.tag}"):
        return None
    found = _TEGRA.search(name.tag)
    return (found[1], found[2]) if found is not None else None


def framework_in(name: Name) -> Installed | None:
    """The framework that the name says the image contains, with its local part where the name has a CUDA."""
    release = _RELEASE.match(name.tag)
    cuda = named_cuda(name)
    if name.repository in FRAMEWORKS and release is not None:
        return Installed(name=FRAMEWORKS[name.repository], version=release[1], place="")
    torch = _TORCH.search(name.tag)
    if torch is not None:
        version = ".".join(torch.groups())
    elif name.repository.endswith("/pytorch") and not name.repository.startswith("nvidia/") and release is not None:
        version = release[1]
    else:
        return None
    local = f"+cu{''.join(cuda.split('.')[:2])}" if cuda else ""
    return Installed(name="torch", version=f"{version}{local}", place="", cuda=cuda or None)
