"""cuDNN on Windows, in the layouts of NVIDIA's two guides: into the toolkit (to 8.2), a folder of its own (from 8.3).

The Windows chapters of the guides print cuda*.dll, cuda*.h, cuda*.lib and cuda.lib; the archives contain cudnn*.
"""

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import windows as win
from gpustack.plan.methods import zip_cuda
from gpustack.plan.methods.zip_parts import fetch, marker_of, path_of, staging_of
from gpustack.versions import is_within, version

PHASE = "libraries"
FILES = ((r"bin\cudnn*.dll", "bin"), (r"include\cudnn*.h", "include"), (r"lib\x64\cudnn*.lib", r"lib\x64"))
"""What the guides copy, by its real names, and the target folder."""

_TREES = ("bin", "include", "lib")
"""What is copied of later releases, whose archives have subfolders here."""


class Layout(Struct, frozen=True, kw_only=True):
    """The target of a release; with ``joins`` its folder is the toolkit's."""

    prefix: str
    joins: bool
    guide: str
    source: str


class Needs(Struct, frozen=True, kw_only=True):
    """The column of a release that only this module reads."""

    version: str
    zlib_windows: str = ""


def drafts(ctx: Context, pick: Pick, row: Archive) -> list[Draft]:
    """The steps that install cuDNN."""
    layout = _layout(ctx, pick, row)
    download = fetch(ctx, pick, row, PHASE)
    steps = [download, _unpack(ctx, pick, row, after=(download.key,))]
    steps.append(_set_aside(ctx, row, layout))
    steps.append(_copy(ctx, pick, row, layout, after=tuple(one.key for one in steps[1:])))
    steps.append(_environment(ctx, pick, layout))
    steps += _older(ctx, pick, layout)
    steps += _zlib(ctx, pick, layout)
    return [*steps, _project(ctx, pick, layout)]


def own_folder(cudnn: str) -> str:
    """The folder of a cuDNN release with its own folder."""
    major, minor = (*version(cudnn).numbers, 0)[:2]
    return rf"{win.NVIDIA}\CUDNN\v{major}.{minor}"


def _layout(ctx: Context, pick: Pick, row: Archive) -> Layout:
    cuda = ctx.version("cuda")
    if row.top_dir == "cuda" and cuda is not None:
        address = ctx.matrix.addresses(("cudnn/guide_805",))
        return Layout(
            prefix=zip_cuda.prefix_of(cuda), joins=True, guide="the guide of 8.0.5, 3.3", source="".join(address)
        )
    address = ctx.matrix.addresses(("cudnn/guide_896",))
    return Layout(
        prefix=own_folder(pick.version), joins=False, guide="the guide of 8.9.6, 2.3", source="".join(address)
    )


def _unpack(ctx: Context, pick: Pick, row: Archive, *, after: tuple[str, ...]) -> Draft:
    staging = staging_of(row)
    marker = f"{staging}.done"
    return draft(
        f"unpack:{row.file}",
        after=after,
        component="cudnn",
        kind="extract",
        title=f"unpack {row.file}",
        why="a folder for each version: copied files can be compared with it later",
        actions=(
            do.RemoveFiles(pattern=staging),
            do.ExpandArchive(archive=path_of(pick, row), folder=staging),
            do.LeaveMark(path=marker),
        ),
        undo=(do.RemoveFiles(pattern=marker), do.RemoveFiles(pattern=staging)),
        done_when=f"path {marker}",
        phase=PHASE,
        sources=ctx.addresses(row),
    )


def _set_aside(ctx: Context, row: Archive, layout: Layout) -> Draft:
    """Both guides delete the older cuDNN before an upgrade (3.4 and 2.4); keep it for a rollback."""
    prefix, name = layout.prefix, staging_of(row).rpartition("\\")[2]
    marker = marker_of(prefix, f"ready-{name}")
    actions: tuple[do.AnyAction, ...]
    undo: tuple[do.AnyAction, ...]
    if layout.joins:
        aside = rf"{prefix}\.gpustack\before-{name}"
        title = f"move existing cuDNN files in {prefix} aside"
        actions = tuple(
            do.MoveFiles(pattern=rf"{prefix}\{files}", folder=rf"{aside}\{folder}") for files, folder in FILES
        )
        undo = (
            *(do.RemoveFiles(pattern=rf"{prefix}\{files}") for files, _ in FILES),
            *(do.MoveFiles(pattern=rf"{aside}\{folder}\*", folder=rf"{prefix}\{folder}") for _, folder in FILES),
            do.RemoveFiles(pattern=aside),
            do.RemoveFiles(pattern=marker),
        )
    else:
        aside = f"{prefix}.before-{name}"
        title = f"make {prefix}, moving an older cuDNN aside"
        actions = (do.RenameFolder(path=prefix, new=aside),)
        undo = (do.RemoveFiles(pattern=prefix), do.RenameFolder(path=aside, new=prefix))
    return draft(
        "folder:cudnn",
        after=("install:cuda",),
        component="cudnn",
        kind="run",
        title=title,
        why="a newer cuDNN over an older one leaves DLLs of both; the guides delete the older one before an upgrade, "
        f"this plan keeps it in {aside} for a rollback",
        actions=(*actions, do.MakeFolder(path=rf"{prefix}\.gpustack"), do.LeaveMark(path=marker)),
        undo=undo,
        done_when=f"path {marker}",
        phase=PHASE,
        sources=(layout.source, *ctx.addresses(row)),
    )


