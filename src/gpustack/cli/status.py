"""``gpustack status``: drift between a lock and the host."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Option, command
from gpustack.cli.options import DenyVulnerable, Root

if TYPE_CHECKING:
    from gpustack.install.lock.drift import Status

DRIFT_FOUND = 6


class StatusFormat(str, Enum):
    """The formats of a status; cyclonedx is the bill of materials of the lock."""

    TEXT = "text"
    JSON = "json"
    CYCLONEDX = "cyclonedx"


@command("status", example="gpustack status --lock stack.lock.json")
def status(
    lock: Annotated[
        Path | None,
        Option("--lock", metavar="FILE", help="The lock; that of the last installation if none is given."),
    ] = None,
    root: Root = None,
    format: Annotated[
        StatusFormat, Option("--format", help="cyclonedx: the bill of materials of what was installed.")
    ] = StatusFormat.TEXT,
    deny_vulnerable: DenyVulnerable = None,
    timer: Annotated[
        bool, Option("--timer", help="Print systemd units that check for drift every day, and exit.")
    ] = False,
) -> int:
    """Compare the host with what was installed and print fixes for differences. Exit code 6 if there are any."""
    from gpustack.errors import GpustackError
    from gpustack.install.lock.document import load

    if timer:
        frame.page(_units())
        return 0
    path = lock or _last(root)
    locked = load(path)
    if format is StatusFormat.CYCLONEDX:
        from gpustack.install.lock.sbom import cyclonedx

        frame.document(cyclonedx(locked))
        return 0
    from gpustack.detect.api import detect_with_packages
    from gpustack.install.lock.drift import status_of, with_security
    from gpustack.solve.security import of_host

    matrix = frame.matrix()
    host, packages = detect_with_packages(root, matrix, (one.name for one in locked.packages))
    found = status_of(locked, host, packages, name=str(path))
    found = with_security(found, of_host(matrix, host), is_denied=bool(deny_vulnerable))
    told = frame.to_json(found) if format is StatusFormat.JSON else _text(found)
    frame.page(told, fault=GpustackError)
    return DRIFT_FOUND if found.drift else 0


def _last(root: Path | None) -> Path:
    from gpustack.errors import UsageError
    from gpustack.install.lock.of_run import last_lock

    path = last_lock(root)
    if not path.is_file():
        msg = "no installation has written a lock here"
        raise UsageError(msg, code="no-lock", where=str(path), hint="name one: gpustack status --lock FILE")
    return path


def _text(found: "Status") -> str:
    warnings = [f"warning: {text}" for text in found.warnings]
    if not found.drift:
        same = f"no drift: {found.packages} packages, libraries, module, kernel, holds and sources match the lock"
        return "\n".join([same, *warnings])
    lines = []
    for one in found.drift:
        cure = one.cure if "reboot" in one.cure or not one.reboot else f"{one.cure}, then reboot"
        lines += [f"{one.kind}: {one.message}", f"    fix: {cure}"]
    kinds = "a reboot is needed" if found.reboot else "no reboot is needed"
    return "\n".join([*lines, *warnings, f"{len(found.drift)} differences; {kinds}"])


def _units() -> str:
    import shutil
    import sys

    from gpustack.install.lock.timer import NAME, status_units

    program = shutil.which("gpustack") or str(Path(sys.argv[0]).absolute())
    parts = [f"# {path}\n{content}" for path, content in status_units(program).items()]
    return "\n".join([*parts, f"# then: systemctl daemon-reload && systemctl enable --now {NAME}.timer"])
