"""dnf: RHEL 8 and later with its rebuilds, Fedora, Amazon Linux 2023, Kylin, Azure Linux 4."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.plan.managers.base import Argv, Package
from gpustack.plan.managers.rpm import RpmManager


class Dnf(RpmManager):
    """dnf 4 and dnf 5: the words used here are the same in both."""

    name = "dnf"

    def install(self, packages: Sequence[Package], *, downgrade: bool = False) -> Argv:  # noqa: ARG002
        # dnf's install goes to the version that it is told, up or down; its downgrade refuses packages not yet there.
        return super().install(packages)

    def hold_tools(self) -> tuple[str, ...]:
        # The versionlock plugin of dnf 4; dnf 5 has the command built in and provides this capability itself.
        return ("dnf-command(versionlock)",)


MANAGER = Dnf()
