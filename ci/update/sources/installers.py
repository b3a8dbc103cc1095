"""CUDA's standalone installers: sums and sizes of NVIDIA's download pages, as a public script copies them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import MD5, SIZE, VERSION, text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "bin/ctk_download_installers.sh of rwgk/rwgk_config, its table alone"
_ADDRESS = re.compile(r"https://github\.com/rwgk/rwgk_config/blob/[0-9a-f]+/bin/ctk_download_installers\.sh")
_HOMES = ("https://developer.download.nvidia.com/compute/cuda/", "https://packages.nvidia.com/prerelease/cuda/")
_FILE = re.compile(r"cuda_(\d+\.\d+\.\d+)(?:_(\d{3}\.\d{2,3}(?:\.\d{2})?))?_(?:linux|windows)(?:_\w+)?\.(run|exe)")
_PLATFORMS = {
    "linux-amd64": "linux-x86_64",
    "linux-arm64": "linux-sbsa",
    "windows-amd64": "windows-x86_64",
    "windows-arm64": "windows-arm64",
}


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each installer."""
    return Given(tuple(Found("cuda-installers", "archives", row) for body in bodies for row in _installers(body)))


def _installers(body: Body) -> Iterator[Row]:
    if not _ADDRESS.fullmatch(body.address):
        raise refuse(body.address, "is not the script that lists the installers")
    for line in text_of(body).splitlines():
        cells = line.split("\t")
        if len(cells) != 6:
            raise refuse(body.address, f"has the line {line[:80]!r}")
        version, platform, file, md5, size, url = cells
        named = _FILE.fullmatch(file)
        is_sound = VERSION.fullmatch(version) and MD5.fullmatch(md5) and SIZE.fullmatch(size) and platform in _PLATFORMS
        homes = {f"{home}{version}/local_installers/{file}" for home in _HOMES}
        if named is None or named[1] != version or not is_sound or url not in homes:
            raise refuse(body.address, f"has the line {line[:80]!r}")
        row: Row = {"component": "cuda", "version": version, "platform": _PLATFORMS[platform]}
        row |= {"method": "runfile" if named[3] == "run" else "exe", "file": file}
        row |= {"driver": named[2]} if named[2] else {}
        yield {**row, "url": url, "md5": md5, "size": size, "src": ["rwgk"]}
