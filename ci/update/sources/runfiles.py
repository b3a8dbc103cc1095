"""Sums of the driver's .run files, which Flathub's build of the driver pins: NVIDIA publishes none.

Files of other names are developer releases behind an address without a file name, or Flathub's own copies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "data/nvidia-RELEASE-ARCHITECTURE.data of flathub/org.freedesktop.Platform.GL.nvidia"
_LINE = re.compile(r"(extra-data)?:([0-9a-f]{64}):([1-9]\d{0,12}):\d*:(https?://\S+)")
_FILE = re.compile(r"NVIDIA-Linux-(x86_64|aarch64)-(\d+(?:\.\d+)+)(?:-no-compat32)?\.run")
_BODY = re.compile(r".*/nvidia-(\d+(?:\.\d+)+)-(x86_64|aarch64)\.data")
_COPIES = "https://github.com/flathub/org.freedesktop.Platform.GL.nvidia/releases/download/cuda/"
_PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa"}


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each file for 64-bit systems."""
    found = {(one.table, one.row["version"], one.row["url"]): one for body in bodies for one in _files(body)}
    return Given(tuple(found.values()))


def _files(body: Body) -> Iterator[Found]:
    about = _BODY.fullmatch(body.address)
    for line in text_of(body).split():
        known = _LINE.fullmatch(line)
        if known is None:
            raise refuse(body.address, f"has the line {line[:80]!r}")
        address = known[4].replace("http://", "https://")
        sums = {"url": address, "sha256": known[2], "size": known[3], "src": ["flathub"]}
        name = address.rpartition("/")[2]
        file = _FILE.fullmatch(name)
        if file is not None and f"nvidia-{file[2]}-" not in body.address:
            raise refuse(body.address, f"has the file {name} of another release")
        if file is not None and not address.startswith("https://github.com/"):
            row: Row = {"component": "driver", "version": file[2], "platform": _PLATFORMS[file[1]], "method": "runfile"}
            yield Found("driver-installers", "archives", {**row, "file": name, **sums})
        elif about is not None and _is_of(about[1], about[2], address):
            row = {"version": about[1], "platform": _PLATFORMS[about[2]], **sums}
            yield Found("driver-installers", "other_files", row)


def _is_of(release: str, architecture: str, address: str) -> bool:
    """Whether an address without NVIDIA's own file name is that of the release."""
    file = f"NVIDIA-Linux-{architecture}-{release}"
    return address in {
        f"https://developer.nvidia.com/downloads/vulkan-beta-{release.replace('.', '')}-linux",
        f"{_COPIES}{file}.run",
        f"https://us.download.nvidia.com/tesla/{release}/{file}-diagnostic.run",
    }
