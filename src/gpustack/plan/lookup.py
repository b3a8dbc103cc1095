"""Which rows of the facts hold for a host: its system, its repository folder, the packages of a component."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.matrix.index import Matrix
from gpustack.model.facts import Archive, PackageSet
from gpustack.model.host import Host
from gpustack.model.places import Repository, System
from gpustack.versions import is_within, version_key

ARCH_FOLDERS = {
    "x86_64": ("x86_64", "amd64"),
    "aarch64": ("sbsa", "aarch64", "arm64"),
    "ppc64le": ("ppc64le", "ppc64el"),
}
"""The words that repositories use for an architecture, the first one preferred. Jetson's arm64 folder is not sbsa."""


def system_of(matrix: Matrix, host: Host) -> System:
    """The most exact row for the host's system. Raises UnsupportedError when no row covers it."""
    for row in matrix.systems:
        if host.os.system and f"{row.id}{row.version}" == host.os.system:
            return row
    name, version = host.os.id or "", host.os.version_id or ""
    if host.environment == "wsl" and not name.startswith("wsl-"):
        name = f"wsl-{name}"
    rows = [row for row in matrix.systems if row.id == name and covers(row.version, version)]
    if rows:
        return max(rows, key=lambda row: len(row.version))
    known = sorted({row.version for row in matrix.systems if row.id == name})
    msg = f"the facts know no system {host.os.spelled!r}"
    hint = f"known releases of {name}: {', '.join(known)}" if known else "`gpustack matrix list systems` shows all"
    raise UnsupportedError(msg, hint=hint)


def repository_of(matrix: Matrix, host: Host, system: System) -> Repository:
    """NVIDIA's repository folder for this system and architecture. Raises UnsupportedError when there is none."""
    if not system.repo:
        msg = f"NVIDIA has no package repository for {system.name or host.os.spelled}"
        if system.no_repo:
            msg = f"{msg}: {system.no_repo}"
        raise UnsupportedError(msg, hint="other methods are tar, runfile, pip, container and distro (`--method`)")
    rows = [row for row in matrix.repositories if row.repo == system.repo]
    for word in arch_folders(host, system):
        for row in rows:
            if row.arch == word:
                return row
    folders = ", ".join(sorted(row.arch for row in rows)) or "no architecture that the facts know"
    msg = f"NVIDIA's repository folder {system.repo} has no packages for {host.arch}: it has {folders}"
    raise UnsupportedError(msg, hint="other methods are tar, runfile, pip, container and distro (`--method`)")


def arch_folders(host: Host, system: System) -> tuple[str, ...]:
    """The repository folders that serve this host's architecture. Jetson's arm64 and the servers' sbsa never mix."""
    words = ARCH_FOLDERS.get(host.arch or "", (host.arch or "",))
    if host.environment == "jetson" or system.id == "l4t":
        return tuple(word for word in words if word in system.arch)
    return tuple(word for word in words if word != "arm64")


def package_sets(  # noqa: PLR0913 (each narrows the rows; all are keywords)
    rows: tuple[PackageSet, ...],
    *,
    component: str,
    version: str,
    method: str,
    family: str,
    repo: str,
    arch: tuple[str, ...],
    cuda: str | None,
    flavour: str = "",
    role: str = "main",
) -> tuple[PackageSet, ...]:
    """The package sets that hold here, the most exact first."""
    found = [
        row
        for row in rows
        if row.component == component
        and row.method == method
        and row.role == role
        and row.family in {family, "any", ""}
        and (not row.repos or repo in row.repos)
        and (not row.arch or not set(row.arch).isdisjoint(arch))
        and (not row.flavour or not flavour or row.flavour == flavour)
        and (not row.versions or is_within(version, row.versions))
        and (not row.with_cuda or (cuda is not None and is_within(cuda, row.with_cuda)))
    ]
    return tuple(sorted(found, key=_exactness, reverse=True))


def archives_for(
    rows: tuple[Archive, ...], *, version: str, method: str, platforms: tuple[str, ...], cuda: str | None
) -> tuple[Archive, ...]:
    """The archives of a release for these platforms, of the build that fits ``cuda`` best; all where builds are one."""
    found = [row for row in rows if row.version == version and row.method == method and row.platform in platforms]
    builds = {row.cuda for row in found if row.cuda}
    fitting = [build for build in builds if cuda is not None and is_within(cuda, f"=={build}.*")]
    if not fitting and cuda is not None:
        # Built with an earlier minor release of the same major: those run with this one too.
        major = cuda.partition(".")[0]
        fitting = [build for build in builds if build.partition(".")[0] == major and is_within(build, f"<={cuda}")]
    best = max(fitting, key=version_key, default=None)
    return tuple(row for row in found if not row.cuda or row.cuda == best)


def _exactness(row: PackageSet) -> tuple[bool, bool, bool, bool]:
    return bool(row.repos), bool(row.with_cuda), bool(row.arch), bool(row.flavour)


def covers(prefix: str, version: str) -> bool:
    """Whether a row's version is that of a host or a prefix of it; an empty one covers all."""
    return prefix in {"", version} or version.startswith(f"{prefix}.")
