"""FFmpeg's download pages: the newest release of each branch, and its day."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import DATE, text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "src/download and src/olddownload of FFmpeg/web, at the commits that name another release"
_ADDRESS = re.compile(r"https://github\.com/FFmpeg/web/blob/[0-9a-f]{7,40}/src/(?:old)?download")
_RELEASED = re.compile(r"(\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)\s+was\s+released\s+on\s+([\d-]+)\b")
_FIRST = (3, 4)
"""The oldest release of which the facts have a row."""


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each release; the day is that of the newest page which names it."""
    found: dict[str, Row] = {}
    for body in sorted(bodies, key=lambda one: one.day):
        named = _RELEASED.findall(text_of(body))
        if not _ADDRESS.fullmatch(body.address) or not named:
            raise refuse(body.address, "names no release of FFmpeg")
        for release, day in named:
            if not DATE.fullmatch(day):
                raise refuse(body.address, f"has {release} of the day {day[:80]!r}")
            about: Row = {"version": release, "component": "ffmpeg", "tag": f"n{release}", "status": "released"}
            found[release] = {**about, "date": day, "src": ["ffweb"]}
    wanted = [row for name, row in found.items() if tuple(int(part) for part in name.split(".")) >= _FIRST]
    return Given(tuple(Found("ffmpeg", "releases", row) for row in wanted))
