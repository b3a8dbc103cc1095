"""The cuDNN samples that its guides use to prove an installation: their folders and packages."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context


class Sample(Struct, frozen=True, kw_only=True):
    """The folder of the samples of a major version, and the package that contains them."""

    major: str
    path: str
    package: str
    src: tuple[str, ...] = ()


def sample_of(ctx: Context, major: str) -> Sample | None:
    """The folder of the samples of a major version of cuDNN, None if unknown."""
    return next((row for row in ctx.matrix.rows("cudnn", "samples", Sample) if row.major == major), None)


def samples_packages(pick: Pick) -> tuple[PackageSet, ...]:
    """The package set with the samples of a cuDNN, () if the facts name none."""
    row = pick.offer.package_set("samples")
    return () if row is None else (row,)
