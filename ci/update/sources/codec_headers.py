"""What each tag of nv-codec-headers says of itself: its SDK, the drivers of its README, the version of its API."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "README and include/ffnvcodec/nvEncodeAPI.h of each tag of FFmpeg/nv-codec-headers"
_ADDRESS = re.compile(
    r"https://github\.com/FFmpeg/nv-codec-headers/blob/n([\d.]+)/(README|include/ffnvcodec/nvEncodeAPI\.h)"
)
_SDK = re.compile(r"Corresponds to Video Codec SDK version \d+\.\d+\.\d+\.")
_DRIVER = re.compile(r"(Linux|Windows): (\d{3}\.\d{1,3}(?:\.\d{2})?) or newer")
_API = re.compile(r"#define NVENCAPI_(MAJOR|MINOR)_VERSION (\d{1,3})")


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each tag."""
    found: dict[str, Row] = {}
    for body in bodies:
        known = _ADDRESS.fullmatch(body.address)
        if known is None:
            raise refuse(body.address, "is no file of the headers that the facts use")
        sdk = known[1].rpartition(".")[0]  # a README may still name the one before
        row = found.setdefault(known[1], {"version": known[1], "sdk": sdk, "src": ["nvh"]})
        row |= _of_readme(body) if known[2] == "README" else _of_header(body)
    return Given(tuple(Found("nv-codec-headers", "releases", row) for row in found.values()))


def _of_readme(body: Body) -> Row:
    """The first drivers that are named; those of optional features follow them."""
    content = text_of(body)
    drivers = {name.lower(): release for name, release in reversed(_DRIVER.findall(content))}
    if not _SDK.search(content) or set(drivers) != {"linux", "windows"}:
        raise refuse(body.address, "does not say for which SDK and drivers it is")
    return {"driver_linux": drivers["linux"], "driver_windows": drivers["windows"]}


def _of_header(body: Body) -> Row:
    parts = dict(_API.findall(text_of(body)))
    if set(parts) != {"MAJOR", "MINOR"}:
        raise refuse(body.address, "does not define the version of its API")
    return {"api": f"{parts['MAJOR']}.{parts['MINOR']}"}
