"""The storage of runs: a folder each under the state folder of the tree, and the lock that admits one at a time."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gpustack.errors import DocumentError, GpustackError, UsageError
from gpustack.install.journal.file import DamagedJournalError, read, sync_folder
from gpustack.install.journal.history import History
from gpustack.install.root import InstallRoot
from gpustack.model.plan import Plan
from gpustack.plan.document import dump, load
from gpustack.system.files import write_atomically

SYSTEM = "/var/lib/gpustack"
"""The state folder of a tree that root installs into."""


def state_folder(target: InstallRoot) -> Path:
    """The folder for the runs of this tree and user; readers create nothing there.

    Raises GpustackError if it cannot be read, and if others may have written in it.
    """
    folder = user_folder() if target.is_live and os.geteuid() != 0 else target.followed(SYSTEM)
    try:
        for place in (folder, *(folder / name for name in _FILES)):
            demand_own(place)
    except OSError as exc:
        msg = f"the state folder cannot be read: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="state-not-writable", where=str(folder), hint="it must be a folder; move the existing file away"
        ) from exc
    return folder


def make_state_folder(folder: Path) -> None:
    """Create a missing state folder. Raises GpustackError if that fails."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        (folder / "runs").mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        msg = f"the state folder cannot be created: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="state-not-writable", where=str(folder), hint="mount it writable, or make room"
        ) from exc


def demand_own(place: Path) -> None:
    """Raise GpustackError if anybody but root and this user may have written there; a missing one is no error.

    The state folder decides what is removed and restored as root.
    """
    try:
        found = place.stat()
    except FileNotFoundError:
        return
    if found.st_uid not in {0, os.geteuid()}:
        msg = f"belongs to the user {found.st_uid}, who may have modified it"
        raise GpustackError(
            msg,
            code="state-unsafe",
            where=str(place),
            hint="remove it, or check its contents and `chown root` it",
        )
    if found.st_mode & stat.S_IWOTH:
        msg = f"is writable by everyone (mode {stat.S_IMODE(found.st_mode):04o})"
        raise GpustackError(msg, code="state-unsafe", where=str(place), hint="check its contents, then `chmod o-w` it")


def user_folder() -> Path:
    """The state folder of a user other than root."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "gpustack"


def note_tree(target: InstallRoot) -> None:
    """Remember on this machine the tree of the last run, so that ``--resume`` need not name it again.

    Failure loses only that convenience.
    """
    with suppress(GpustackError, OSError):
        note = state_folder(InstallRoot()) / _LAST_TREE
        if target.root is not None:
            make_state_folder(note.parent)
            write_atomically(note, f"{target.root}\n", mode=0o600)
        else:
            note.unlink(missing_ok=True)


def last_tree() -> Path | None:
    """The tree of the last run, None if that was this machine or no run is there (any more)."""
    with suppress(GpustackError, OSError, ValueError):
        tree = Path((state_folder(InstallRoot()) / _LAST_TREE).read_text(encoding="utf-8").rstrip("\n"))
        # Nothing is created in a folder on which a tree was once mounted.
        if InstallRoot(tree).followed(f"{SYSTEM}/runs").is_dir():
            return tree
    return None


_LAST_TREE = "last-tree"
_FILES = ("runs", "lock", "lock.json", "reserve", _LAST_TREE)
"""The files in the state folder."""


class Run:
    """One run: its folder with plan, journal, output, and kept contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal.jsonl"
        self.output = folder / "output.log"
        self.kept = folder / "kept"
        self.plan_file = folder / "plan.json"
        self.reserve = folder.parent.parent / "reserve"
        self._mark = folder / "abandoned"
        self._lock_mark = folder / "locked"

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.folder.name

    def plan(self) -> Plan:
        """The plan of the run. Raises GpustackError if it is gone."""
        try:
            return load(self.plan_file)
        except DocumentError as error:
            msg = f"the plan of the run {self.name} {error.message}"
            hint = "restore it from a copy, or abandon the run with `gpustack install --abandon`"
            raise GpustackError(msg, code="state-unreadable", where=error.where, hint=hint) from error

    def history(self) -> History:
        """The history in its journal. Raises DamagedJournalError."""
        return read(self.journal)

    @property
    def has_lock(self) -> bool:
        """Whether the lock of its installation is written, which completes a finished run."""
        return self._lock_mark.exists()

    def note_lock(self) -> None:
        """Note that its lock is written. Raises GpustackError if that fails."""
        try:
            self._lock_mark.touch(mode=0o600)
        except OSError as exc:
            msg = f"cannot record that the lock is written: {exc.strerror or exc}"
            raise GpustackError(
                msg, code="state-not-writable", where=str(self._lock_mark), hint="make room, or mount it writable"
            ) from exc

    @property
    def is_abandoned(self) -> bool:
        """Whether somebody abandoned the run: nothing resumes or undoes it."""
        return self._mark.exists()

    def abandon(self) -> None:
        """Abandon the run; its folder stays as it is. Raises GpustackError if that cannot be noted."""
        try:
            write_atomically(self._mark, "by `gpustack install --abandon`\n", mode=0o600)
            sync_folder(self.folder)
        except OSError as exc:
            msg = f"cannot record that the run is abandoned: {exc.strerror or exc}"
            raise GpustackError(
                msg, code="state-not-writable", where=str(self._mark), hint="make room, or mount it writable"
            ) from exc


