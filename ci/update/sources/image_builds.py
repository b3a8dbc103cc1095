"""Rows of the packages that NVIDIA's images pin: builds for each CUDA, their package names, and which image has which.

A build's suffix names the CUDA that it was made with; within a major it counts up to that of the next build.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from update.form import numbers
from update.record import Found, Row
from update.sources.image_packages import Pinned

_YUM = "rhel7"
"""The folder of rpm packages that yum reads; dnf reads the newer ones."""
_SEEN = {"deb": "apt", "rpm": "rpm"}
_FAMILIES = {"apt": ("dev", "+"), "dnf": ("devel", "."), "yum": ("devel", ".")}
"""The end of the names of packages for builders, and what stands before the CUDA of a build."""
_OLD_FOLDERS = ("ubuntu1604", "ubuntu1804")
"""The folders with cuDNN for a CUDA before 11."""
_WITH_SAMPLES = 8
_FIRST_RPM, _NO_YUM = (2, 4, 8), (2, 20)
_COMPATIBLE = 11
"""The first major of CUDA whose minors are compatible: before it, a build is for one minor."""


def rows(packages: Sequence[Pinned]) -> Iterator[Found]:
    """The builds of cuDNN and NCCL, the images that have them, and the names of their packages."""
    builds: dict[tuple[str, str, str], list[Pinned]] = {}
    for one in packages:
        if one.cuda:
            builds.setdefault((one.component, one.version, one.cuda), []).append(one)
    for (component, version, cuda), found in builds.items():
        yield _build(component, version, cuda, found)
    yield from _images(packages)
    for component, version in dict.fromkeys((component, version) for component, version, _ in builds):
        cudas = sorted({cuda for of, number, cuda in builds if (of, number) == (component, version)}, key=numbers)
        for cuda, with_cuda in _ranges(cudas).items():
            yield from _packages(builds[component, version, cuda], with_cuda)


def _build(component: str, version: str, cuda: str, found: list[Pinned]) -> Found:
    row: Row = {"version": version, "cuda": cuda}
    row |= {"suffix": f"cuda{cuda}"} if component == "cudnn" else {}
    row |= {f"{name}_seen": str(any(one.kind == kind for one in found)).lower() for name, kind in _SEEN.items()}
    row |= {"txz_seen": "false"} if component == "nccl" else {}
    table = "package_suffixes" if component == "cudnn" else "builds"
    repos = sorted({one.folder for one in found} - {""})
    return Found(component, table, {**row, **({"repos": repos} if repos else {}), "src": ["docker"]})


def _images(packages: Sequence[Pinned]) -> Iterator[Found]:
    """Which images have which build: systems and architectures of each."""
    groups: dict[tuple[str, str, str, str], list[Pinned]] = {}
    for one in filter(lambda one: one.image, packages):
        of = one.cuda if one.component == "nccl" else one.tag
        groups.setdefault((one.component, one.image, one.version, of), []).append(one)
    for (component, image, version, of), found in groups.items():
        where = {"distros": sorted({one.system for one in found}), "arch": sorted({one.arch for one in found})}
        if component == "nccl":
            row = {"cuda": image, "version": version, "suffix": f"cuda{of}", **where}
            yield Found(component, "images", {**row, "src": ["docker"]})
        else:
            row = {"kind": "nvidia/cuda image", "cuda": image, "tag": of, "cudnn": version, **where}
            yield Found(component, "pairings", {**row, "src": ["docker"]})


def _ranges(cudas: list[str]) -> Mapping[str, str]:
    """The versions of CUDA for which each build is taken: from its own, or its major's first, to the next build."""
    found = {}
    for place, cuda in enumerate(cudas):
        major = numbers(cuda)[0]
        of_major = [one for one in cudas if numbers(one)[0] == major]
        first = f"{major}.0" if cuda == of_major[0] else cuda
        last = f"{major + 1}" if cuda == of_major[-1] else cudas[place + 1]
        found[cuda] = f">={first},<{last}" if major >= _COMPATIBLE else f"=={cuda}.*"
    return found


def _packages(found: list[Pinned], with_cuda: str) -> Iterator[Found]:
    """The packages of a build by family and role: a build has them for every family, or for those where it was seen."""
    one, number = found[0], numbers(found[0].version)
    for family, (suffix, mark) in _FAMILIES.items():
        if not _has(family, found, number):
            continue
        name = f"libcudnn{number[0]}" if one.component == "cudnn" else "libnccl2" if family == "apt" else "libnccl"
        dev = f"libnccl-{suffix}" if one.component == "nccl" else f"{name}-{suffix}"
        about: Row = {"component": one.component, "method": "network", "family": family, "with_cuda": with_cuda}
        is_old = one.component == "cudnn" and family == "apt" and int(one.cuda.partition(".")[0]) < _COMPATIBLE
        about |= {"repos": list(_OLD_FOLDERS)} if is_old else {}
        before = "+" if one.component == "nccl" else mark
        about |= {"versions": f"=={one.version}", "pin": f"{{version}}-1{before}cuda{one.cuda}"}
        roles = {"runtime": [name] if family != "yum" else [], "main": [name, dev]}
        roles |= {"samples": [f"{name}-samples"]} if one.component == "cudnn" and number[0] >= _WITH_SAMPLES else {}
        for role, packages in roles.items():
            if packages:
                row = {**about, "role": role, "packages": packages, "src": ["docker"]}
                yield Found(one.component, "packages", row)


def _has(family: str, found: list[Pinned], number: tuple[int, ...]) -> bool:
    """Whether a build has packages of a family. cuDNN's for CUDA 11 and later have all; NCCL's rpm begin with 2.4.8."""
    if family == "apt" or any(_family(one) == family for one in found):
        return True
    if found[0].component == "nccl":
        return number >= _FIRST_RPM and (family == "dnf" or number < _NO_YUM)
    return int(found[0].cuda.partition(".")[0]) >= _COMPATIBLE


def _family(one: Pinned) -> str:
    return "apt" if one.kind == "apt" else "yum" if one.folder == _YUM else "dnf"
