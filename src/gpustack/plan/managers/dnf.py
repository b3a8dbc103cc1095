"""dnf: RHEL 8 and later with its rebuilds, Fedora, Amazon Linux 2023, Kylin, Azure Linux 4."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import Argv
from gpustack.plan.managers.rpm import RpmManager


class Dnf(RpmManager):
    """dnf 4 and dnf 5: both understand the words used here."""

    name = "dnf"

    def install(self, action: do.InstallPackages) -> Argv:
        # dnf install goes to the named version, up or down; dnf downgrade refuses packages not yet installed.
        extra = ("--allowerasing",) if action.replaces else ()
        return ("dnf", "-y", "install", *extra, *map(self.word, action.packages))

    def remove(self, action: do.RemovePackages) -> Argv:
        # It removes what nobody else needs by itself.
        return ("dnf", "-y", "remove", *action.names)

    def hold_tools(self) -> tuple[str, ...]:
        # The versionlock plugin of dnf 4; dnf 5 has the command built in and provides this capability itself.
        return ("dnf-command(versionlock)",)


MANAGER = Dnf()
