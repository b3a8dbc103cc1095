"""A tree that may be changed freely: changes go to a folder beside it, and nothing of the machine is mounted into it.

Whoever clears up after a failure removes such folders, so no folder of the machine itself may ever be reached by way
of one: no bind mounts, and a removal that stops where anything is still mounted.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.system.run import LocalRunner

_NEW_MOUNTS = 0x00020000
_OWN_FILE_SYSTEMS = ("usr", "etc", "var", "var/lib", "var/cache", "opt", "boot")
"""Places of a system that may be mounts, and of which package managers need to see the content."""

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


@contextmanager
def overlaid(lower: Path, folder: Path) -> Iterator[Path]:
    """The tree ``lower`` as it may be changed: what changes lies in ``folder``, and ``lower`` stays as it is.

    From now on this process has mounts of its own; those of the tree end with the block. Raises GpustackError where
    the system does not allow that.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
        msg = f"this process may not have mounts of its own: {os.strerror(ctypes.get_errno())}"
        raise GpustackError(msg, hint="run it as root; in a container, with the capability SYS_ADMIN")
    _mount("--make-rprivate", "/")
    tree = folder / "tree"
    try:
        places = [name for name in _OWN_FILE_SYSTEMS if os.path.ismount(lower / name)]
        for number, name in enumerate(["", *places]):
            upper, work = folder / f"changes-{number}", folder / f"work-{number}"
            for path in (upper, work, tree / name):
                path.mkdir(parents=True, exist_ok=True)
            options = f"lowerdir={lower / name},upperdir={upper},workdir={work}"
            _mount("-t", "overlay", "-o", options, "overlay", str(tree / name))
        mount_devices(tree / "dev")
        (tree / "proc").mkdir(exist_ok=True)
        _mount("-t", "proc", "proc", str(tree / "proc"))
        yield tree
    finally:
        LocalRunner().run(("umount", "--recursive", "--lazy", str(tree)), timeout=60.0)


def remove_tree(folder: Path) -> None:
    """Remove a folder and what is in it, unless something is still mounted there: then it stays. Raises OSError."""
    if not holds_mounts(folder):
        shutil.rmtree(folder, ignore_errors=True)


def holds_mounts(folder: Path) -> bool:
    """Whether something is mounted on the folder or below it, as this process sees it. Raises OSError."""
    inside = f"{folder.resolve()}/"
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    mounted = [line.split()[4].replace("\\040", " ") for line in lines]
    return any(f"{place}/".startswith(inside) for place in mounted)


def mount_devices(folder: Path) -> None:
    """The devices that every program expects, on a file system of the tree's own: never those of the machine.

    Raises GpustackError where it cannot be mounted.
    """
    folder.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755,size=1m", "tmpfs", str(folder))
    for name, (major, minor) in _DEVICES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    for name, target in _LINKS.items():
        (folder / name).symlink_to(target)
    (folder / "shm").mkdir(mode=0o1777)


def _mount(*words: str) -> None:
    done = LocalRunner().run(("mount", *words), timeout=30.0)
    if done.code != 0:
        msg = f"`mount {' '.join(words)}` failed: {done.error or done.err.strip()}"
        raise GpustackError(msg, hint="the bundle's folder has to be on an ordinary file system of this machine")
