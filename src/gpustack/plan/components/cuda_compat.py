"""cuda-compat: libraries of a newer driver, which programs load only through the library path."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan.components.base import Component
from gpustack.plan.components.cuda import prefix_of
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft

PROFILE = "/etc/profile.d/gpustack-cuda-compat.sh"


class CudaCompat(Component):
    """The libraries are installed next to the toolkit; new shells prefer them to those of the driver."""

    phase = "toolkit"

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
        folder = f"{prefix_of(pick.version)}/compat"
        lines = [
            "# Written by gpustack: programs load the libraries of cuda-compat instead of the driver's.",
            f'case ":${{LD_LIBRARY_PATH:-}}:" in *:{folder}:*) ;; *)',
            f"    LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}} ;;",
            "esac",
            "export LD_LIBRARY_PATH",
        ]
        return [
            draft(
                "environment:cuda-compat",
                after=installed,
                component="cuda-compat",
                kind="set-environment",
                title=f"put {folder} on LD_LIBRARY_PATH in new shells",
                why="programs load the driver's own libraries otherwise; services need the variable in their units",
                files=(FileWrite(path=PROFILE, content="\n".join(lines) + "\n"),),
                undo=(do.Remove(paths=(PROFILE,)),),
                phase="toolkit",
                sources=ctx.matrix.addresses(("cuda-compat/fwd",)),
            ),
        ]


COMPONENT = CudaCompat()
