"""DRIVE OS QNX: the host's toolkit, everything for the target from the DRIVE SDK and QNX's own platform."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.steps import FileWrite
from gpustack.plan.components.cuda import prefix_of
from gpustack.plan.components.samples import sample_of
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.targets.base import SAMPLE, from_sdk
from gpustack.plan.targets.drive_os import cudnn_of_sdk

ENVIRONMENT = "/opt/gpustack/targets/qnx.sh"
TOOLKIT = "cuda-cross-qnx"
_GUIDE = "cudnn/guide_805"


class Qnx:
    """The target of section 4.2 of the cuDNN 8.0.5 guide."""

    def drafts(self, ctx: Context) -> list[Draft]:
        toolkit = from_sdk(
            ctx,
            "cross:cuda",
            after=("install:cuda",),
            title=f"install {TOOLKIT} from the DRIVE SDK",
            why="dpkg -i its cuda-*-cross-aarch64 file, then apt-get update and apt-get install cuda-cross-qnx; "
            "NVIDIA's public repository has no packages for QNX. The SDK names its CUDA release",
        )
        drafts = [] if any(name.startswith(TOOLKIT) for name in ctx.host.cross_packages or ()) else [toolkit]
        drafts += cudnn_of_sdk(ctx, after=tuple(one.key for one in drafts))
        if not drafts and ctx.changes("cuda") is None:
            return []
        drafts.append(_environment(ctx, after=("install:cuda",)))
        return [*drafts, _sample(ctx, after=tuple(one.key for one in drafts))]


def _environment(ctx: Context, *, after: tuple[str, ...]) -> Draft:
    prefix = prefix_of(ctx.version("cuda") or "")
    lines = (
        "# Written by gpustack. Set QNX_SDP to the folder of the QNX Software Development Platform, then source this.",
        f"export CUDA_PATH={prefix}",
        'export QNX_HOST="${QNX_SDP}/host/linux/x86_64"',
        'export QNX_TARGET="${QNX_SDP}/target/qnx7"',
    )
    return draft(
        "cross-environment",
        after=after,
        component="cuda",
        kind="set-environment",
        title=f"write the variables of the QNX build to {ENVIRONMENT}",
        why="the samples' Makefiles read them; the path of QNX's platform is known only to its licensees, so "
        "the file is sourced by hand and not by every shell",
        files=(FileWrite(path=ENVIRONMENT, content="\n".join(lines) + "\n"),),
        undo=(do.Remove(paths=(ENVIRONMENT,)),),
        done_when=f"path {ENVIRONMENT}",
        phase="toolkit",
        sources=ctx.matrix.addresses((_GUIDE,)),
    )


def _sample(ctx: Context, *, after: tuple[str, ...]) -> Draft:
    place = sample_of(ctx, "7")
    folder = place.path.rpartition("/")[0] if place else "/usr/src/cudnn_samples_v7"
    return draft(
        "cross-sample",
        after=after,
        component="cudnn",
        kind="manual",
        title="build a sample for QNX",
        why=f"copy {folder} to your home, source {ENVIRONMENT}, and in {SAMPLE} of the copy: make TARGET_OS=QNX "
        'TARGET_ARCH=aarch64 HOST_COMPILER="$QNX_HOST/usr/bin/aarch64-unknown-nto-qnx7.x.x-g++", with 7.x.x as the '
        "compiler of your platform is called; it is under a licence of its own, so no step can name it",
        needs_root=False,
        undo_note="remove the copy",
        phase="applications",
        sources=(*ctx.addresses(place), *ctx.matrix.addresses((_GUIDE,))),
    )


TARGET = Qnx()
