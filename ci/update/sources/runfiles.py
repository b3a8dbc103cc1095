"""Sums of the driver's .run files, which Flathub's build of the driver pins: NVIDIA publishes none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "data/nvidia-RELEASE-ARCHITECTURE.data of flathub/org.freedesktop.Platform.GL.nvidia"
_LINE = re.compile(r"(extra-data)?:([0-9a-f]{64}):([1-9]\d{0,12}):\d*:(https?://\S+)")
_FILE = re.compile(r"NVIDIA-Linux-(x86_64|aarch64)-(\d+(?:\.\d+)+)(?:-no-compat32)?\.run")
_PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa"}


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each .run file for 64-bit systems."""
    found = {row["url"]: row for body in bodies for row in _files(body)}
    return Given(tuple(Found("driver-installers", "archives", row) for row in found.values()))


def _files(body: Body) -> Iterator[Row]:
    for line in text_of(body).split():
        known = _LINE.fullmatch(line)
        if known is None:
            raise refuse(body.address, f"has the line {line[:80]!r}")
        address = known[4].replace("http://", "https://")
        name = address.rpartition("/")[2]
        file = _FILE.fullmatch(name)
        if file is None:
            continue  # 32-bit systems
        if f"nvidia-{file[2]}-" not in body.address:
            raise refuse(body.address, f"has the file {name} of another release")
        platform = {"component": "driver", "version": file[2], "platform": _PLATFORMS[file[1]], "method": "runfile"}
        yield {**platform, "file": name, "url": address, "sha256": known[2], "size": known[3], "src": ["flathub"]}
