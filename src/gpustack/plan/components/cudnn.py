"""cuDNN: the compression library that it needs, and what an upgrade to version 9 leaves behind."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.managers.base import Package
from gpustack.plan.preparation import FamilyPackages, family_packages
from gpustack.versions import is_within

_NEEDS_ZLIB = ">=8.3"


class Cudnn(Component):
    """The library; several major versions may lie side by side, as their files carry the number."""

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:
        if not is_within(pick.version, _NEEDS_ZLIB) or ctx.system.family not in NAMES:
            return []
        row = family_packages(ctx, "zlib")
        return [_zlib(ctx, row)] if row else []


def _zlib(ctx: Context, row: FamilyPackages) -> Draft:
    tool = manager(ctx.system.family)
    install = tool.install([Package(name=name) for name in row.packages])
    return draft(
        "zlib",
        after=["tools", "archive-tools"],
        component="cudnn",
        kind="install-packages",
        title=f"install {', '.join(row.packages)}",
        why="cuDNN loads libz.so.1 from version 8.3 on, and its packages do not all say so",
        commands=(install,),
        packages=row.packages,
        undo_note="other programs use it too: it stays",
        phase="prerequisites",
        sources=ctx.addresses(row),
    )


COMPONENT = Cudnn()
