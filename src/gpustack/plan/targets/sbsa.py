"""Servers with Arm processors (SBSA): cross toolkit, cross cuDNN, a sample built for them."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.samples import samples_packages
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.methods.network import packages_of
from gpustack.plan.targets.base import build_sample, compiler, cross_toolkit, install_cross
from gpustack.solve.crossing import cross_sets
from gpustack.versions import is_within

_GUIDE = "cudnn/guide_896"


class Sbsa:
    """The target of section 4.1 of the cuDNN 8.9.6 guide, and its successors."""

    def drafts(self, ctx: Context) -> list[Draft]:
        drafts = [compiler(ctx), *cross_toolkit(ctx)]
        pick = ctx.resolution.pick("cudnn")
        if pick is None:
            return drafts
        samples = _samples(ctx, pick)
        cross = _cross_cudnn(ctx, pick, after=(drafts[-1].key, "install:cudnn"))
        after = tuple(one.key for one in (*drafts, *samples, cross))
        build = build_sample(
            ctx, pick.version.partition(".")[0], ("TARGET_ARCH=aarch64", "SBSA=1"), after=after, source=_GUIDE
        )
        return [*drafts, *samples, cross, *(build if samples else [])]


def _samples(ctx: Context, pick: Pick) -> list[Draft]:
    rows = samples_packages(ctx, pick)
    if not rows:
        return []
    tool = manager(ctx.system.family)
    packages = packages_of(pick, rows)
    return [
        draft(
            "cross-samples",
            after=["install:cudnn"],
            component="cudnn",
            kind="install-packages",
            title=f"install {', '.join(one.name for one in packages)}",
            why="the samples prove the set-up; they are built below",
            commands=(tool.install(packages),),
            packages=tuple(tool.word(one) for one in packages),
            undo=(tool.remove([one.name for one in packages]),),
            done_when=done.packages(tool, packages),
            phase="libraries",
            sources=ctx.addresses(*rows),
        )
    ]


def _cross_cudnn(ctx: Context, pick: Pick, *, after: tuple[str, ...]) -> Draft:
    cuda = ctx.version("cuda") or ""
    rows = [
        row
        for row in cross_sets(ctx.matrix, "cudnn", pick.version, target="sbsa", repo=ctx.system.repo)
        if not row.with_cuda or is_within(cuda, row.with_cuda)
    ]
    served = next((row for row in rows if row.method == "network"), None)
    if served is not None:
        why = f"the target's libraries of cuDNN {pick.version}, from the same folder"
        return install_cross(ctx, pick, (served,), after=after, why=why)
    names = ", ".join(f"{one.name}={one.pin}" for one in packages_of(pick, tuple(rows[:1])))
    return draft(
        "cross:cudnn",
        after=after,
        component="cudnn",
        kind="manual",
        title=f"install {names or 'libcudnn8-cross-sbsa'} from NVIDIA's local repository package",
        why=f"download cudnn-local-repo-cross-sbsa-*-{pick.version}_1.0-1_all.deb from the cuDNN archive page (it asks "
        "for a login, so nothing here can fetch or check it), then dpkg -i that file, apt-get update and apt-get "
        f"install {names}",
        undo_note="remove the packages again",
        phase="libraries",
        sources=(*ctx.addresses(*rows), *ctx.matrix.addresses((_GUIDE,))),
    )


TARGET = Sbsa()
