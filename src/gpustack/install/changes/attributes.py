"""Extended attributes of files: user attributes, ACLs, SELinux labels, capabilities. Read and restored."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from gpustack.install.changes.names import native, safe

LABEL = "security.selinux"
ENFORCES = Path("/sys/fs/selinux/enforce")
"""Contains "1" if the kernel enforces SELinux's policy."""

_OF_THE_KERNEL = frozenset({"security.evm"})
"""What the kernel computes from the others; nobody else can write it."""

_NAMES = {
    LABEL: "SELinux label",
    "security.capability": "capabilities",
    "system.posix_acl_access": "ACL",
    "system.posix_acl_default": "default ACL",
}
_NO_SUCH = frozenset({errno.ENOTSUP, errno.ENODATA, errno.ENOENT, errno.EPERM, errno.EACCES})
"""A file system without attributes; a file deleted meanwhile; one that only others may read."""


def called(name: str) -> str:
    """The name of an attribute in messages."""
    return _NAMES.get(name, f"attribute {name}")


def attributes_of(place: str) -> dict[str, bytes]:
    """All readable attributes of a place, for a link its own. Raises OSError."""
    try:
        names = os.listxattr(place, follow_symlinks=False)
    except OSError as exc:
        if exc.errno in _NO_SUCH:
            return {}
        raise
    found = {}
    for name in names:
        if name in _OF_THE_KERNEL:
            continue
        try:
            found[safe(name)] = os.getxattr(place, name, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in _NO_SUCH:
                raise
    return found


def set_attributes(place: str, wanted: Mapping[str, bytes]) -> dict[str, str]:
    """Give a place exactly these attributes; the names of those that could not be set or removed, and why."""
    there = attributes_of(place)
    names = {name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name)}
    failed = {name: _set(place, name, wanted.get(name)) for name in names}
    # With labels every file has one: if it was missing, the kernel set it, and it cannot be removed.
    return {name: why for name, why in failed.items() if why and (name in wanted or name != LABEL)}


def _set(place: str, name: str, value: bytes | None) -> str:
    """Set one attribute, or remove it; why that failed."""
    try:
        if value is None:
            os.removexattr(place, native(name), follow_symlinks=False)
        else:
            os.setxattr(place, native(name), value, follow_symlinks=False)
    except OSError as exc:
        return exc.strerror or str(exc)
    return ""


def is_enforced() -> bool:
    """Whether SELinux enforces its policy here."""
    try:
        return ENFORCES.read_text(encoding="ascii").strip() == "1"
    except (OSError, UnicodeDecodeError):
        return False
