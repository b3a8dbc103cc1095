"""NVIDIA's libraries as wheels (nvidia-cudnn-cu12): what each carries, its releases, and which GPUs it supports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpustack.matrix.index import Matrix
from gpustack.model.frameworks import (
    INDEXES,
    LIBRARIES,
    Build,
    LibraryPython,
    LibraryWheel,
    WheelFile,
    WindowsWheels,
    pins,
)
from gpustack.model.host import Gpu
from gpustack.model.offer import Wheel
from gpustack.solve.question import Question
from gpustack.solve.rulebook import BoundRule
from gpustack.versions import is_within, version_key

_SUFFIX = re.compile(r"(.+)-cu(1[123])(?:-libs|-bindings)?")
_BOUND = re.compile(r"tensorrt-cu\d+(?:-bindings)?")
"""Wheels with code for one Python, or that require it."""

_OF_COMPONENT = {"nvidia-cudnn": "cudnn", "nvidia-nccl": "nccl", "tensorrt": "tensorrt"}
SHARED = ("nvidia-cudnn", "nvidia-nccl", "nvidia-nvshmem", "nvidia-cusparselt")
"""Wheels that have their files in the same folder for every CUDA: two of them overwrite each other."""

_OWN_NUMBERS = ("nvidia-cusparselt", "nvidia-nvshmem")
"""Libraries that are no component of the stack, and whose numbers are not those of CUDA."""

_WITHOUT_CUDA = ("nvidia-cudnn-frontend", "nvidia-cutlass-dsl", "nvidia-ml-py", "nvidia-mathdx")
"""Wheels of NVIDIA for every CUDA."""

_PLATFORMS = {"linux-sbsa": "linux-aarch64"}

EXTRAS = {
    "cublas": "nvidia-cublas", "cccl": "nvidia-cuda-cccl", "crt": "nvidia-cuda-crt", "cudart": "nvidia-cuda-runtime",
    "cufft": "nvidia-cufft", "cufile": "nvidia-cufile", "cupti": "nvidia-cuda-cupti", "curand": "nvidia-curand",
    "cusolver": "nvidia-cusolver", "cusparse": "nvidia-cusparse", "npp": "nvidia-npp", "nvcc": "nvidia-cuda-nvcc",
    "nvjitlink": "nvidia-nvjitlink", "nvjpeg": "nvidia-nvjpeg", "nvrtc": "nvidia-cuda-nvrtc", "nvtx": "nvidia-nvtx",
    "nvvm": "nvidia-nvvm",
}  # fmt: skip
"""The extras of cuda-toolkit from 13.0 on, by the wheels that they add."""


class Library(Struct, frozen=True, kw_only=True):
    """What a wheel's name says: the library without the suffix, and the CUDA major, "" if it is for none."""

    stem: str
    major: str

    @property
    def component(self) -> str:
        """The component of the stack that it carries, whose rules hold for it."""
        is_foreign = not self.major or self.stem in _OWN_NUMBERS
        return "" if is_foreign else _OF_COMPONENT.get(self.stem, "cuda")


def library(name: str) -> Library:
    """A library by the name of its wheel: those without a suffix are parts of CUDA 13."""
    match = _SUFFIX.fullmatch(name)
    if match is not None:
        return Library(stem=match[1], major=match[2])
    return Library(stem=name, major="" if name in _WITHOUT_CUDA else "13")


def library_builds(matrix: Matrix, name: str) -> tuple[Build, ...]:
    """The releases of a library's wheel in the facts: parts of CUDA, listed, with checksums, or pinned."""
    found: dict[tuple[str, str], Build] = {}
    for build in (*_archived(matrix, name), *_listed(matrix, name), *_filed(matrix, name), *_pinned(matrix, name)):
        place = build.version, build.platform
        known = found.setdefault(place, build)
        if version_key(build.cuda or "0") > version_key(known.cuda or "0"):
            found[place] = replace(known, cuda=build.cuda)
    if not _BOUND.fullmatch(name):
        return tuple(found.values())
    rows = matrix.rows(INDEXES, "library_pythons", LibraryPython)
    return tuple(
        replace(build, python=next((row.python for row in rows if is_within(build.version, row.versions)), ""))
        for build in found.values()
    )


def _build(place: tuple[str, str, str], src: tuple[str, ...], *, glibc: str = "", cuda: str = "") -> Build:
    """A build by its place: name, number, platform."""
    name, number, platform = place
    major = library(name).major
    return Build(
        component=name,
        version=number,
        platform=_PLATFORMS.get(platform, platform),
        glibc=glibc,
        code="library" if major else "python",
        cuda=cuda or major,
        src=src,
    )


