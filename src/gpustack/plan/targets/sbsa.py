"""Servers with Arm processors (SBSA): cross toolkit, cross cuDNN, a sample build."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.samples import samples_packages
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.methods.network import packages_of
from gpustack.plan.targets.base import build_sample, compiler, cross_toolkit, install_cross, is_there

_GUIDE = "cudnn/guide_896"


class Sbsa:
    """The target of section 4.1 of the cuDNN 8.9.6 guide, and its successors."""

    def drafts(self, ctx: Context) -> list[Draft]:
        drafts = [*compiler(ctx), *cross_toolkit(ctx)]
        pick = ctx.resolution.pick("cudnn")
        if pick is None:
            return drafts
        drafts += _samples(ctx, pick)
        drafts += _cross_cudnn(ctx, pick, after=(*(one.key for one in drafts), "install:cudnn"))
        if not drafts or not samples_packages(pick):
            return drafts
        after = tuple(one.key for one in drafts)
        major = pick.version.partition(".")[0]
        return drafts + build_sample(ctx, major, ("TARGET_ARCH=aarch64", "SBSA=1"), after=after, source=_GUIDE)


def _samples(ctx: Context, pick: Pick) -> list[Draft]:
    rows = samples_packages(pick)
    packages = packages_of(pick, rows)
    if not rows or is_there(ctx, packages):
        return []
    tool = manager(ctx.system.family)
    return [
        draft(
            "cross-samples",
            after=["install:cudnn"],
            component="cudnn",
            kind="install-packages",
            title=f"install {', '.join(one.name for one in packages)}",
            why="the samples prove the setup; they are built below",
            actions=(do.InstallPackages(manager=tool.name, packages=tuple(packages)),),
            undo=(do.RemovePackages(manager=tool.name, names=tuple(one.name for one in packages)),),
            done_when=done.packages(tool, packages),
            phase="libraries",
            sources=ctx.addresses(*rows),
        )
    ]


def _cross_cudnn(ctx: Context, pick: Pick, *, after: tuple[str, ...]) -> list[Draft]:
    rows = pick.offer.cross_packages
    served = next((row for row in rows if row.method == "network"), None)
    packages = packages_of(pick, (served,) if served is not None else rows[:1])
    if packages and is_there(ctx, packages):
        return []
    if served is not None:
        why = f"the target's libraries of cuDNN {pick.version}, from the same folder"
        return [install_cross(ctx, pick, (served,), after=after, why=why)]
    names = ", ".join(f"{one.name}={one.pin}" for one in packages)
    by_hand = draft(
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
    return [by_hand]


TARGET = Sbsa()
