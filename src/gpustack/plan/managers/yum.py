"""yum: RHEL 7 and its rebuilds, Amazon Linux 2."""

from __future__ import annotations

from gpustack.plan.managers.base import Argv, Place
from gpustack.plan.managers.rpm import RpmManager


class Yum(RpmManager):
    """yum 3."""

    name = "yum"

    def refresh(self, place: Place | None = None) -> tuple[Argv, ...]:  # noqa: ARG002 (all indexes at once)
        return (("yum", "clean", "expire-cache"), ("yum", "-y", "makecache"))

    def hold_tools(self) -> tuple[str, ...]:
        return ("yum-plugin-versionlock",)


MANAGER = Yum()
