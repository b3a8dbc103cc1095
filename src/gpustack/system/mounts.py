"""Mounts private to this process, and an overlay of a tree that may be changed freely.

Users remove such folders after a failure, so no folder of the machine itself may ever be reachable
through one: no bind mounts, and removal stops at anything still mounted. Whatever happens to the process, its
mounts end with it.
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

READ_ONLY, NO_SUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8
"""Flags of a mount (linux/mount.h)."""

_NEW_MOUNTS = 0x00020000
_RECURSIVE, _PRIVATE = 16384, 1 << 18
_DETACH = 2
# Constants of linux/sched.h, linux/mount.h and linux/fs.h.
_OWN_FILE_SYSTEMS = ("usr", "etc", "var", "var/lib", "var/cache", "opt", "boot")
"""Places that may be mounts, and whose content package managers need to see."""

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


@contextmanager
def overlaid(lower: Path, folder: Path) -> Iterator[Path]:
    """The tree ``lower`` as a writable overlay: changes go to ``folder``, and ``lower`` stays unchanged.

    From now on this process has its own mounts; those of the tree end with the block. Raises GpustackError if the
    system does not allow that.
    """
    own_mounts()
    tree = folder / "tree"
    try:
        places = [name for name in _OWN_FILE_SYSTEMS if os.path.ismount(lower / name)]
        for number, name in enumerate(["", *places]):
            upper, work = folder / f"changes-{number}", folder / f"work-{number}"
            for path in (upper, work, tree / name):
                path.mkdir(parents=True, exist_ok=True)
            options = f"lowerdir={lower / name},upperdir={upper},workdir={work}"
            mount("overlay", tree / name, options=options)
        mount_devices(tree / "dev")
        (tree / "proc").mkdir(exist_ok=True)
        mount("proc", tree / "proc")
        yield tree
    finally:
        # With everything mounted below it; if nothing was mounted yet, there is nothing to do.
        _libc().umount2(os.fsencode(tree), _DETACH)


def remove_tree(folder: Path) -> None:
    """Remove a folder and its content, unless something is still mounted there. Raises OSError."""
    if not holds_mounts(folder):
        shutil.rmtree(folder, ignore_errors=True)


def holds_mounts(folder: Path) -> bool:
    """Whether something is mounted on the folder or below it, as this process sees it. Raises OSError."""
    inside = f"{folder.resolve()}/"
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    mounted = [line.split()[4].replace("\\040", " ") for line in lines]
    return any(f"{place}/".startswith(inside) for place in mounted)


def mount_devices(folder: Path) -> None:
    """Mount the devices that every program expects, on a file system of the tree's own: never the machine's.

    Raises GpustackError if that fails.
    """
    folder.mkdir(exist_ok=True)
    mount("tmpfs", folder, options="mode=755,size=1m")
    for name, (major, minor) in _DEVICES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    for name, target in _LINKS.items():
        (folder / name).symlink_to(target)
    (folder / "shm").mkdir(mode=0o1777)


def own_mounts() -> None:
    """Give this process its own mounts, invisible to all others. Raises GpustackError."""
    libc = _libc()
    if libc.unshare(_NEW_MOUNTS) or libc.mount(b"none", b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None):
        msg = f"this process cannot create mounts of its own: {os.strerror(ctypes.get_errno())}"
        raise GpustackError(msg, code="mounts-refused", hint=_HINT)


def mount(kind: str, place: Path, *, flags: int = 0, options: str = "") -> None:
    """Mount a file system without a device. Raises GpustackError if the kernel refuses."""
    data = os.fsencode(options) or None
    if _libc().mount(kind.encode(), os.fsencode(place), kind.encode(), ctypes.c_ulong(flags), data):
        msg = f"{kind} cannot be mounted: {os.strerror(ctypes.get_errno())}"
        raise GpustackError(msg, code="mounts-refused", where=str(place), hint=_HINT)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


_HINT = (
    "run it as root outside of containers, or in one with the capability SYS_ADMIN; a tree and the folder of a bundle "
    "have to be on an ordinary file system of this machine"
)
