"""What a tree needs while programs run in it: proc, sys, dev and run, and services that are not started.

The mounts are made in a mount namespace of this process alone: whatever happens to it, they are gone with it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.install.keep import remove
from gpustack.install.target import Target
from gpustack.system.mounts import mount_devices

_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
# The numbers of linux/sched.h and linux/mount.h.

POLICY = "/usr/sbin/policy-rc.d"
_POLICY_TEXT = (
    "#!/bin/sh\n# gpustack is installing into this tree: no service is started (101: forbidden by policy)\nexit 101\n"
)


def enter(target: Target) -> None:
    """Mount what programs in the tree need. Does nothing for the running system.

    Raises GpustackError where the kernel forbids it: a container without the right to mount.
    """
    if target.root is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise _forbidden(str(target.root))
    _mount(libc, "none", "/", "", _MS_REC | _MS_PRIVATE)
    for source, path, kind, flags in (
        ("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC),
        ("sysfs", "/sys", "sysfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_RDONLY),
        ("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV),
    ):
        place = target.place(path)
        if place.is_dir() and not place.is_symlink() and not place.is_mount():
            _mount(libc, source, str(place), kind, flags)
    devices = target.place("/dev")
    if devices.is_dir() and not devices.is_symlink() and not devices.is_mount():
        mount_devices(devices)
    lock = target.place("/run/lock")
    lock.mkdir(exist_ok=True)
    name_servers(target)


def _mount(libc: ctypes.CDLL, source: str, place: str, kind: str, flags: int) -> None:
    if libc.mount(source.encode(), place.encode(), kind.encode() or None, ctypes.c_ulong(flags), None) != 0:
        raise _forbidden(place)


def _forbidden(place: str) -> GpustackError:
    return GpustackError(
        f"cannot be mounted: {os.strerror(ctypes.get_errno())}",
        where=place,
        hint="--root needs the right to mount: run it as root outside of containers, or in one with CAP_SYS_ADMIN",
    )


def name_servers(target: Target) -> None:
    """A resolv.conf that leads into /run, as systemd-resolved has it, leads nowhere in a tree: it gets ours."""
    link = target.place("/etc/resolv.conf")
    place = target.followed("/etc/resolv.conf")
    own = Path("/etc/resolv.conf")
    if link.is_symlink() and not place.exists() and place.is_relative_to(target.place("/run")) and own.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(own.read_bytes())


def forbid_services(target: Target) -> None:
    """Keep packages of Debian's kind from starting services in the tree; one's own policy stays."""
    place = target.place(POLICY)
    if target.root is not None and target.place("/usr/sbin/invoke-rc.d").exists() and not os.path.lexists(place):
        place.write_text(_POLICY_TEXT, encoding="ascii")
        place.chmod(0o755)


def allow_services(target: Target) -> None:
    """Take the policy away again, where it is ours."""
    place = target.place(POLICY)
    if target.root is not None and place.is_file() and place.read_text(errors="replace") == _POLICY_TEXT:
        remove(place)
