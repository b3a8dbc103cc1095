"""Windows: the vendor's zip archives, downloaded, verified and laid out as the cuDNN guides and the toolkit expect."""

from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan.components import component
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import windows as win
from gpustack.plan.methods import zip_cuda, zip_cudnn
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.zip_parts import fetch, marker_of, path_of, staging_of


class Zip(MethodPlanner):
    """The vendor's archives for Windows; older toolkit releases are an installer program."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        rows = pick.offer.archives
        match pick.component:
            case "cuda":
                return zip_cuda.drafts(ctx, pick, rows)
            case "cudnn":
                return zip_cudnn.drafts(ctx, pick, rows[0])
            case _:
                return _own_folder(ctx, pick, rows[0])


def _own_folder(ctx: Context, pick: Pick, row: Archive) -> list[Draft]:
    """TensorRT: a folder per version, so that an older one stays until it is removed."""
    name = {"tensorrt": "TensorRT"}.get(pick.component, pick.component)
    prefix = rf"{win.NVIDIA}\{name}\v{win.safe_name(pick.version)}"
    phase = component(pick.component).phase
    download = fetch(ctx, pick, row, phase)
    path = path_of(pick, row)
    staging, marker = staging_of(row), marker_of(prefix, row.file)
    folders = (rf"{prefix}\lib", rf"{prefix}\bin")
    unpacked = draft(
        f"unpack:{row.file}",
        after=(download.key, "install:cuda"),
        component=pick.component,
        kind="extract",
        title=f"unpack {row.file} into {prefix}",
        why=f"{reason_of(pick)}; a folder for each version keeps older ones unchanged",
        actions=(
            do.RemoveFiles(pattern=staging),
            do.ExpandArchive(archive=path, folder=staging),
            do.CopyFiles(pattern=rf"{staging}\*\*", folder=prefix),
            do.RemoveFiles(pattern=staging),
            do.MakeFolder(path=rf"{prefix}\.gpustack"),
            do.LeaveMark(path=marker),
        ),
        undo=(do.RemoveFiles(pattern=prefix),),
        done_when=f"path {marker}",
        phase=phase,
        sources=ctx.addresses(row),
    )
    known = draft(
        f"install:{pick.component}",
        after=(unpacked.key,),
        component=pick.component,
        kind="set-environment",
        title=f"put the libraries of {name} {pick.version} on the machine's PATH",
        why="Windows looks for DLLs along the PATH; releases keep them in lib or bin, so both are added if they exist",
        actions=tuple(do.AddPath(folder=folder, if_present=True) for folder in folders),
        undo=tuple(do.UndoPath(folder=folder) for folder in folders),
        phase=phase,
        sources=ctx.addresses(row),
    )
    return [download, unpacked, known]


PLANNER = Zip()
