"""Which releases can build for another target: those with known cross packages."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.matrix.index import Matrix
from gpustack.model.facts import PackageSet
from gpustack.versions import is_within

FOLDERS = {"sbsa": "cross-linux-sbsa", "drive-os": "cross-linux-aarch64"}
"""The folder of NVIDIA's repositories with the cross packages for a target; QNX's come with the DRIVE SDK only."""

ROLES = {"sbsa": "cross-sbsa", "drive-os": "cross-aarch64"}
"""The role of the package sets for a target."""

ARCH = "x86_64"
"""The architecture of the hosts that all cross packages are for."""


def cross_sets(matrix: Matrix, component: str, version: str, *, target: str, repo: str) -> Iterator[PackageSet]:
    """The package sets of a release for a target, on Ubuntu and Debian hosts with this repository folder."""
    for row in matrix.packages(component):
        if (
            row.role == ROLES.get(target)
            and row.family == "apt"
            and (not row.repos or repo in row.repos)
            and is_within(version, row.versions)
            and (component != "cuda" or _is_served(matrix, version, FOLDERS[target], repo))
        ):
            yield row


def _is_served(matrix: Matrix, version: str, folder: str, repo: str) -> bool:
    return any(
        row.method == "network" and row.repo == repo and folder in row.arch and is_within(version, row.versions)
        for row in matrix.availability("cuda")
    )


def serves_target(
    matrix: Matrix, component: str, version: str, *, target: str, repo: str
) -> tuple[bool, tuple[str, ...]]:
    """Whether a release is available for a target, and for which CUDA versions (() any).

    CUDA for QNX and cuDNN for both kinds of DRIVE OS come with the DRIVE SDK: nothing here can rule them out.
    """
    if component not in {"cuda", "cudnn"} or target == "qnx" or (component == "cudnn" and target == "drive-os"):
        return True, ()
    rows = tuple(cross_sets(matrix, component, version, target=target, repo=repo))
    return bool(rows), tuple(row.with_cuda for row in rows if row.with_cuda)