def _copy(ctx: Context, pick: Pick, row: Archive, layout: Layout, *, after: tuple[str, ...]) -> Draft:
    prefix, staging = layout.prefix, staging_of(row)
    marker = marker_of(prefix, row.file)
    if is_within(pick.version, "<9"):
        actions = tuple(
            do.CopyFiles(pattern=rf"{staging}\*\{files}", folder=rf"{prefix}\{folder}") for files, folder in FILES
        )
        why = f"as in {layout.guide}, which prints cuda*.dll, cuda*.h and cuda*.lib, but the files are called cudnn*"
        if not layout.joins:
            why += r", and NVIDIA\CUDA for the folder NVIDIA\CUDNN"
    else:
        actions = tuple(do.CopyFiles(pattern=rf"{staging}\*\{tree}", folder=prefix) for tree in _TREES)
        why = "in the layout that cuDNN 8.9 began with; some archives have further folders in bin and lib"
    return draft(
        "files:cudnn",
        after=after,
        component="cudnn",
        kind="run",
        title=f"copy cuDNN {pick.version} into {prefix}",
        why=f"{reason_of(pick)}; {why}",
        actions=(*actions, do.LeaveMark(path=marker)),
        undo=(do.RemoveFiles(pattern=marker),),
        undo_note="the step that moved the old files aside removes the new ones",
        done_when=f"path {marker}",
        phase=PHASE,
        sources=(layout.source, *ctx.addresses(row)),
    )


def _environment(ctx: Context, pick: Pick, layout: Layout) -> Draft:
    cuda = ctx.version("cuda")
    if layout.joins and cuda is not None:
        title = f"check that CUDA_PATH and PATH of the machine point to {layout.prefix}"
        why = f"as in {layout.guide}: cuDNN is found as a part of the toolkit"
        actions, undo = zip_cuda.environment_commands(cuda), zip_cuda.environment_undo(cuda)
    else:
        title = rf"put {layout.prefix}\bin on the machine's PATH"
        why = f"as in {layout.guide}: Windows finds cuDNN's DLLs by it; programs see the change when they restart"
        folders = (rf"{layout.prefix}\bin\x64", rf"{layout.prefix}\bin")
        actions = (do.AddPath(folder=folders[0], if_present=True), do.AddPath(folder=folders[1]))
        undo = tuple(do.UndoPath(folder=folder) for folder in folders)
    return draft(
        "install:cudnn",
        after=("files:cudnn",),
        component="cudnn",
        kind="set-environment",
        title=title,
        why=why if is_within(pick.version, "<9") else f"{why}; releases for CUDA 13 may keep them in bin\\x64",
        actions=actions,
        undo=undo,
        phase=PHASE,
        sources=(layout.source,),
    )


def _older(ctx: Context, pick: Pick, layout: Layout) -> list[Draft]:
    """Remove the folder of an older release from the PATH (2.4 of the guide of 8.9.6)."""
    there = ctx.host.installed.get("cudnn")
    if pick.state not in {"upgrade", "downgrade"} or there is None or there.version is None:
        return []
    old = own_folder(there.version)
    if old == layout.prefix:
        return []
    return [
        draft(
            "older:cudnn",
            after=("install:cudnn",),
            component="cudnn",
            kind="set-environment",
            title=f"take cuDNN {there.version} off the machine's PATH",
            why=f"{old} in front of the new folder would take precedence; the files stay there",
            actions=(do.RemovePath(folder=rf"{old}\bin"), do.RemovePath(folder=rf"{old}\bin\x64")),
            undo=tuple(do.AddPath(folder=rf"{old}\{folder}", if_present=True) for folder in (r"bin\x64", "bin")),
            phase=PHASE,
            sources=(layout.source,),
        )
    ]


def _zlib(ctx: Context, pick: Pick, layout: Layout) -> list[Draft]:
    rows = ctx.matrix.rows("cudnn", "releases", Needs)
    need = next((row.zlib_windows for row in rows if row.version == pick.version), "")
    name = need.removesuffix("?")
    if name in {"", "none"}:
        return []
    sure = not need.endswith("?")
    why = (
        f"cuDNN {pick.version} loads {name} at run time, although it is in no import table and in no archive of NVIDIA"
    )
    if not sure:
        why = f"the DLLs of cuDNN {pick.version} still name {name}, and whether they load it is unknown"
    target = rf"{layout.prefix}\bin\{name}"
    return [
        draft(
            "zlib:cudnn",
            after=("install:cudnn",),
            component="cudnn",
            kind="manual" if sure else "note",
            title=f"put a 64-bit {name} at {target}",
            why=f"{why}; it comes from a third party that publishes no checksum, so no plan can download it safely: "
            f"build it from zlib (contrib/vstudio has the project), or take the file that NVIDIA's guide of that "
            f"version links to. Without it programs stop with 'Could not locate {name}'",
            undo_note=f"delete {target}",
            done_when=f"path {target}",
            phase=PHASE,
            sources=(layout.source,),
        )
    ]


def _project(ctx: Context, pick: Pick, layout: Layout) -> Draft:
    """Step 5 of the guides: what a project requires to build against cuDNN."""
    further = ""
    if any(one.step.kind == "manual" for one in _zlib(ctx, pick, layout)):
        further = ", next to cublas.lib, cublasLt.lib and zlibwapi.lib"
    if layout.joins:
        where = "its toolkit's folders hold them"
    else:
        where = rf"include folder {layout.prefix}\include, library folder {layout.prefix}\lib\x64"
    return draft(
        "project:cudnn",
        after=("install:cudnn",),
        component="cudnn",
        kind="note",
        title="in a Visual Studio project, link cudnn.lib",
        why=f"Linker, Input, Additional Dependencies: cudnn.lib{further} (the guides print cuda.lib); {where}; "
        "there is no static cuDNN for Windows",
        needs_root=False,
        undo_note="nothing is changed",
        phase=PHASE,
        sources=(layout.source,),
    )
