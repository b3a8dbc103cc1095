"""What a tree needs while programs run in it: proc, sys, dev and run, and a policy against starting services.

The mounts are private to this process.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpustack.install.changes.backups import remove
from gpustack.install.root import InstallRoot
from gpustack.system.files import write_atomically
from gpustack.system.mounts import (
    NO_DEVICES,
    NO_PROGRAMS,
    NO_SUID,
    READ_ONLY,
    mount,
    mount_devices,
    own_mounts,
)

POLICY = "/usr/sbin/policy-rc.d"
_NEW_POLICY = "/usr/sbin/.policy-rc.d.gpustack-new"
_POLICY_TEXT = (
    "#!/bin/sh\n# gpustack is installing into this tree: no service is started (101: forbidden by policy)\nexit 101\n"
)


def enter(target: InstallRoot) -> None:
    """Mount what programs in the tree require. Does nothing for the running system.

    Raises GpustackError if the kernel forbids it: a container without the right to mount.
    """
    if target.root is None:
        return
    own_mounts()
    for kind, path, flags in (
        ("proc", "/proc", NO_SUID | NO_DEVICES | NO_PROGRAMS),
        ("sysfs", "/sys", NO_SUID | NO_DEVICES | NO_PROGRAMS | READ_ONLY),
        ("tmpfs", "/run", NO_SUID | NO_DEVICES),
    ):
        place = target.place(path)
        if _is_free(place):
            mount(kind, place, flags=flags)
    devices = target.place("/dev")
    if _is_free(devices):
        mount_devices(devices)
    if target.place("/run").is_dir():
        target.place("/run/lock").mkdir(exist_ok=True)
    name_servers(target)


def _is_free(place: Path) -> bool:
    """Whether something may be mounted there: a folder of the tree itself with no mount on it."""
    return place.is_dir() and not place.is_symlink() and not place.is_mount()


def name_servers(target: InstallRoot) -> None:
    """Provide a resolv.conf: systemd-resolved's points into /run, which leads nowhere in a tree."""
    link = target.place("/etc/resolv.conf")
    place = target.followed("/etc/resolv.conf")
    own = Path("/etc/resolv.conf")
    if link.is_symlink() and not place.exists() and place.is_relative_to(target.place("/run")) and own.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(own.read_bytes())


def needs_policy(target: InstallRoot) -> bool:
    """Whether Debian packages would start services in the tree; an existing policy stays."""
    has_services = target.root is not None and target.place("/usr/sbin/invoke-rc.d").exists()
    return has_services and not os.path.lexists(target.place(POLICY))


def forbid_services(target: InstallRoot) -> None:
    """Keep packages from starting services in the tree. To be journaled before."""
    write_atomically(target.place(POLICY), _POLICY_TEXT, mode=0o755, new=target.place(_NEW_POLICY))


def allow_services(target: InstallRoot) -> None:
    """Remove the policy again, if it is ours."""
    place, new = target.place(POLICY), target.place(_NEW_POLICY)
    if target.root is None:
        return
    if place.is_file() and place.read_text(errors="replace") == _POLICY_TEXT:
        remove(place)
    if os.path.lexists(new):
        remove(new)
