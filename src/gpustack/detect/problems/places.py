"""Files that a line of a log names as missing or refused: what each is, and what makes it."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase

from msgspec import Struct

from gpustack.detect.problems.phrases import Cause
from gpustack.detect.scene import Scene
from gpustack.detect.services import ABSENT, DENIED, named_paths
from gpustack.patterns import later

_QUOTED = later(r"[^/]{0,14}['\"]/")


class Place(Struct, frozen=True, kw_only=True):
    """A row of the files whose absence says something; ``what`` is what it is."""

    like: str
    what: str
    fix: str
    src: tuple[str, ...] = ()


def denied(scene: Scene, line: str) -> Cause | None:
    """A file that a program may not use: device rules of containers, owners of device files, SELinux."""
    if not DENIED.search(line):
        return None
    path = next(iter(named_paths(line)), "")
    place = _place(scene, path)
    what = f"{path} ({place.what})" if place else path
    if path.startswith("/dev/"):
        if "operation not permitted" in line.lower():
            return Cause(
                says=f"the device rules of a container or service forbid {what}",
                fix="start the container with its GPUs (--gpus all, or the device by CDI); of a service allow it: "
                "DeviceAllow, PrivateDevices=no",
                sure=True,
            )
        return Cause(
            says=f"a user may not open {what}",
            fix=f"`ls -lZ {shlex.quote(path)}` shows owner and group: add the user to that group (video, render),"
            " and correct NVreg_DeviceFileMode in /etc/modprobe.d",
            sure=True,
        )
    if not path:
        return None
    return Cause(
        says=f"a program may not use {what}",
        fix=f"`ls -ldZ {shlex.quote(path)}` shows who may; SELinux and AppArmor write their refusals to the audit log"
        " (`sudo ausearch -m avc`)",
    )


def missing(scene: Scene, line: str) -> Cause | None:
    """A file that is said to be missing, and that the facts know or this host lacks."""
    absent = ABSENT.search(line)
    if absent is None:
        return None
    names = named_paths(line)
    paths = [path for path in names if not path.startswith(("/usr/bin/", "/usr/sbin/")) or len(names) == 1]
    # The file stands before these words, and after them only in quotes; a folder that was searched comes later.
    is_before = not _QUOTED.match(line, absent.end())
    paths.reverse()
    for path in sorted(paths, key=lambda path: (line.find(path) < absent.start()) != is_before):
        place = _place(scene, path)
        state = scene.evidence.marks.get(f"named {path}")
        if place is None and state != "absent":
            continue
        now = "; it exists now" if state == "there" else ""
        what = f" ({place.what})" if place else ""
        fix = (
            place.fix
            if place
            else f"find what should have made {path}: the package or service that owns it, or a mount of the container"
        )
        return Cause(says=f"{path}{what} was missing{now}", fix=fix, sure=place is not None and not now)
    return None


def library(scene: Scene, name: str) -> Place | None:
    """What a library is part of, by the rows that name libraries without a folder."""
    rows = scene.matrix.rows("log-lines", "places", Place)
    return next((row for row in rows if row.like.startswith("lib") and fnmatchcase(name, row.like)), None)


def _place(scene: Scene, path: str) -> Place | None:
    clean = path.replace("/var/run/", "/run/").replace("/host/", "/").replace("/usr/lib/modules/", "/lib/modules/")
    rows = scene.matrix.rows("log-lines", "places", Place) if path else ()
    alike = [row for row in rows if fnmatchcase(clean, row.like)]
    return max(alike, key=lambda row: len(row.like), default=None)
