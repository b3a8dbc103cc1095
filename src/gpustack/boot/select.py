"""Make the right set the installed one: journaled, offline, and back to the former one if it fails."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gpustack.boot.fast import FOLDER, NONE, OVERRIDE, choices, devices, signature_of, text
from gpustack.boot.packages import Manager
from gpustack.boot.sets import BootSet, folder_of
from gpustack.errors import GpustackError, UnsupportedError, UsageError
from gpustack.install.journal.file import boot_id
from gpustack.system.files import write_atomically
from gpustack.system.hashed import sha256_of_file


def choice(root: str, sets: dict[str, BootSet]) -> BootSet | None:
    """The set for this boot, None if nothing is to be selected. Raises UnsupportedError, UsageError."""
    name = text(f"{root}{OVERRIDE}")
    if name == NONE:
        return None
    if name:
        if name not in sets:
            msg = f"the set {name!r} is not prepared here"
            hint = f"prepared: {', '.join(sets) or 'none'}"
            raise UsageError(msg, code="boot-set-unknown", where=f"{root}{OVERRIDE}", hint=hint)
        return sets[name]
    ids = devices(root)
    if not ids:
        return None
    try:
        found = [one for one in choices(root, ids) if one in sets]
    except ValueError:
        found = []
    if not found:
        msg = f"no prepared set is for all GPUs of this machine: {', '.join(dict.fromkeys(ids))}"
        raise UnsupportedError(
            msg,
            code="boot-set-unknown",
            where=f"{root}{FOLDER}",
            hint=f"prepare one (`gpustack boot-select prepare`), or name one in {OVERRIDE}; nothing was changed",
        )
    return sets[found[0]]


def active(sets: dict[str, BootSet], manager: Manager) -> str:
    """The name of the set whose packages, and none of another set's, are installed; "" for a mixture."""
    return _active(sets, _installed(sets, manager))


def select(root: str, manager: Manager, wanted: BootSet, sets: dict[str, BootSet]) -> bool:
    """Install the set unless it is the active one. Returns whether anything changed. Raises GpustackError."""
    with _journal(root) as note:
        there = _installed(sets, manager)
        former = _active(sets, there)
        if wanted.by_name == there:
            _remember(root, wanted)
            return False
        _demand_whole(root, wanted)
        note("begin", former or "a mixture", wanted.name)
        try:
            _swap(root, manager, wanted, there)
            _demand_installed(root, wanted, _installed(sets, manager))
        except GpustackError as fault:
            note("failed", former, wanted.name, fault.message)
            raise _failed(root, manager, sets, former, fault) from fault
        _remember(root, wanted)
        note("end", former, wanted.name)
        return True


_BY_HAND = "see the journal next to the sets; `gpustack boot-select select` tries again"


def _installed(sets: dict[str, BootSet], manager: Manager) -> dict[str, str]:
    return manager.installed(sorted({name for one in sets.values() for name in one.by_name}))


def _active(sets: dict[str, BootSet], there: dict[str, str]) -> str:
    return next((name for name, one in sets.items() if one.by_name == there), "")


def _demand_whole(root: str, wanted: BootSet) -> None:
    for one in wanted.packages:
        path = folder_of(root, wanted.name) / one.file
        try:
            is_whole = sha256_of_file(path) == one.sha256
        except OSError:
            is_whole = False
        if not is_whole:
            msg = "the package file is missing, or not the one that was prepared; nothing was changed"
            raise GpustackError(msg, code="boot-set-damaged", where=str(path), hint="prepare the set again")


def _demand_installed(root: str, wanted: BootSet, there: dict[str, str]) -> None:
    if wanted.by_name != there:
        msg = f"the package database does not show the set {wanted.name} after its installation"
        raise GpustackError(msg, code="boot-set-failed", where=str(folder_of(root, wanted.name)), hint=_BY_HAND)


def _swap(root: str, manager: Manager, wanted: BootSet, there: dict[str, str]) -> None:
    others = sorted(there.keys() - wanted.by_name.keys())
    if others:
        manager.remove(others)
    manager.install([folder_of(root, wanted.name) / one.file for one in wanted.packages])


def _failed(root: str, manager: Manager, sets: dict[str, BootSet], former: str, fault: GpustackError) -> GpustackError:
    """Install the former set again, and return the error to raise."""
    told = "no whole set was installed before"
    if former:
        try:
            _swap(root, manager, sets[former], _installed(sets, manager))
            told = f"the former set {former} is installed again"
        except GpustackError as second:
            told = f"the former set {former} could not be installed again: {second.message}"
    return GpustackError(f"{fault.message}; {told}", code="boot-set-failed", where=fault.where, hint=_BY_HAND)


def _remember(root: str, one: BootSet) -> None:
    place = Path(f"{root}{FOLDER}") / "active"
    write_atomically(place, f"{one.name}\n{one.driver}\n{signature_of(root)}\n")


@contextmanager
def _journal(root: str) -> Iterator[_Note]:
    """The journal, and the lock that admits one selection at a time. Raises GpustackError where it is not writable."""
    folder = Path(f"{root}{FOLDER}")
    try:
        handle = os.open(folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        msg = f"the journal cannot be written: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="state-not-writable", where=str(folder), hint="run as root, on a file system that is writable"
        ) from exc
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        end = os.fstat(handle).st_size
        if end and os.pread(handle, 1, end - 1) != b"\n":
            os.write(handle, b"\n")  # a power cut tore the last record
        yield _Note(handle)
    finally:
        os.close(handle)


class _Note:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __call__(self, event: str, former: str, wanted: str, reason: str = "") -> None:
        """One line, on the disk before the next change."""
        record = {
            "event": event,
            "time": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            "boot": boot_id(),
            "from": former,
            "to": wanted,
            "reason": reason,
        }
        os.write(self.handle, msgspec.json.encode(record) + b"\n")
        os.fsync(self.handle)
