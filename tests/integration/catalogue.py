"""Small packages with the vendor's names and versions, taken from the facts: what a plan asks for, and what lures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpustack.matrix.index import Matrix
from gpustack.model.facts import PackageSet
from gpustack.versions import is_within, version

COMPONENTS = ("driver", "cuda", "cudnn", "tensorrt", "container-toolkit")
MAJORS = 3
"""Of so many newest major releases the newest release lies in the repository, whatever a plan asks for."""

_SERVICE = {
    "/usr/lib/systemd/system/nvidia-persistenced.service": (
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
    )
}
"""What a driver's packages bring that its plan enables."""


@dataclass(frozen=True)
class Package:
    """``depends`` holds (name, operator, version) with the operators of deb: =, >=, or "" for any version."""

    name: str
    version: str
    depends: tuple[tuple[str, str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    provides: str = ""
    conflicts: str = ""


@dataclass(frozen=True)
class Stream:
    """One stream of the module nvidia-driver, and the packages that only it shows."""

    name: str
    packages: tuple[Package, ...]


def releases(matrix: Matrix, component: str, picked: tuple[str, ...]) -> list[str]:
    """What lies in the repository: the picked releases, the next newer ones, the newest of each of the last majors."""
    known = [row.version for row in matrix.releases(component) if row.status in {"released", ""}]
    wanted = list(picked)
    wanted += [known[known.index(one) - 1] for one in picked if one in known[1:]]
    majors: dict[str, str] = {}
    for one in known:
        majors.setdefault(one.partition(".")[0], one)
    wanted += list(majors.values())[:MAJORS]
    return sorted(set(wanted), key=lambda one: version(one).key)


def packages(matrix: Matrix, component: str, family: str, repo: str, picked: tuple[str, ...]) -> list[Package]:
    """The packages of one component in one repository folder, each name and version once."""
    found: dict[tuple[str, str], Package] = {}
    rows = [
        row
        for row in matrix.packages(component)
        if row.method == "network" and row.family == family and (not row.repos or repo in row.repos)
        if not row.arch or set(row.arch) & {"x86_64", "amd64"}
    ]
    for release in releases(matrix, component, picked):
        here = [row for row in rows if is_within(release, row.versions)]
        for package in _of_release(matrix, component, family, repo, release, here):
            found.setdefault((package.name, package.version), package)
    return list(found.values())


def streams(matrix: Matrix, repo: str, there: list[Package]) -> list[Stream]:
    """The module streams of a folder: of every branch, and the default one that follows the newest."""
    rows = [row for row in matrix.packages("driver") if row.role == "module-stream" and repo in row.repos]
    drivers = [one for one in there if one.version.startswith("3:")]
    found: dict[str, Stream] = {}
    for package in drivers:
        upstream = package.version.partition(":")[2].partition("-")[0]
        branch = upstream.partition(".")[0]
        for row in rows:
            if row.flavour == "open" and is_within(upstream, row.versions):
                members = tuple(one for one in drivers if one.version.startswith(f"3:{branch}."))
                found.setdefault(row.packages[0], Stream(row.packages[0].partition(":")[2], members))
    return list(found.values())


def _of_release(
    matrix: Matrix, component: str, family: str, repo: str, release: str, rows: list[PackageSet]
) -> Iterator[Package]:
    if component == "driver":
        yield from _driver(family, repo, release, rows)
        return
    for row in rows:
        if row.role not in {"main", "runtime", "samples"}:
            continue
        pinned = _version(row, family, repo, release)
        if component == "cuda":
            yield from _toolkit(matrix, family, row, release, pinned)
            continue
        runtime = next(
            (
                one.packages
                for one in rows
                if one.role == "runtime" and (one.with_cuda, one.pin) == (row.with_cuda, row.pin)
            ),
            row.packages[1:] if row.exact else row.packages[:1],
        )
        for name in row.packages:
            # As the vendor has it: tools and headers name the very build of the libraries.
            depends = () if name in runtime else tuple((part, "=", pinned) for part in runtime)
            yield Package(name, pinned, depends)


def _driver(family: str, repo: str, release: str, rows: list[PackageSet]) -> Iterator[Package]:
    for row in rows:
        pinned = _version(row, family, repo, release)
        if row.role in {"main", "newest"}:
            parts = [
                part
                for one in rows
                if one.role in {"compute", "desktop"} and one.flavour == row.flavour
                for part in one.packages
            ]
            # "This version or newer": without a lock the manager takes the newest of each part.
            least = release if family == "apt" else pinned
            depends = tuple((part, ">=", least) for part in dict.fromkeys(parts) if part not in row.packages)
            for number, name in enumerate(row.packages):
                yield Package(name, pinned, depends, {} if number else _SERVICE)
        elif row.role in {"compute", "desktop"}:
            for name in row.packages:
                yield Package(name, pinned)
        elif row.role == "pinning":
            for name in row.packages:
                branch = release.partition(".")[0]
                text = f"Package: *nvidia* cuda-drivers*\nPin: version {branch}.*\nPin-Priority: 1000\n"
                # One package for the branch: the facts know no version of it but the branch in its name.
                yield Package(name, f"{branch}-1", files={f"/etc/apt/preferences.d/{name}": text})


def _toolkit(matrix: Matrix, family: str, row: PackageSet, release: str, pinned: str) -> Iterator[Package]:
    if row.role != "main":
        return
    dashed = "-".join(release.split(".")[:2])
    left_out = {"-devel-"} if family == "apt" else {"-dev-"}
    names = [
        one["name"].replace("{minor-dashed}", dashed)
        for one in matrix.rows("cuda-packages", "meta_packages", dict)
        if one["name"].endswith("-{minor-dashed}") and one["name"].startswith(("cuda-compiler", "cuda-libraries-dev"))
    ]
    parts = [name for name in names if not any(word in name for word in left_out)]
    home = f"/usr/local/cuda-{'.'.join(release.split('.')[:2])}"
    files = {f"{home}/version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": release}})}
    for number, name in enumerate(row.packages):
        yield Package(name, pinned, tuple((part, ">=", pinned) for part in parts), {} if number else files)
    for name in parts:
        yield Package(name, pinned)


def _version(row: PackageSet, family: str, repo: str, release: str) -> str:
    text = (row.pin or "{version}").replace("{version}", release)
    text = text.replace("*", "1ubuntu1" if repo.startswith("ubuntu") else "1")
    if "-" not in text:
        text += "-1"
    # The vendor's rpm driver packages carry an epoch on the systems with module streams and their successors.
    has_epoch = row.component == "driver" and family in {"dnf", "yum"}
    return f"3:{text}" if has_epoch else text
