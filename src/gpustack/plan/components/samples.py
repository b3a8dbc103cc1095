"""cuDNN's samples, by which its guides prove an installation: where they lie and which packages bring them."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.lookup import package_sets


class Sample(Struct, frozen=True, kw_only=True):
    """Where the samples of a major version lie, and the package that brings them."""

    major: str
    path: str
    package: str
    src: tuple[str, ...] = ()


def sample_of(ctx: Context, major: str) -> Sample | None:
    """Where the samples of a major version of cuDNN lie, None where that is not known."""
    return next((row for row in ctx.matrix.rows("cudnn", "samples", Sample) if row.major == major), None)


def samples_packages(ctx: Context, pick: Pick) -> tuple[PackageSet, ...]:
    """The package set with the samples of a cuDNN, () where the facts name none."""
    return package_sets(
        ctx.matrix.packages("cudnn"),
        component="cudnn",
        version=pick.version,
        method=pick.method,
        family=ctx.system.family,
        repo=ctx.system.repo,
        arch=ctx.arch_folders,
        cuda=ctx.version("cuda"),
        role="samples",
    )[:1]
