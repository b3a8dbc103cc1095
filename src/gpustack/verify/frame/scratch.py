"""The folder in which checks work: made, judged, and removed whatever ends the run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpustack.errors import UsageError
from gpustack.system.run import stop_commands
from gpustack.system.signals import Interrupts

_SMALLEST = 64 << 20
_ATTEMPTS = 100


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A folder for temporary files, which is gone afterwards, whatever ends the block.

    Raises UsageError where none can be made.
    """
    import tempfile  # noqa: PLC0415 (not needed at level quick, whose start-up counts)

    try:
        root = Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as exc:
        msg = f"no folder for temporary files can be made: {exc.strerror or exc}"
        raise UsageError(
            msg,
            code="no-temporary-folder",
            where=os.environ.get("TMPDIR", "TMPDIR"),
            hint="set TMPDIR to a folder with free space that you may write to",
        ) from exc
    try:
        yield root
    except BaseException:
        # Threads of checks go on until this process ends: what they start or write now has to go as well.
        _remove(root, while_stopping=True)
        raise
    _remove(root, while_stopping=False)


def _remove(root: Path, *, while_stopping: bool) -> None:
    """Remove the folder; what asks us to end meanwhile waits until that is done."""
    import shutil  # noqa: PLC0415 (not needed at level quick, whose start-up counts)

    interrupts = Interrupts()
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        interrupts.catch()
    try:
        for _ in range(_ATTEMPTS):
            if while_stopping:
                stop_commands()
            shutil.rmtree(root, ignore_errors=True)
            if not root.exists() or not while_stopping:
                break
            time.sleep(0.02)
    finally:
        if is_main:
            interrupts.release()
    if interrupts.number and not while_stopping:
        os.kill(os.getpid(), interrupts.number)


def folder_fault(folder: Path) -> tuple[str, str] | None:
    """Why programs cannot be built and run in a folder for temporary files, and what helps; None where they can."""
    found = os.statvfs(folder)
    place = folder.parent.parent
    if found.f_flag & os.ST_NOEXEC:
        return f"{place} is mounted noexec, so programs that checks build there cannot be started", _elsewhere()
    free = found.f_bavail * found.f_frsize
    if free < _SMALLEST:
        return f"{place} has only {free >> 20} MiB free", _elsewhere()
    if not found.f_favail and found.f_files:
        return f"{place} has no free inodes", _elsewhere()
    return None


def _elsewhere() -> str:
    """The fix with a folder that would do."""
    for folder in (Path("/var/tmp"), Path.home(), Path.cwd(), Path("/dev/shm")):  # noqa: S108 (a proposal)
        try:
            found = os.statvfs(folder)
        except OSError:
            continue
        is_roomy = found.f_bavail * found.f_frsize >= _SMALLEST
        if is_roomy and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY) and os.access(folder, os.W_OK | os.X_OK):
            return f"`export TMPDIR={folder}`, then verify again"
    return "set TMPDIR to a folder that has space and allows programs, then verify again"
