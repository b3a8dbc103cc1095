"""DRIVE OS Linux: the cross toolkit from NVIDIA's repository, cuDNN from the DRIVE SDK, a sample build."""

from __future__ import annotations

from gpustack.model.actions import Package
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft
from gpustack.plan.targets.base import build_sample, compiler, cross_toolkit, from_sdk, is_there

_GUIDE = "cudnn/guide_805"
NAMES = ("libcudnn7-cross-aarch64", "libcudnn7-dev-cross-aarch64")


class DriveOs:
    """The target of section 4.1 of the cuDNN 8.0.5 guide."""

    def drafts(self, ctx: Context) -> list[Draft]:
        drafts = [*compiler(ctx), *cross_toolkit(ctx)]
        drafts += cudnn_of_sdk(ctx, after=tuple(one.key for one in drafts))
        if not drafts:
            return []
        after = tuple(one.key for one in drafts)
        return drafts + build_sample(ctx, "7", ("TARGET_ARCH=aarch64",), after=after, source=_GUIDE)


def cudnn_of_sdk(ctx: Context, *, after: tuple[str, ...]) -> list[Draft]:
    """The manual step that installs the cuDNN of the DRIVE SDK, the library before its headers; none if installed."""
    if is_there(ctx, [Package(name=name) for name in NAMES]):
        return []
    ctx.warn(
        f"the libraries of a DRIVE SDK are built for the one CUDA release of that SDK: where that is not "
        f"{ctx.version('cuda')}, ask for it by name (cuda==...)"
    )
    own = ctx.version("cudnn")
    if own:
        ctx.warn(
            f"cuDNN {own} is for this host only: the target gets the cuDNN 7 of the DRIVE SDK, and programs for it are"
            " built with its headers"
        )
    step = from_sdk(
        ctx,
        "cross:cudnn",
        after=after,
        title=f"install {' and '.join(NAMES)} from the DRIVE SDK",
        why="dpkg -i the file of the library, then that of the headers, both for the CUDA of this plan; the SDK's "
        "cuDNN has its samples in /usr/src/cudnn_samples_v7 (the guide prints cuda_samples_v7 once)",
    )
    return [step]


TARGET = DriveOs()
