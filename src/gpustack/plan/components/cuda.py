"""The CUDA toolkit: its folder, and the environment that finds it."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.components.base import Component, is_runtime
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.versions import version

LINK = "/usr/local/cuda"
PROFILE = "/etc/profile.d/gpustack-cuda.sh"


def prefix_of(cuda: str) -> str:
    """The folder of a toolkit release: one for each major.minor, so that several coexist."""
    major, minor = (*version(cuda).numbers, 0)[:2]
    return f"/usr/local/cuda-{major}.{minor}"


class Cuda(Component):
    """The toolkit without a driver; never the bare ``cuda`` meta package, which follows every release."""

    phase = "toolkit"

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
        prefix = prefix_of(pick.version)
        if is_runtime(ctx, pick):
            return _link(ctx, pick, prefix, installed)
        lines = [
            f"# Written by gpustack: puts CUDA {pick.version} on the path.",
            'case ":$PATH:" in',
            f"    *:{prefix}/bin:*) ;;",
            f"    *) PATH={prefix}/bin:$PATH ;;",
            "esac",
            "export PATH",
        ]
        loader = pick.method == "runfile"
        if loader:
            lines += [
                f'case ":${{LD_LIBRARY_PATH:-}}:" in *:{prefix}/lib64:*) ;; *)',
                f"    LD_LIBRARY_PATH={prefix}/lib64${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}} ;;",
                "esac",
                "export LD_LIBRARY_PATH",
            ]
        return [
            *_link(ctx, pick, prefix, installed),
            draft(
                "environment:cuda",
                after=installed,
                component="cuda",
                kind="set-environment",
                title=f"put {prefix}/bin on the path of new shells",
                why="otherwise nvcc is not on the path"
                + ("; a runfile does not register its libraries with the loader" if loader else ""),
                files=(FileWrite(path=PROFILE, content="\n".join(lines) + "\n"),),
                undo=(do.Remove(paths=(PROFILE,)),),
                phase="toolkit",
            ),
        ]


def _link(ctx: Context, pick: Pick, prefix: str, installed: tuple[str, ...]) -> list[Draft]:
    """Link /usr/local/cuda to the toolkit if its packages do not: a stale link, or archives on a bare host."""
    stale = any(problem.id == "stale_cuda_symlink" for problem in ctx.host.problems)
    bare = pick.method == "tar" and "cuda" not in ctx.host.installed
    if not stale and not bare:
        return []
    by_packages = pick.method in {"network", "local"}
    point: AnyAction = do.Link(path=LINK, target=prefix)
    back: AnyAction = do.Remove(paths=(LINK,))
    if by_packages:
        point, back = do.ChooseAlternative(group="cuda", choice=prefix), do.ChooseAlternative(group="cuda")
    return [
        draft(
            "link:cuda",
            after=installed,
            component="cuda",
            kind="make-link",
            title=f"point {LINK} at {prefix}",
            why=f"{LINK} points to a folder that no longer exists" if stale else f"programs look for CUDA in {LINK}",
            actions=(point,),
            undo=(back,),
            done_when=done.link("/etc/alternatives/cuda" if by_packages else LINK, prefix),
            phase="toolkit",
            sources=ctx.addresses(ctx.matrix.conflicts.get("stale_cuda_symlink")),
        )
    ]


COMPONENT = Cuda()
