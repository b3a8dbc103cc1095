"""Trees for installations: layers of overlayfs over one small Debian, fresh in no time, compared by what they changed."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.roots import Root

NOT_COMPARED = (
    "/run",
    "/var/cache/apt",
    "/var/cache/debconf",
    "/var/cache/dnf",
    "/var/cache/ldconfig",
    "/var/cache/zypp",
    "/var/lib/apt/lists",
    "/var/lib/dnf",
    "/var/lib/gpustack",
    "/var/lib/rpm",
    "/var/lib/zypp",
    "/var/lib/dpkg/available",
    "/var/lib/dpkg/lock",
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/status",
    "/var/lib/dpkg/status-old",
    "/var/lib/dpkg/triggers",
    "/var/log",
    "/etc/ld.so.cache",
)
"""Caches, logs, and the package databases: these are compared by what they answer, not by their bytes."""


NOT_ASKED = ("trusted.overlay.", "user.Librepo.")
"""Attributes by which layers are laid over one another, and in which dnf notes sums of the packages that it read."""

NOT_READ = ("/var/cache/gpustack/keys/gp-gnupg/trustdb.gpg",)
"""Files that hold the time at which they were made."""


@dataclass(frozen=True)
class Layer:
    """What was written over ``lower``; ``root`` is the tree that both make together."""

    root: Root
    upper: Path
    lower: Path

    def changes(self) -> dict[str, str]:
        """Every path that differs from the tree below: type, content, mode, owner, attributes, link; "" is gone."""
        found: dict[str, str] = {}
        for place, folders, files in os.walk(self.upper):
            here = place.removeprefix(str(self.upper))
            folders[:] = [name for name in folders if f"{here}/{name}" not in NOT_COMPARED]
            # A folder that was removed and made anew hides what it had.
            hidden = names(self.lower, here) - names(self.root.path, here)
            for name in {*folders, *files, *hidden}:
                path = f"{here}/{name}"
                if path not in NOT_COMPARED and (now := state(self.root.path, path)) != state(self.lower, path):
                    found[path] = now
        return found


def names(root: Path, folder: str) -> set[str]:
    """What is in a folder; nothing where there is none."""
    place = Path(f"{root}{folder}")
    return {one.name for one in place.iterdir()} if place.is_dir() and not place.is_symlink() else set()


def state(root: Path, path: str) -> str:
    """What lies there, in words; "" where nothing does."""
    place = Path(f"{root}{path}")
    try:
        there = place.lstat()
    except FileNotFoundError:
        return ""
    rights = f"{stat.filemode(there.st_mode)} {there.st_uid}:{there.st_gid}{attributes(place)}"
    if stat.S_ISREG(there.st_mode) and path not in NOT_READ:
        return f"{rights} {hashlib.sha256(place.read_bytes()).hexdigest()[:16]}"
    return f"{rights} {place.readlink()}" if stat.S_ISLNK(there.st_mode) else rights


def attributes(place: Path) -> str:
    """Its extended attributes, ACLs, labels and capabilities among them."""
    found = os.listxattr(place, follow_symlinks=False)
    names = sorted(name for name in found if not name.startswith(NOT_ASKED))
    return "".join(f" {name}={os.getxattr(place, name, follow_symlinks=False).hex()}" for name in names)


@contextmanager
def layer(lowers: Sequence[Path], below: Path, folder: Path, mebibytes: int = 512) -> Iterator[Layer]:
    """A fresh layer over ``lowers`` (the uppermost first); ``below`` is the tree that they make together.

    It lies in memory, on a disk of its own of so many ``mebibytes``.
    """
    with mounted(folder, "tmpfs", f"size={mebibytes}m,mode=0755"):
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        options = f"lowerdir={':'.join(map(str, lowers))},upperdir={folder / 'upper'},workdir={folder / 'work'}"
        with mounted(folder / "root", "overlay", options):
            yield Layer(Root(folder / "root"), folder / "upper", below)


@contextmanager
def mounted(place: Path, kind: str, options: str) -> Iterator[Path]:
    """A file system of its own at ``place``. Programs of a killed installation may still be in it when it goes."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", kind, kind, "-o", options, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def packages(root: Root) -> dict[str, str]:
    """Every package with its version, whether it is held, its files of settings, and whether it was asked for."""
    form = "${Package}:${Architecture}\\t${Version} ${Status} ${Conffiles};;\\n"
    told = root.must("dpkg-query", "--show", "--showformat", form).split(";;\n")
    rows = (" ".join(line.splitlines()).split("\t") for line in told if line.strip())
    automatic = set(root.must("apt-mark", "showauto").split())
    return {name: f"{told} {'automatic' if name.partition(':')[0] in automatic else ''}" for name, told in rows}
