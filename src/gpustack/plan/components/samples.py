"""cuDNN's samples, by which its guides prove an installation: where they lie and which packages bring them."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context


class Sample(Struct, frozen=True, kw_only=True):
    """Where the samples of a major version lie, and the package that brings them."""

    major: str
    path: str
    package: str
    src: tuple[str, ...] = ()


def sample_of(ctx: Context, major: str) -> Sample | None:
    """Where the samples of a major version of cuDNN lie, None where that is not known."""
    return next((row for row in ctx.matrix.rows("cudnn", "samples", Sample) if row.major == major), None)


def samples_packages(pick: Pick) -> tuple[PackageSet, ...]:
    """The package set with the samples of a cuDNN, () where the facts name none."""
    row = pick.offer.package_set("samples")
    return () if row is None else (row,)