def _archived(matrix: Matrix, name: str) -> Iterator[Build]:
    """The wheels by which components are installed; cuda-toolkit is each release that has a runtime."""
    is_toolkit = name == "cuda-toolkit"
    for subject in ("wheels", "tensorrt-archives"):
        for row in matrix.rows_with(subject, "archives", Wheel, ("nvidia-cuda-runtime" if is_toolkit else name,)):
            line = row.version.rpartition(".")[0] if row.component == "cuda" else ""
            if is_toolkit and row.part.startswith("nvidia-cuda-runtime"):
                yield _build((name, row.version, row.platform), row.src, cuda=line)
            elif row.part == name:
                number = row.wheel_version or row.version
                yield _build((name, number, row.platform), row.src, glibc=row.needs_glibc, cuda=line)


def library_files(matrix: Matrix, name: str) -> Iterator[WheelFile]:
    """The files of a library by which a component is installed, with their checksums."""
    for row in matrix.rows_with("wheels", "archives", Wheel, (name,)) if name in LIBRARIES else ():
        if row.part == name and row.sha256:
            yield WheelFile(
                component=name,
                version=row.wheel_version or row.version,
                file=row.file,
                platform=_PLATFORMS.get(row.platform, row.platform),
                sha256=row.sha256,
                src=row.src,
            )


def _listed(matrix: Matrix, name: str) -> Iterator[Build]:
    whole = name.removesuffix("-libs").removesuffix("-bindings")
    for row in matrix.rows(INDEXES, "library_wheels", LibraryWheel):
        if row.component == whole:
            for number in row.versions:
                for platform in row.platforms:
                    yield _build((name, number, platform), row.src, glibc=row.glibc)

    windows = windows_wheels(matrix, name)
    if windows is not None:
        yield from (_build((name, number, "windows-x86_64"), windows.src) for number in windows.versions)


def windows_wheels(matrix: Matrix, name: str) -> WindowsWheels | None:
    """The releases of a library for Windows; None where nobody looked."""
    rows = matrix.rows(INDEXES, "windows_wheels", WindowsWheels)
    return next((row for row in rows if row.component == name), None)


def _filed(matrix: Matrix, name: str) -> Iterator[Build]:
    for row in matrix.wheel_files(name):
        glibc = Wheel(version=row.version, platform=row.platform, file=row.file).needs_glibc
        yield _build((name, row.version, row.platform), row.src, glibc=glibc)


def _pinned(matrix: Matrix, name: str) -> Iterator[Build]:
    """The releases that PyTorch is pinned to: of CUDA 11.7, for example, no list of parts was published."""
    for build in matrix.builds("torch"):
        pin = next((text.removeprefix(f"{name}==") for text in build.requires if text.startswith(f"{name}==")), "")
        if pin and build.platform.startswith("linux-"):
            line = build.cuda if library(name).component == "cuda" else ""
            yield _build((name, pin, build.platform), build.src, glibc=build.glibc, cuda=line)


def release_of(matrix: Matrix, component: str, number: str) -> str:
    """The release of a component by the number of its wheel, which may have fewer digits or a suffix of its own."""
    plain = number.partition(".post")[0]
    known = (row.version for row in matrix.releases(component))
    return next((one for one in known if one == plain or one.startswith(f"{plain}.")), plain)


def breach_on(question: Question, build: Build, release: str, gpu: Gpu) -> BoundRule | None:
    """The rule by which a library has no code for a GPU: its component's, else that of its CUDA."""
    carried = library(build.component).component
    asked = [(carried, release_of(question.matrix, carried, build.version))] if carried not in {"", "cuda"} else []
    for name, number in (*asked, ("cuda", release)):
        if number:
            for bound in question.book.applying(name, number).get("compute-capability", ()):
                is_in_force = not bound.is_advice and question.view.holds(bound.rule, name)
                if is_in_force and not bound.accepts(number, gpu.compute_capability or ""):
                    return bound
    return None


def with_parts(matrix: Matrix, requires: tuple[str, ...]) -> dict[str, str]:
    """Pins by name, with those of the wheels that cuda-toolkit[...]==RELEASE adds by its extras."""
    found = pins(requires)
    text = next((one for one in requires if one.startswith("cuda-toolkit[")), "")
    wanted = {EXTRAS[name] for name in re.split(r"[\[\],]", text) if name in EXTRAS}
    release = text.partition("==")[2]
    toolkits = (one for one in matrix.builds("cuda-toolkit") if one.version == release) if wanted else ()
    parts = {name: pin for one in toolkits for name, pin in pins(one.optional).items() if name in wanted}
    return {**parts, **found}
