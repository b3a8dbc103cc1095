"""Writing the folder of updates: each generation complete before one link makes it the current one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack.errors import GpustackError
from gpustack.matrix.feed.bundle import Bundle
from gpustack.matrix.owned import is_owned
from gpustack.matrix.updates import CURRENT, GENERATIONS, current
from gpustack.system.files import write_atomically

ORIGIN = "origin.json"


class Origin(Struct, frozen=True, kw_only=True):
    """Where a generation is from: the source, when it was installed, until when its publisher stands for it (UTC).

    ``targets`` are the sha256 of the signed files that it was made of.
    """

    source: str
    installed: str
    expires: str
    targets: tuple[str, ...]


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Make the folder of updates, if missing, and keep other processes from writing in it. Raises GpustackError."""
    try:
        (folder / GENERATIONS).mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    try:
        if not is_owned(folder) or not is_owned(folder / GENERATIONS):
            msg = "belongs to another user, or others can write in it"
            raise GpustackError(msg, code="state-unsafe", where=str(folder), hint="move it away, then try again")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            msg = "another process updates the facts"
            raise GpustackError(msg, code="update-running", where=str(folder), hint="wait for it to end") from exc
        yield
    finally:
        os.close(descriptor)


def unwritable(folder: Path, exc: OSError) -> GpustackError:
    """The error of a folder of updates that cannot be written."""
    msg = f"updates of the facts cannot be stored: {exc.strerror or exc}"
    hint = "make room, or name another folder with GPUSTACK_FACTS"
    return GpustackError(msg, code="not-writable", where=str(folder), hint=hint)


def origin_of(generation: Path) -> Origin | None:
    """Where a generation is from; None if that is not recorded."""
    try:
        return msgspec.json.decode((generation / ORIGIN).read_bytes(), type=Origin)
    except (OSError, msgspec.MsgspecError):
        return None


def renew(generation: Path, origin: Origin) -> None:
    """Record a later expiry of the same facts. Raises OSError."""
    write_atomically(generation / ORIGIN, msgspec.json.encode(origin).decode())


def kept(folder: Path) -> list[Path]:
    """The generations of a folder of updates, the latest first."""
    with suppress(OSError):
        return sorted((path for path in (folder / GENERATIONS).iterdir() if path.name.isdecimal()), reverse=True)
    return []


def add(folder: Path, bundle: Bundle, origin: Origin) -> Path:
    """Store a bundle as the current generation, and remove all but it and the one before. Raises OSError."""
    before = current(folder)
    for stray in (folder / GENERATIONS).glob(".new-*"):
        shutil.rmtree(stray, ignore_errors=True)
    number = max((int(path.name) for path in kept(folder)), default=0) + 1
    new = Path(tempfile.mkdtemp(dir=folder / GENERATIONS, prefix=".new-"))
    try:
        contents = {f"{name}.msgpack": data for name, data in bundle.files.items()}
        contents["index.msgpack"] = msgspec.msgpack.encode(bundle.index)
        contents[ORIGIN] = msgspec.json.encode(origin)
        for name, data in contents.items():
            (new / name).write_bytes(data)
            (new / name).chmod(0o644)
        new.chmod(0o755)
        for path in (*new.iterdir(), new):  # after all is written: the first sync takes most of it
            _sync(path)
        generation = new.rename(folder / GENERATIONS / f"{number:06}")
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    _sync(folder / GENERATIONS)
    switch(folder, generation)
    for old in kept(folder):
        if old not in {generation, before}:
            _remove(old)
    return generation


def switch(folder: Path, generation: Path | None) -> None:
    """Make a generation the current one; with None, the facts of the installation. Raises OSError."""
    if generation is None:
        (folder / CURRENT).unlink(missing_ok=True)
    else:
        link = folder / f".{CURRENT}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{GENERATIONS}/{generation.name}")
        link.replace(folder / CURRENT)
    _sync(folder)


def roll_back(folder: Path) -> Path | None:
    """Return to the generation before the current one, or to the facts of the installation (None).

    Raises GpustackError if no update is in use.
    """
    now = current(folder)
    if now is None:
        msg = "no update of the facts is in use"
        raise GpustackError(msg, code="no-earlier-facts", where=str(folder), hint="`gpustack matrix status` shows them")
    earlier = next((path for path in kept(folder) if path.name < now.name), None)
    switch(folder, earlier)
    return earlier


def _remove(generation: Path) -> None:
    """Remove a generation, unless a process reads it: then a later update does."""
    with suppress(OSError):
        descriptor = os.open(generation, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(generation)
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
