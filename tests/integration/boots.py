"""Trees that boot as far as a script can tell: /proc with a boot id of their own, stand-ins for what asks an init."""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.integration.field import NOT_RUN
from tests.integration.roots import ENVIRONMENT, Root

STAND_INS = (*NOT_RUN, "shutdown")
"""Nothing in a tree was booted, so these only write down how they were called."""

RECORD = "/var/log/stand-ins"
_ENTER = """\
set -e
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/proc/sys/kernel/random/boot_id"
shift 2
exec chroot "$@"
"""


@dataclass
class Machine:
    """One tree, in the middle of one boot."""

    root: Root
    boot_id: Path

    def reboot(self) -> None:
        """From here on it is another boot."""
        self.boot_id.write_text(f"{uuid.uuid4()}\n")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        enter = ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(self.root.path), str(self.boot_id)]
        return subprocess.run(
            [*enter, str(self.root.path), *argv],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def must(self, *argv: str) -> str:
        done = self.run(*argv)
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
        return done.stdout

    def calls(self) -> list[str]:
        """How the stand-ins were called so far."""
        record = self.root.inside(RECORD)
        return record.read_text().splitlines() if record.exists() else []


def machine(root: Root, folder: Path) -> Machine:
    """The tree as a machine in its first boot."""
    for name in STAND_INS:
        root.write(f"/usr/local/sbin/{name}", f'#!/bin/sh\necho {name} "$@" >>{RECORD}\n', 0o755)
    made = Machine(root, folder / f"{root.path.name}-boot-id")
    made.reboot()
    return made
