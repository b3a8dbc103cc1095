"""cuDNN: its compression library, its samples, and the choice between major versions."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.base import Component, is_runtime
from gpustack.plan.components.mnist import mnist
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import NAMES
from gpustack.plan.preparation import SUBJECT, FamilyPackages, family_packages, install_tools
from gpustack.versions import is_within

_NEEDS_ZLIB = ">=8.3"
_PACKAGES = ("network", "local")
_TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "ppc64le": "powerpc64le-linux-gnu"}


class Alternative(Struct, frozen=True, kw_only=True):
    """The alternatives group that switches between major versions, and the choice for these versions."""

    family: str
    versions: str
    group: str
    choice: str = ""
    src: tuple[str, ...] = ()


class Cudnn(Component):
    """The library; major versions can coexist because their file names contain the number."""

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:
        if not is_within(pick.version, _NEEDS_ZLIB) or ctx.system.family not in NAMES:
            return []
        row = family_packages(ctx, "zlib")
        return [_zlib(ctx, row)] if row else []

    def roles(self, ctx: Context, pick: Pick) -> tuple[str, ...]:
        # The exact package version of the samples of version 9 is unknown, and later ones are built differently.
        has_samples = pick.method in _PACKAGES and ctx.can_compute and is_within(pick.version, "<9")
        if pick.offer.files:
            has_samples = has_samples and pick.offer.package_set("samples") is not None
        return ("main", "samples") if has_samples else ("main",)

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
        drafts = _choose(ctx, pick, installed) if pick.method in _PACKAGES else []
        if "samples" in self.roles(ctx, pick) and not is_runtime(ctx, pick):
            drafts += mnist(ctx, pick, (*installed, *(one.key for one in drafts)))
        return drafts


def _zlib(ctx: Context, row: FamilyPackages) -> Draft:
    return install_tools(
        ctx,
        "zlib",
        row.packages,
        after=["index:system", "tools", "archive-tools"],
        component="cudnn",
        why="cuDNN 8.3 and newer loads libz.so.1, and not all of its packages depend on it",
        undo_note="other programs use it too, so it stays",
        sources=ctx.addresses(row),
    )


def _choose(ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
    """If another major version is installed by packages, select the new one for builds."""
    there = ctx.host.installed.get("cudnn")
    if there is None or not there.version or there.method not in _PACKAGES:
        return []
    old, new = there.version.partition(".")[0], pick.version.partition(".")[0]
    if old == new:
        return []
    rows = ctx.matrix.rows(SUBJECT, "alternatives", Alternative)
    row = next((one for one in rows if one.family == ctx.system.family and is_within(pick.version, one.versions)), None)
    stays = f"cuDNN {old} stays next to {new}: programs built with it keep using it"
    if row is None:
        return [_side_by_side(ctx, installed, stays, new)]
    triplet = _TRIPLETS.get(ctx.arch)
    known = bool(row.choice) and triplet is not None
    action: AnyAction
    choice = row.choice.replace("{triplet}", triplet or "")
    if known:
        action = do.ChooseAlternative(group=row.group, choice=choice)
        why = f"{stays}; programs built from now on find {new}. update-alternatives --config {row.group} switches back"
    else:
        action = do.ByHand(commands=(("update-alternatives", "--config", row.group),))
        why = f"{stays}; choose version {new} for programs built from now on"
    return [
        draft(
            "alternatives:cudnn",
            after=installed,
            component="cudnn",
            kind="make-link" if known else "manual",
            title=f"select the cuDNN to build programs with, in the alternatives of {row.group}",
            why=why,
            actions=(action,),
            undo=(do.ChooseAlternative(group=row.group),),
            done_when=done.link(f"/etc/alternatives/{row.group}", choice) if known else "never",
            phase="libraries",
            sources=ctx.addresses(row),
        )
    ]


def _side_by_side(ctx: Context, installed: tuple[str, ...], stays: str, new: str) -> Draft:
    return draft(
        "alternatives:cudnn",
        after=installed,
        component="cudnn",
        kind="note",
        title=f"two major versions of cuDNN are installed side by side; {new} is the newer one",
        why=f"{stays}; remove its packages once nothing needs it",
        needs_root=False,
        undo_note="nothing is changed",
        phase="libraries",
        sources=ctx.matrix.addresses((f"{SUBJECT}/ig_9",)),
    )


COMPONENT = Cudnn()
