"""What every target requires: the folder of cross packages, its toolkit, a compiler, and a sample build as proof."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.actions import Package
from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.cuda import prefix_of
from gpustack.plan.components.samples import sample_of
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import CACHE
from gpustack.plan.methods.network import packages_of, warn_of_composed
from gpustack.plan.repositories import component_repository
from gpustack.solve.crossing import FOLDERS

COMPILER = "g++-aarch64-linux-gnu"
SAMPLE = "conv_sample"
"""The sample that needs only cuDNN; mnistCUDNN reads its pictures through FreeImage."""

_OTHERS = """\
export PATH="$1" && cd "$2" && shift 2 || exit
for one in */Makefile; do
case $one in conv_sample/*|mnistCUDNN/*) continue ;; esac
make -C "${one%/*}" "$@" || echo "${one%/*} was not built" >&2
done"""


class TargetPlanner(Protocol):
    """One target: it turns a resolved stack into steps."""

    def drafts(self, ctx: Context) -> list[Draft]:
        """The steps after those of the host's own toolkit. Raises UnsupportedError if the facts know no way."""
        ...


def is_there(ctx: Context, packages: Iterable[Package]) -> bool:
    """Whether the host has all of these packages, in the versions that are pinned."""
    have = ctx.host.cross_packages or {}
    return all(
        one.name in have and (not one.pin or have[one.name] == one.pin or have[one.name].startswith(f"{one.pin}-"))
        for one in packages
    )


def cross_toolkit(ctx: Context) -> list[Draft]:
    """The steps that install the target's part of the toolkit from its folder; none if the host has it."""
    pick, target = ctx.resolution.pick("cuda"), ctx.request.target
    if pick is None:
        return []
    folder = FOLDERS[target]
    row, rows = pick.offer.cross_repository, pick.offer.cross_packages[:1]
    if row is None or not rows:
        msg = f"no cross packages are known of CUDA {pick.version} for {target} in {ctx.system.repo}/{folder}"
        raise UnsupportedError(msg, code="no-cross-packages", hint="another release of CUDA or of Ubuntu may have them")
    if is_there(ctx, packages_of(pick, rows)):
        return []
    repository = component_repository(ctx, pick, row)
    after = [one.key for one in repository]
    install = install_cross(ctx, pick, rows, after=(*after, "install:cuda"), why=_why_cross(pick, row.url))
    return [*repository, install]


def _why_cross(pick: Pick, url: str) -> str:
    return f"the target's headers and libraries of CUDA {pick.version}, by their whole name, from {url}"


def install_cross(ctx: Context, pick: Pick, rows: tuple[PackageSet, ...], *, after: tuple[str, ...], why: str) -> Draft:
    """The step that installs the cross packages of a component."""
    tool = manager(ctx.system.family)
    warn_of_composed(ctx, rows)
    packages = packages_of(pick, rows)
    return draft(
        f"cross:{pick.component}",
        after=after,
        component=pick.component,
        kind="install-packages",
        title=f"install {', '.join(one.name for one in packages)}",
        why=why,
        actions=(do.InstallPackages(manager=tool.name, packages=tuple(packages)),),
        undo=(do.RemovePackages(manager=tool.name, names=tuple(one.name for one in packages)),),
        done_when=done.packages(tool, packages),
        phase="toolkit" if pick.component == "cuda" else "libraries",
        sources=ctx.addresses(*rows),
    )


def compiler(ctx: Context) -> list[Draft]:
    """The step that installs the host's cross compiler for Arm, and make; none if the host has the compiler."""
    if is_there(ctx, [Package(name=COMPILER)]):
        return []
    tool = manager(ctx.system.family)
    names = (COMPILER, "make")
    step = draft(
        "cross-compiler",
        after=["index:system", "tools"],
        component="",
        kind="install-packages",
        title=f"install {' and '.join(names)}",
        why="nvcc calls it for the parts of a program that run on the target's processor",
        actions=(do.InstallPackages(manager=tool.name, packages=tuple(Package(name=name) for name in names)),),
        undo=(do.RemovePackages(manager=tool.name, names=(COMPILER,)),),
        done_when=done.names(tool, names),
        phase="prerequisites",
        sources=ctx.matrix.addresses(("cudnn/guide_896",)),
    )
    return [step]


def build_sample(
    ctx: Context, major: str, variables: tuple[str, ...], *, after: tuple[str, ...], source: str
) -> list[Draft]:
    """The step that builds the samples for the target from a copy, because /usr/src belongs to root and packages."""
    place, cuda = sample_of(ctx, major), ctx.version("cuda")
    if place is None or cuda is None:
        return []
    origin = place.path.rpartition("/")[0]
    folder = f"{CACHE}/targets/{ctx.request.target}"
    copy = f"{folder}/{origin.rpartition('/')[2]}"
    prefix = prefix_of(cuda)
    words, path = (f"CUDA_PATH={prefix}", *variables), f"{prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    step = draft(
        "cross-sample",
        after=after,
        component="cudnn",
        kind="build",
        title="build the samples for the target",
        why=f"building {SAMPLE} proves compiler, headers and libraries; it runs on the target only. The others in "
        f"{copy} are built after it, and the output names those that are not. mnistCUDNN requires a FreeImage for "
        "the target, which no repository here has, so it is skipped",
        actions=(
            do.MakeFolders(paths=(folder,)),
            do.Remove(paths=(copy,), whole=True),
            do.CopyTree(source=origin, target=copy),
            do.Make(folder=f"{copy}/{SAMPLE}", words=words, path=path),
            do.Run(argv=("sh", "-c", _OTHERS, "sh", path, copy, *words), touches=(copy,)),
        ),
        undo=(do.Remove(paths=(copy,), whole=True),),
        phase="applications",
        sources=(*ctx.addresses(place), *ctx.matrix.addresses((source,))),
    )
    return [step]


def from_sdk(ctx: Context, key: str, *, title: str, why: str, after: tuple[str, ...] = ()) -> Draft:
    """A step for a person: files that NVIDIA provides only after a login, with the DRIVE SDK."""
    return draft(
        key,
        after=after,
        component="cudnn" if "cudnn" in key else "cuda",
        kind="manual",
        title=title,
        why=f"{why}. Their exact names and checksums are not public: they come with the DRIVE OS SDK, behind a login",
        undo_note="remove the packages of these files",
        phase="libraries" if "cudnn" in key else "toolkit",
        sources=ctx.matrix.addresses(("cudnn/guide_805",)),
    )
