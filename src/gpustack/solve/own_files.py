"""Files that the user has downloaded, as offers: what the planners take from the facts is here read in the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gpustack.model.facts import Archive, PackageSet
from gpustack.model.offer import Offer, Wheel
from gpustack.model.own_file import Form, OwnFile
from gpustack.model.request import Method
from gpustack.versions import is_within

METHOD_OF: dict[Form, Method] = {
    "tar": "tar",
    "zip": "zip",
    "package": "local",
    "repository": "local",
    "runfile": "runfile",
    "wheel": "pip",
}
"""By which method a downloaded file is installed."""


def named(file: OwnFile) -> str:
    """A file as people know it: by the name that it has with them, and the beginning of its checksum."""
    return f"{file.path.rpartition('/')[2]} (sha256 {file.sha256[:12]})"


def built_for(files: tuple[OwnFile, ...]) -> str:
    """For which CUDA the files of a component are built."""
    return f"{named(files[0])} is built for CUDA {files[0].cuda or 'of a release that it does not name'}"


def offer_of(files: tuple[OwnFile, ...], platform: str, sets: Iterable[PackageSet]) -> Offer:
    """The offer of the files of one component; ``sets`` are the package sets of the host's family, of any version."""
    first = files[0]
    archives = tuple(_archive(file, platform) for file in files)
    if METHOD_OF[first.form] == "local":
        packages = tuple(_held(files, sets))
        with_cuda = tuple(dict.fromkeys(row.with_cuda for row in packages if row.role == "main" and row.with_cuda))
        return Offer(
            with_cuda=with_cuda,
            flavours=tuple(dict.fromkeys(row.flavour for row in packages if row.flavour)),
            packages=packages,
            archives=archives,
            files=files,
        )
    with_cuda = (f"=={first.cuda}.*",) if first.cuda else ()
    wheels = tuple(_wheel(file, platform) for file in files if file.form == "wheel")
    return Offer(with_cuda=with_cuda, archives=archives, wheels=wheels, files=files)


def _held(files: tuple[OwnFile, ...], sets: Iterable[PackageSet]) -> Iterator[PackageSet]:
    """The package sets that the files hold whole, at the version in which they hold them.

    Where the facts know the release they say for which CUDA its build is; of another release the names alone count.
    """
    held = {package.name: package.version for file in files for package in file.packages}
    version, cuda = files[0].version, files[0].cuda
    whole = [row for row in sets if all(name in held for name in row.packages)]
    exact = [
        row
        for row in whole
        if is_within(version, row.versions)
        and (not row.pin or row.pin.replace("{version}", version).rstrip("*") in held[row.packages[0]])
    ]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for row in exact or (replace(row, versions="", with_cuda=f"=={cuda}.*" if cuda else "") for row in whole):
        if (row.role, row.packages) not in seen:
            seen.add((row.role, row.packages))
            pin = held[row.packages[0]]
            is_one = all(held[name] == pin for name in row.packages)
            yield replace(row, pin=pin if is_one else row.pin)


def _archive(file: OwnFile, platform: str) -> Archive:
    return Archive(
        version=file.version,
        platform=platform,
        file=file.file,
        component=file.component,
        method=METHOD_OF[file.form],
        part=file.component,
        distro=file.distro,
        cuda=file.cuda,
        url=file.url,
        sha256=file.sha256,
        size=file.size,
        top_dir=file.top_dir,
    )


def _wheel(file: OwnFile, platform: str) -> Wheel:
    name, version, python, *_ = file.file.split("-")
    return Wheel(
        version=file.version,
        platform=platform,
        file=file.file,
        wheel_version=version,
        component=file.component,
        method="pip",
        part=name.replace("_", "-"),
        cuda=file.cuda,
        sha256=file.sha256,
        size=file.size,
        python=python,
    )
