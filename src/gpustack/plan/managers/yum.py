"""yum: RHEL 7 and its rebuilds, Amazon Linux 2."""

from __future__ import annotations

from gpustack.plan.managers.rpm import RpmManager


class Yum(RpmManager):
    """yum 3."""

    name = "yum"

    def hold_tools(self) -> tuple[str, ...]:
        return ("yum-plugin-versionlock",)


MANAGER = Yum()
