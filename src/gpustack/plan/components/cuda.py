"""The CUDA toolkit: where it lies, and the environment that finds it."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.versions import version

PROFILE = "/etc/profile.d/gpustack-cuda.sh"


def prefix_of(cuda: str) -> str:
    """The folder of a toolkit release: one for each major.minor, so that several lie side by side."""
    major, minor = (*version(cuda).numbers, 0)[:2]
    return f"/usr/local/cuda-{major}.{minor}"


class Cuda(Component):
    """The toolkit without a driver; never the bare ``cuda`` meta package, which follows every release."""

    phase = "toolkit"

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:  # noqa: ARG002
        prefix = prefix_of(pick.version)
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
            draft(
                "environment:cuda",
                after=installed,
                component="cuda",
                kind="set-environment",
                title=f"put {prefix}/bin on the path of new shells",
                why="nvcc is not on the path otherwise"
                + ("; a runfile does not tell the loader of its libraries" if loader else ""),
                files=(FileWrite(path=PROFILE, content="\n".join(lines) + "\n"),),
                undo=(("rm", "-f", "--", PROFILE),),
                phase="toolkit",
            )
        ]


COMPONENT = Cuda()
