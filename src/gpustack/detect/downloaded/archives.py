"""Archives for Linux and Windows, wheels, and installers that are shell scripts: known by what they hold."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from email.parser import BytesHeaderParser
from pathlib import Path

from gpustack.detect.downloaded.members import MOST, Member, in_tar, in_zip
from gpustack.detect.downloaded.parts import Contents
from gpustack.model.facts import normalized
from gpustack.patterns import later

_HEADERS = {
    "cudnn": (re.compile(r"(?:^|/)cudnn(?:_version)?(?:_v\d+)?\.h$"), "CUDNN_", ("MAJOR", "MINOR", "PATCHLEVEL")),
    "tensorrt": (re.compile(r"(?:^|/)NvInferVersion\.h$"), "NV_TENSORRT_", ("MAJOR", "MINOR", "PATCH", "BUILD")),
    "nccl": (re.compile(r"(?:^|/)nccl\.h$"), "NCCL_", ("MAJOR", "MINOR", "PATCH")),
}
"""Where each library's header has its version, and the words of its definitions."""

_DEFINED = later(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\d+)\b", re.MULTILINE)
_LIBRARY = later(r"(?:^|/)(?:lib(?:cudnn|nvinfer|nccl)[\w.]*\.so[\d.]*|(?:cudnn|nvinfer)\w*\.dll)$")
_NEEDED = later(rb"(?:libcublas(?:Lt)?\.so\.|libcudart\.so\.|cublas(?:Lt)?64_|cudart64_)(\d{1,2})(?:\.(\d))?")
_TOP_CUDA = later(r"cuda-?(\d+(?:\.\d+)?)(?=[-_.]|$)")
_PART = later(r"([a-z][a-z0-9_]+)-(linux|windows)-(\w+)-(\d[\d.]*)-archive")
_MACHINES = {62: "x86_64", 183: "aarch64", 21: "ppc64le"}
_PE_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
_ENOUGH = 1 << 12
_HEAD = 1 << 20
"""Bytes of an installer that hold the script before its content."""

_TARGET = later(
    rb'^targetdir="?(NVIDIA-Linux-(x86_64|aarch64|ppc64le)-(\d+(?:\.\d+)+)(?:-[\w.-]+)?)"?\s*$', re.MULTILINE
)
_LABEL = later(rb'^label="([^"\n]{1,200})"', re.MULTILINE)
_DIST_INFO = later(r"^([^/]+)\.dist-info/(METADATA|WHEEL)$")


def read_tar(path: Path, ending: str) -> Contents:
    """A tar archive by the headers and libraries in it. Raises OSError, tarfile.TarError."""
    return _of_archive(in_tar(path), "tar", ending)


def read_zip(path: Path) -> Contents:
    """A wheel, or a zip archive by the headers and libraries in it. Raises OSError, zipfile.BadZipFile, ValueError."""
    metadata = {
        found[2]: member.read(MOST) for member in in_zip(path) if (found := _DIST_INFO.match(member.name)) is not None
    }
    return _of_wheel(metadata) if {"METADATA", "WHEEL"} <= metadata.keys() else _of_archive(in_zip(path), "zip", "zip")


def _of_wheel(metadata: dict[str, bytes]) -> Contents:
    about = BytesHeaderParser().parsebytes(metadata["METADATA"])
    tags = BytesHeaderParser().parsebytes(metadata["WHEEL"]).get_all("Tag") or []
    name, version = str(about["Name"] or ""), str(about["Version"] or "")
    if not (name and version and tags):
        msg = "is a wheel whose metadata lack name, version or tag"
        raise ValueError(msg)
    pythons, abis, platforms = (".".join(dict.fromkeys(column)) for column in zip(*map(_tag, tags), strict=True))
    arch = next((word for word in ("x86_64", "aarch64", "ppc64le") if word in platforms), "")
    is_windows = "win" in platforms
    cuda = re.search(r"-cu(\d+)", name)
    return Contents(
        form="wheel",
        file=f"{re.sub(r'[-_.]+', '_', name)}-{version}-{pythons}-{abis}-{platforms}.whl",
        name=normalized(name),
        family="windows" if is_windows else "",
        arch="x86_64" if platforms == "win_amd64" else arch,
        version=version,
        cuda=cuda[1] if cuda else "",
    )


def _tag(text: str) -> tuple[str, str, str]:
    parts = text.strip().split("-")
    if len(parts) != 3:
        msg = f"is a wheel with the tag {text!r}, which has not three parts"
        raise ValueError(msg)
    return parts[0], parts[1], parts[2]


def _of_archive(members: Iterable[Member], form: str, ending: str) -> Contents:
    top = arch = component = version = cuda = name = ""
    is_windows = False
    for member in members:
        top = top or member.name.partition("/")[0]
        if not version:
            component, version = _by_header(member)
        if _LIBRARY.search(member.name) and (not arch or not cuda):
            content = member.read(MOST)
            is_windows = is_windows or member.name.endswith(".dll")
            arch = arch or _machine(content)
            needed = _NEEDED.search(content)
            cuda = cuda or (needed[1].decode() if needed else "")
        told = _TOP_CUDA.search(top)
        if version and arch and (told or cuda):
            break
    told, part = _TOP_CUDA.search(top), _PART.fullmatch(top)
    if part is not None:
        name = part[1]
        is_windows = is_windows or part[2] == "windows"
    return Contents(
        form="zip" if form == "zip" else "tar",
        file=f"{component or name or 'archive'}-{version}.{ending}" if top in {"", "cuda"} else f"{top}.{ending}",
        name=name,
        family="windows" if is_windows else "linux",
        arch=arch,
        component=component,
        version=_whole(component, version, top),
        cuda=told[1] if told else cuda,
        top_dir=top,
    )


def _by_header(member: Member) -> tuple[str, str]:
    """The component and version that a header defines."""
    for component, (pattern, prefix, words) in _HEADERS.items():
        if pattern.search(member.name):
            defined = {key.decode(): number.decode() for key, number in _DEFINED.findall(member.read(MOST))}
            numbers = [defined.get(prefix + word, "") for word in words]
            if all(numbers):
                return component, ".".join(numbers)
    return "", ""


def _whole(component: str, version: str, top: str) -> str:
    """The version with its last number, which cuDNN's header leaves to the name of the folder."""
    if component != "cudnn" or not version:
        return version
    found = re.search(rf"(?<![\d.]){re.escape(version)}\.\d+(?![\d])", top)
    return found[0] if found else version


def _machine(content: bytes) -> str:
    if content[:4] == b"\x7fELF" and len(content) >= 20:
        return _MACHINES.get(int.from_bytes(content[18:20], "big" if content[5] == 2 else "little"), "")
    if content[:2] == b"MZ" and len(content) >= 0x40:
        (place,) = struct.unpack_from("<I", content, 0x3C)
        if place + 6 <= len(content) and content[place : place + 4] == b"PE\0\0":
            return _PE_MACHINES.get(struct.unpack_from("<H", content, place + 4)[0], "")
    return ""


def read_runfile(path: Path) -> Contents:
    """An installer by the head of its script. Raises OSError, ValueError."""
    with path.open("rb") as raw:
        head = raw.read(_HEAD)
    found = _TARGET.search(head)
    if found is not None:
        folder, arch, version = (one.decode() for one in found.groups())
        return Contents(
            form="runfile",
            file=f"{folder}.run",
            family="linux",
            arch=arch,
            component="driver",
            version=version,
            top_dir=folder,
        )
    label = _LABEL.search(head)
    return Contents(form="runfile", file="", name=label[1].decode("utf-8", "replace") if label else "", family="linux")
