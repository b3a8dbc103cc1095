"""Archives: downloaded, verified, unpacked, and installed where loader and compiler find them."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.components import component
from gpustack.plan.components.cuda import prefix_of
from gpustack.plan.context import Context
from gpustack.plan.downloads import archive_tools, fetch, path_of, reason_of, unpacked_path
from gpustack.plan.draft import Draft, draft
from gpustack.plan.methods.base import MethodPlanner


class Tar(MethodPlanner):
    """One archive, or one per part; CUDA libraries join the toolkit's folder, TensorRT has its own."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        rows = pick.offer.archives
        prefix = _prefix(ctx, pick)
        phase = component(pick.component).phase
        downloads = [fetch(ctx, pick, row, phase) for row in rows]
        tools = [*archive_tools(ctx, rows), *component(pick.component).before(ctx, pick)]
        join = pick.component in {"cudnn", "nccl"}
        drafts = [*tools, *downloads]
        toolkit = () if pick.component == "cuda" else ("install:cuda",)
        for row, download in zip(rows, downloads, strict=True):
            after = (*(one.key for one in tools), download.key, *toolkit)
            drafts.append(_unpack(ctx, pick, row, prefix, after=after, phase=phase, join=join))
        unpacked = tuple(one.key for one in drafts if one.step.kind == "extract")
        if pick.component == "cuda":
            drafts.append(_lib64(prefix, unpacked))
        drafts.append(_loader(ctx, pick, prefix, after=tuple(one.key for one in drafts), phase=phase))
        drafts += component(pick.component).after(ctx, pick, (drafts[-1].key,))
        return drafts


def _prefix(ctx: Context, pick: Pick) -> str:
    """The folder of the files. CUDA libraries join the toolkit of the stack or the host; others have their own."""
    if pick.component == "cuda":
        return prefix_of(pick.version)
    cuda = ctx.version("cuda")
    if pick.component in {"cudnn", "nccl"} and cuda is not None:
        return prefix_of(cuda)
    return f"/usr/local/{pick.component}-{pick.version}"


def _unpack(  # noqa: PLR0913 (each is a field of the step; most are keywords)
    ctx: Context, pick: Pick, row: Archive, prefix: str, *, after: tuple[str, ...], phase: str, join: bool
) -> Draft:
    archive = path_of(pick, row)
    target = unpacked_path(archive) if join else prefix
    marker = done.marker(prefix, row.file)
    undo, note = _taken_back(ctx, pick, target, prefix, join=join)
    actions: list[AnyAction] = [
        do.MakeFolders(paths=(target,)),
        do.Unpack(archive=archive, folder=target),
        do.Readable(folder=target),
    ]
    if join:
        library = "lib64" if row.top_dir == "cuda" else "lib"
        actions += [
            do.MakeFolders(paths=(f"{prefix}/include", f"{prefix}/lib64")),
            do.CopyTree(source=f"{target}/include", target=f"{prefix}/include", into=True),
            do.CopyTree(source=f"{target}/{library}", target=f"{prefix}/lib64", into=True),
        ]
        undo = (
            do.TakeOut(source=f"{target}/{library}", target=f"{prefix}/lib64"),
            do.TakeOut(source=f"{target}/include", target=f"{prefix}/include"),
            *undo,
        )
    actions.append(do.Mark(path=marker))
    return draft(
        f"unpack:{row.file}",
        after=after,
        component=pick.component,
        kind="extract",
        title=f"unpack {row.file} into {prefix}",
        why=reason_of(pick) + ("; links stay links" if join else ""),
        actions=tuple(actions),
        undo=(do.Remove(paths=(marker,)), *undo) if undo else (),
        undo_note=note,
        done_when=done.paths(marker),
        phase=phase,
        sources=ctx.addresses(row),
    )


def _taken_back(ctx: Context, pick: Pick, target: str, prefix: str, *, join: bool) -> tuple[tuple[AnyAction, ...], str]:
    """The last actions that remove an archive, and what they leave."""
    there = ctx.host.installed.get(pick.component)
    note = f"files of {pick.component} {there.version} that it replaced are not restored" if there else ""
    if join:
        return (do.Remove(paths=(target,), whole=True),), note
    if pick.component != "cuda" or there is None:
        # The archives of a toolkit share its folder, which the first of them created.
        return (do.Remove(paths=(prefix,), whole=True),), ""
    return (), f"its files stay in {prefix}, which may contain those of an earlier toolkit"


def _lib64(prefix: str, after: tuple[str, ...]) -> Draft:
    return draft(
        "lib64:cuda",
        after=after,
        component="cuda",
        kind="make-link",
        title=f"link {prefix}/lib64 to lib",
        why="the archives use lib, but build systems look for lib64",
        actions=(do.Link(path=f"{prefix}/lib64", target="lib"),),
        undo=(do.Remove(paths=(f"{prefix}/lib64",)),),
        done_when=done.link(f"{prefix}/lib64", "lib"),
        phase="toolkit",
    )


def _loader(ctx: Context, pick: Pick, prefix: str, *, after: tuple[str, ...], phase: str) -> Draft:
    """Add the folder to the loader's configuration: a toolkit from packages has done so for its own."""
    cuda = ctx.resolution.pick("cuda")
    known = pick.component in {"cudnn", "nccl"} and cuda is not None and cuda.method in {"network", "local"}
    folder = f"{prefix}/lib64" if prefix.startswith("/usr/local/cuda-") else f"{prefix}/lib"
    path = f"/etc/ld.so.conf.d/gpustack-{pick.component}.conf"
    return draft(
        f"install:{pick.component}",
        after=after,
        component=pick.component,
        kind="run",
        title="update the loader's cache" if known else f"add to the loader's path: {folder}",
        why="the loader finds libraries through its cache",
        actions=(do.RefreshLoader(),),
        files=() if known else (FileWrite(path=path, content=f"# Written by gpustack\n{folder}\n"),),
        undo=() if known else (do.Remove(paths=(path,)), do.RefreshLoader()),
        undo_note="a cache has nothing to undo" if known else "",
        phase=phase,
    )


PLANNER = Tar()
