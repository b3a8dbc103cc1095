"""Sums of NVIDIA's files that other packagers pin, where NVIDIA publishes none: Spack's and conda-forge's recipes.

A file's address is the one of the recipe. Nothing is added by what a packager alone says: a person decides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from update.form import SHA256, VERSION, mapping, text, text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "package.py of Spack's cuda and cudnn, from _versions to its end; recipe/meta.yaml of conda-forge's cudnn"
_HOME = "https://developer.download.nvidia.com/compute/"
_SPACK = re.compile(r"https://github\.com/spack/spack-packages/blob/[0-9a-f]+/.*/(cuda|cudnn)/package\.py")
_CONDA = re.compile(r"https://github\.com/conda-forge/cudnn-feedstock/blob/[0-9a-f]+/recipe/meta\.yaml")
_MACHINES = {"Linux-x86_64": "linux-x86_64", "Linux-aarch64": "linux-sbsa", "Linux-ppc64le": "linux-ppc64le"}
_LEFT_OUT = "Darwin-x86_64"
_OLD_NAMES = {"linux-x86_64": "linux-x64", "linux-sbsa": "linux-aarch64sbsa", "linux-ppc64le": "linux-ppc64le"}
_RUNFILE = re.compile(r"cuda_(\d+(?:\.\d+){1,2})(?:_(\d+(?:\.\d+)+))?_linux(?:[-_]?\w*)?(?:\.run)?")
_BUILD = re.compile(r"(\d{1,6}(?:\.\d{1,6}){3})-(\d{1,6}(?:\.\d{1,6})?)")
_SET = re.compile(r'\{% set version = "(\d{1,6}(?:\.\d{1,6}){3})" %\}')
_SUM = re.compile(r'\s+sha256: "?([0-9a-f]{64})"?\s+# \[(.*)\]')
_SELECTED = {
    **dict.fromkeys(("win", "win64"), "windows-x86_64"),
    "ppc64le": "linux-ppc64le",
    "aarch64": "linux-sbsa",
    **dict.fromkeys(("linux64", "x86_64"), "linux-x86_64"),
}
_MAJOR = re.compile(r'startswith\("(\d+)"\)')


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each file, whoever pins it; none where two of them disagree."""
    found: dict[str, Found] = {}
    contested: set[str] = set()
    for body in bodies:
        spack = _SPACK.fullmatch(body.address)
        if spack is None and not _CONDA.fullmatch(body.address):
            raise refuse(body.address, "is no recipe that the facts use")
        of_body = _of_conda(body) if spack is None else _of_spack(body, spack[1])
        for one in of_body:
            before = found.setdefault(one.row["file"], one)
            if before.row["sha256"] != one.row["sha256"]:
                contested.add(one.row["file"])
            before.row["src"] = sorted({*before.row["src"], *one.row["src"]})
    return Given(tuple(one for file, one in found.items() if file not in contested))


def _of_spack(body: Body, package: str) -> Iterator[Found]:
    _, assigned, rest = text_of(body).partition("_versions = ")
    try:
        versions = ast.literal_eval(rest) if assigned else None
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as exc:
        raise refuse(body.address, f"is no table of versions: {exc}") from exc
    for release, files in mapping(versions, body.address).items():
        for machine, pinned in mapping(files, str(release)).items():
            if machine == _LEFT_OUT:
                continue
            if machine not in _MACHINES:
                raise refuse(body.address, f"has the machine {machine!r}")
            if package == "cuda":
                yield _of_runfile(str(release), _MACHINES[machine], pinned)
            elif (build := _BUILD.fullmatch(str(release))) and isinstance(pinned, str):
                yield from _of_cudnn(build[1], build[2], _MACHINES[machine], {"sha256": pinned}, "spack")


def _of_runfile(release: str, platform: str, pinned: object) -> Found:
    if not isinstance(pinned, tuple) or len(pinned) != 2 or not VERSION.fullmatch(release):
        raise refuse(release, f"is pinned to {pinned!r}")
    sha256 = text({"sha256": pinned[0]}, "sha256", SHA256, release)
    file = str(pinned[1]).rpartition("/")[2]
    named = _RUNFILE.fullmatch(file)
    if named is None or named[1] != release or not str(pinned[1]).startswith("https://developer."):
        raise refuse(release, f"has the file {pinned[1]!r}")
    row: Row = {"component": "cuda", "version": release, "platform": platform, "method": "runfile", "file": file}
    row |= {"driver": named[2]} if named[2] else {}
    return Found("cuda-installers", "archives", {**row, "url": pinned[1], "sha256": sha256, "src": ["spack"]})


def _of_conda(body: Body) -> Iterator[Found]:
    """The archives of a revision whose address has platform, version and the major of CUDA."""
    content = text_of(body)
    version = _SET.search(content)
    if version is None:
        raise refuse(body.address, "sets no version")
    for line in content.splitlines():
        pinned = _SUM.fullmatch(line)
        major = _MAJOR.search(pinned[2]) if pinned else None
        if pinned is None or major is None or f"_cuda{major[1]}-archive" not in content:
            continue
        words = set(re.findall(r"\w+", pinned[2]))
        platform = next((platform for word, platform in _SELECTED.items() if word in words), None)
        if platform is None:
            raise refuse(body.address, f"has a sum for {pinned[2][:80]}")
        yield from _of_cudnn(version[1], major[1], platform, {"sha256": pinned[1]}, "conda_forge")


def _of_cudnn(version: str, cuda: str, platform: str, pinned: Mapping[str, str], src: str) -> Iterator[Found]:
    """An archive, by the address that the recipe makes of version, CUDA and platform."""
    numbers = [int(part) for part in version.split(".")]
    folder, kind = ".".join(version.split(".")[:3]), "zip" if platform.startswith("windows") else "tar.xz"
    if numbers >= [8, 8]:
        file = f"cudnn-{platform}-{version}_cuda{cuda}-archive.{kind}"
        url = f"{_HOME}cudnn/redist/cudnn/{platform}/{file}"
    elif [8, 3, 1] <= numbers < [8, 5]:
        file = f"cudnn-{platform}-{version}_cuda{cuda}-archive.{kind}"
        url = f"{_HOME}redist/cudnn/v{folder}/local_installers/{cuda}/{file}"
    elif [7, 6, 3] <= numbers < [8, 3, 1] and platform in _OLD_NAMES:
        file = f"cudnn-{cuda}-{_OLD_NAMES[platform]}-v{version}.tgz"
        url = f"{_HOME}redist/cudnn/v{folder}/{file}"
    else:
        return
    top = "cuda" if file.endswith(".tgz") else re.sub(r"\.(tar\.xz|zip)$", "", file)
    row: Row = {"version": version, "component": "cudnn", "part": "cudnn", "platform": platform, "cuda": cuda}
    row |= {"method": "zip" if kind == "zip" else "tar", "file": file, "url": url}
    sha256 = text(pinned, "sha256", SHA256, file)
    yield Found("cudnn-archives", "archives", {**row, "sha256": sha256, "top_dir": top, "src": [src]})