def runs(folder: Path) -> list[Run]:
    """All runs, oldest first. A folder with neither plan nor journal never began anything.

    Raises GpustackError if others may have written in one of them.
    """
    place = folder / "runs"
    paths = (path for path in sorted(place.iterdir() if place.is_dir() else ()) if _number(path))
    found = [run for run in map(Run, paths) if run.plan_file.exists() or run.journal.exists()]
    for run in found:
        for place in (run.folder, run.plan_file, run.journal, run.kept):
            demand_own(place)
    return found


def _number(path: Path) -> int:
    """The number of the run in this folder, 0 for others: lost+found, notes, snapshots."""
    number = path.name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() and path.is_dir() else 0


def new_run(folder: Path, plan: Plan) -> Run:
    """A folder for a new run, with the plan in it."""
    number = max((_number(path) for path in (folder / "runs").iterdir()), default=0) + 1
    run = Run(folder / "runs" / f"{number:05}-{plan.digest[:12]}")
    try:
        run.folder.mkdir(mode=0o700)
        write_atomically(run.plan_file, dump(plan), mode=0o600)
        sync_folder(run.folder)
        sync_folder(run.folder.parent)
    except OSError as exc:
        msg = f"the run cannot be recorded: {exc.strerror or exc}"
        raise GpustackError(
            msg,
            code="state-not-writable",
            where=str(run.folder),
            hint="make room, then start again; nothing was changed",
        ) from exc
    return run


def open_run(folder: Path) -> Run | None:
    """The last run, unless it is complete: rolled back or abandoned, or never begun.

    Raises DamagedJournalError if its journal cannot be trusted.
    """
    for run in reversed(runs(folder)):
        if not run.is_abandoned and not run.history().is_over:
            return run
    return None


def demand_no_rollback(run: Run, history: History) -> None:
    """Raise UsageError if the run is being rolled back: it cannot be resumed."""
    if history.rollback == "begun":
        msg = f"the rollback of the run {run.name} is incomplete"
        hint = "`gpustack install --rollback` completes it, `gpustack install --abandon` leaves the run as it is"
        raise UsageError(msg, code="rollback-unfinished", hint=hint)


def unfinished(folder: Path) -> Run:
    """The run for ``--resume``. Raises UsageError without one."""
    run = open_run(folder)
    if run is not None:
        history = run.history()
        demand_no_rollback(run, history)
        if not history.is_finished or not run.has_lock:
            return run
    msg = "there is no run to resume"
    raise UsageError(msg, code="no-run", where=str(folder), hint="`gpustack install PLAN.json` begins one")


def to_roll_back(folder: Path) -> Run:
    """The run for ``--rollback``: the last one that is not undone. Raises UsageError without one."""
    for run in reversed(runs(folder)):
        if not run.is_abandoned:
            history = run.history()
            if history.is_begun and not history.is_over:
                return run
    msg = "there is no run to roll back"
    raise UsageError(msg, code="no-run", where=str(folder))


def to_abandon(folder: Path) -> Run:
    """The run for ``--abandon``: the last one that is not rolled back. Raises UsageError without one."""
    for run in reversed(runs(folder)):
        if not run.is_abandoned:
            try:
                is_over = run.history().is_over
            except DamagedJournalError:
                is_over = False
            if not is_over:
                return run
    msg = "there is no run to abandon"
    raise UsageError(msg, code="no-run", where=str(folder))


class RunLock:
    """One gpustack at a time per state folder; the kernel releases the lock whatever happens to us."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._handle: int | None = None

    def take(self, wait: float, say: Callable[[str], None]) -> None:
        """Take it, waiting up to ``wait`` seconds. Raises GpustackError if somebody else keeps it."""
        make_state_folder(self._path.parent)
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            msg = f"the state folder cannot be written: {exc.strerror or exc}"
            raise GpustackError(
                msg, code="already-running", where=str(self._path), hint="mount it writable, or make room"
            ) from exc
        end = time.monotonic() + wait
        is_told = False
        while not self._is_taken():
            holder = self._path.read_text(encoding="ascii", errors="replace").strip() or "unknown"
            if time.monotonic() >= end:
                self.give()
                msg = f"another gpustack (process {holder}) is installing into this tree"
                raise GpustackError(
                    msg, code="already-running", where=str(self._path), hint="wait until it ends, then try again"
                )
            if not is_told:
                say(f"waiting for another gpustack (process {holder})")
                is_told = True
            time.sleep(0.2)
        # On a full disk the holder's name is lost; the journal reports that progress cannot be recorded.
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def _is_taken(self) -> bool:
        if self._handle is None:
            return False
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def give(self) -> None:
        """Release it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
