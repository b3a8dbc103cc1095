"""tdnf: Azure Linux 3 and CBL-Mariner 2."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.model.actions import Argv
from gpustack.model.steps import FileWrite
from gpustack.plan.managers.rpm import RpmManager

LOCKS = "/etc/tdnf/locks.d"
"""tdnf has no lock command and ignores ``exclude`` in .repo files: it reads names from files here."""


class Tdnf(RpmManager):
    """tdnf."""

    name = "tdnf"

    def refresh(self, section: str) -> tuple[Argv, ...]:  # noqa: ARG002 (all indexes at once)
        return ("tdnf", "clean", "all"), ("tdnf", "-y", "makecache")

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:  # noqa: ARG002 (a file does it)
        return ()

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:  # noqa: ARG002 (a file did it)
        return ()

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:
        return FileWrite(path=f"{LOCKS}/gpustack-{component}.conf", content="".join(f"{name}\n" for name in names))


MANAGER = Tdnf()
