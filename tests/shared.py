"""What one worker of a run of the tests has made, the others read: a folder of this run alone."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_folder: list[Path] = []


def use_folder(path: Path) -> None:
    """Share through this folder from now on; without a call nothing is shared."""
    path.mkdir(exist_ok=True)
    _folder[:] = [path]


def copied(key: str, target: Path) -> bool:
    """Whether a file was kept under this key; then ``target`` is a copy of it."""
    if not _folder or not (file := _kept(key)).exists():
        return False
    shutil.copyfile(file, target)
    return True


def keep(key: str, file: Path) -> None:
    """Keep a copy of a file under this key, for whoever wants the same."""
    if _folder:
        fresh = _kept(f"{os.getpid()} {key}")
        shutil.copyfile(file, fresh)
        fresh.replace(_kept(key))


def _kept(key: str) -> Path:
    return _folder[0] / hashlib.sha256(key.encode()).hexdigest()


def made_once(name: str, make: Callable[[], T]) -> T:
    """What ``make`` returns, made by the first worker that asks for this name, while others wait."""
    if not _folder:
        return make()
    file = _folder[0] / f"{name}.pickle"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if file.exists():
            found: Any = pickle.loads(file.read_bytes())  # noqa: S301 (written below, in this run's own folder)
            return found  # type: ignore[no-any-return]
        made = make()
        file.write_bytes(pickle.dumps(made))
    return made
