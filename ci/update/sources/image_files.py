"""Dockerfiles of NVIDIA's CUDA images: which cuDNN and NCCL a folder of the vendor's repository offered, by packages.

An image installs from the folder of its system, or by an address that it names; one stage is for one architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, Found, Given, refuse
from update.sources import image_builds
from update.sources.image_packages import Pinned, Place, named, pinned

HAND_OUT = "dist/**/Dockerfile of a copy of the images' repository"
_COPIES = {
    "pdtgct/cuda/e3c1b680f08e358d51d190aaa156bba111e32509": "docker",
    "wimjan123/cuda11.7-gptj-training/d9a5c8fa": "docker_2023",
}
"""The copies of the repository, and the key of each one's source."""

_ADDRESS = re.compile(r"https://raw\.githubusercontent\.com/(.+)/dist/.+/Dockerfile")
_SCRIPT = re.compile(r"https://github\.com/(?:tensorflow/build|horovod/horovod)/blob/[0-9a-f]+/.+")
"""Lists of packages and Dockerfiles of others, which pin builds that no image of NVIDIA has."""
_PLACE = re.compile(r".*/dist/(?:end-of-life/)?([\d.]+)/([a-z]+\d\w*)/(?:\w+/)*?(\w+)/Dockerfile")
_BASE = re.compile(r"FROM \S+:(\d{1,3})\.\S+-([a-z]+[\d.]+) (?:as|AS) base\n")
_STAGE = re.compile(r"FROM \S+ (?:as|AS) base-(amd64|arm64|ppc64le)")
_VALUE = re.compile(
    r"ENV (NV_CUDNN_VERSION|NV_LIBNCCL(?:_DEV)?_PACKAGE_VERSION|NV_CUDNN_DL_URL|NV_LIBNCCL_DL_SOURCE)[ =](\S+)"
)
_FROM = re.compile(r"https://developer\.download\.nvidia\.com/(compute/[a-z-]+/repos)/([a-z0-9]+)/([a-z0-9_]+)/.*")
_NUMBER = re.compile(r"(\d+(?:\.\d+)+)(?:-+\d+)?(?:[.+]cuda[\d.]+)?")
_ARCHES = {"amd64": "x86_64", "arm64": "sbsa", "ppc64le": "ppc64le"}
_COMPONENTS = {
    "NV_CUDNN_VERSION": "cudnn",
    "NV_LIBNCCL_PACKAGE_VERSION": "nccl",
    "NV_LIBNCCL_DEV_PACKAGE_VERSION": "nccl",
}
_OFFICIAL = "compute/cuda/repos"
_ONE_FOLDER = 11
"""The major of CUDA whose images take everything from one folder; older ones had a second one for libraries."""
_FAMILIES = {
    f"{name}{number}": f"rhel{number}"
    for name in ("centos", "ubi", "rockylinux", "oraclelinux")
    for number in ("7", "8", "9", "10")
}
"""Systems that install from the folder of another one."""


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each folder and version that an image installed, if two files say so."""
    found: dict[tuple[str, str, str, str, str], list[str]] = {}
    packages: list[Pinned] = []
    for body in bodies:
        if _SCRIPT.fullmatch(body.address):
            packages += named(text_of(body))
            continue
        known = _ADDRESS.fullmatch(body.address)
        if known is None or known[1] not in _COPIES:
            raise refuse(body.address, "is not a Dockerfile of a known copy")
        copy = _COPIES[known[1]]
        for place in _offers(body):
            if place[0] == "cudnn" or copy == "docker":  # the facts keep what the newer copy says of NCCL
                found.setdefault(place, []).append(copy)
        packages += (one for one in _pinned(body) if one.component == "cudnn" or copy == "docker")
    evidence = [_row(place, [*dict.fromkeys(src)]) for place, src in found.items() if len(src) > 1]
    return Given((*evidence, *image_builds.rows(packages)))


def _row(place: tuple[str, str, str, str, str], src: list[str]) -> Found:
    component, root, repo, arch, version = place
    where = {"root": root} if component == "cudnn" else {}
    row = {**where, "repo": repo, "arch": arch, "version": version, "src": src}
    return Found(component, "repository_evidence", row)


def _base(body: Body) -> tuple[str, str]:
    """The major of CUDA of the image, and the folder of its system."""
    base = _BASE.search(text_of(body))
    if base is None:
        raise refuse(body.address, "names no system that it is for")
    return base[1], _FAMILIES.get(base[2], base[2].replace(".", ""))


def _stages(body: Body) -> Iterator[tuple[str, str]]:
    """The stages for one architecture: the one without installs what another one named."""
    for stage in re.split(r"(?m)^(?=FROM )", text_of(body)):
        if arch := _STAGE.match(stage):
            yield arch[1], stage


def _pinned(body: Body) -> Iterator[Pinned]:
    """The packages of an image that lies in a folder of its system."""
    if place := _PLACE.fullmatch(body.address):
        for arch, stage in _stages(body):
            yield from pinned(stage, Place(*place.groups()), _base(body)[1], arch)


def _offers(body: Body) -> Iterator[tuple[str, str, str, str, str]]:
    """Component, root, folder, architecture and version of what each stage installs."""
    major, folder = _base(body)
    for arch, stage in _stages(body):
        values = dict(_VALUE.findall(stage))
        for name, component in _COMPONENTS.items():
            if name not in values:
                continue
            number = _NUMBER.fullmatch(values[name])
            if number is None:
                raise refuse(body.address, f"has {component} {values[name]!r}")
            address = values.get("NV_CUDNN_DL_URL" if component == "cudnn" else "NV_LIBNCCL_DL_SOURCE", "")
            named = _FROM.fullmatch(address)
            if named:
                yield component, named[1], named[2], named[3], number[1]
            elif not address and int(major) >= _ONE_FOLDER:  # else it is an archive, or of either folder
                yield component, _OFFICIAL, folder, _ARCHES[arch], number[1]
