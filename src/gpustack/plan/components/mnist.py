"""mnistCUDNN: the sample that the vendor's guide uses to prove that cuDNN works, built and run from a copy."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.plan.components.cuda import prefix_of
from gpustack.plan.components.samples import Sample, sample_of, samples_packages
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers.base import CACHE
from gpustack.plan.preparation import SUBJECT, install_tools


class SampleNeeds(Struct, frozen=True, kw_only=True):
    """What the sample requires to build in a package family."""

    family: str
    packages: tuple[str, ...]
    installed: bool = False
    src: tuple[str, ...] = ()


class HostCompiler(Struct, frozen=True, kw_only=True):
    """The newest major version of gcc that a toolkit supports."""

    version: str
    gcc_max: str = ""


def mnist(ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
    """The steps that build and run the sample; none if its package is unknown for this cuDNN."""
    major = pick.version.partition(".")[0]
    sample = sample_of(ctx, major)
    rows = samples_packages(pick)
    needs = {row.family: row for row in ctx.matrix.rows(SUBJECT, "samples_build", SampleNeeds)}.get(ctx.system.family)
    cuda = ctx.version("cuda")
    if sample is None or needs is None or cuda is None or not rows or sample.package not in rows[0].packages:
        return []
    newest = _newest_compiler(ctx, cuda)
    if newest is not None:
        ctx.warn(
            f"mnistCUDNN is not built: gcc here is newer than {newest}, the newest that nvcc of CUDA {cuda} takes; "
            "with an older g++ installed, make HOST_COMPILER=... builds it"
        )
        return []
    if not needs.installed:
        return [_by_hand(ctx, sample, needs, installed)]
    tools = install_tools(
        ctx,
        "samples-tools",
        needs.packages,
        after=["index:system", "tools", "archive-tools"],
        component="cudnn",
        why="mnistCUDNN, the sample that proves cuDNN, reads its images through FreeImage",
        sources=ctx.addresses(needs),
    )
    return [tools, _run(ctx, pick, sample, cuda, (*installed, tools.key))]


def _newest_compiler(ctx: Context, cuda: str) -> str | None:
    """The newest gcc that the toolkit supports if the host's is newer; None if the host's is supported or unknown."""
    rows = ctx.matrix.rows("cuda", "releases", HostCompiler)
    newest = next((row.gcc_max for row in rows if row.version == cuda), "")
    here = (ctx.host.gcc or ctx.system.gcc).partition(".")[0]
    if newest.isdigit() and here.isdigit() and int(here) > int(newest):
        return newest
    return None


def _run(ctx: Context, pick: Pick, sample: Sample, cuda: str, after: tuple[str, ...]) -> Draft:
    parent, _, name = sample.path.rpartition("/")
    folder = f"{CACHE}/cudnn-{pick.version}/{parent.rpartition('/')[2]}"
    copy = f"{folder}/{name}"
    prefix = prefix_of(cuda)
    path = f"{prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return draft(
        "mnistCUDNN",
        after=after,
        component="cudnn",
        kind="run",
        title=f"build and run {name}",
        why="it says 'Test passed!' when cuDNN, toolkit and driver work together; /usr/src stays as it is",
        actions=(
            do.MakeFolders(paths=(folder.rpartition("/")[0],)),
            do.Remove(paths=(folder,), whole=True),
            do.CopyTree(source=parent, target=folder),
            do.Make(folder=copy, words=("clean",), path=path),
            do.Make(folder=copy, words=(f"CUDA_PATH={prefix}",), path=path),
            do.Run(argv=(f"./{name}",), folder=copy, old_env=ctx.has_old_env),
        ),
        undo=(do.Remove(paths=(folder,), whole=True),),
        phase="verification",
        sources=ctx.addresses(sample),
    )


def _by_hand(ctx: Context, sample: Sample, needs: SampleNeeds, after: tuple[str, ...]) -> Draft:
    name = sample.path.rpartition("/")[2]
    return draft(
        "mnistCUDNN",
        after=after,
        component="cudnn",
        kind="note",
        title=f"{name} can be built from a copy of {sample.path}",
        why=f"it needs {', '.join(needs.packages)}; FreeImage is not among the system's own packages, so "
        "it requires another repository. gpustack verify --level smoke cudnn builds and runs it",
        needs_root=False,
        undo_note="nothing is changed",
        phase="verification",
        sources=ctx.addresses(sample, needs),
    )
