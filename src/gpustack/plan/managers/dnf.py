"""dnf: RHEL 8 and later with its rebuilds, Fedora, Amazon Linux 2023, Kylin, Azure Linux 4."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import Argv
from gpustack.plan.managers.rpm import RpmManager


class Dnf(RpmManager):
    """dnf 4 and dnf 5: the words used here are the same in both."""

    name = "dnf"

    def install(self, action: do.InstallPackages) -> Argv:
        # dnf's install goes to the version that it is told, up or down; its downgrade refuses packages not yet there.
        extra = ("--allowerasing",) if action.replaces else ()
        return ("dnf", "-y", "install", *extra, *map(self.word, action.packages))

    def remove(self, action: do.RemovePackages) -> Argv:
        # It takes what nobody else needs along by itself.
        return ("dnf", "-y", "remove", *action.names)

    def hold_tools(self) -> tuple[str, ...]:
        # The versionlock plugin of dnf 4; dnf 5 has the command built in and provides this capability itself.
        return ("dnf-command(versionlock)",)


MANAGER = Dnf()
