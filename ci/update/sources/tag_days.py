"""Tags of repositories with their days, as ``git for-each-ref`` prints them in a copy: the servers list no days.

``refs/tags/NAME DAY COMMIT`` on each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import DATE, numbers, text_of
from update.record import Body, Given, Row, refuse
from update.sources.tags import REPOSITORIES, Repository, of_repositories

HAND_OUT = "git for-each-ref with the names, days and commits of a copy's tags"
_KNOWN = {
    **REPOSITORIES,
    "NVIDIA/DCGM": Repository("dcgm", r"v(\d+\.\d+\.\d+)", "tags", "2"),
    "NVIDIA/gdrcopy": Repository("gdrcopy", r"v(\d+(?:\.\d+)+)", "tags", "2"),
}
_ON_LINUX = frozenset({"dcgm", "gdrcopy"})
"""Components whose releases are for Linux alone."""
_ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/tags")
_LINE = re.compile(r"refs/tags/(\S+) (\S+) ([0-9a-f]{40})")


def rows(bodies: Sequence[Body]) -> Given:
    """The releases that the tags name, with their days."""
    return of_repositories(bodies, _ADDRESS, _KNOWN, _releases)


def _releases(body: Body, about: Repository) -> Iterator[Row]:
    for line in text_of(body).splitlines():
        known = _LINE.fullmatch(line)
        if known is None or not DATE.fullmatch(known[2]):
            raise refuse(body.address, f"has the line {line[:80]!r}")
        release = re.fullmatch(about.tag, known[1])
        if release is None or numbers(release[1]) < numbers(about.first):
            continue
        row: Row = {"version": release[1], "date": known[2], "src": [about.src]}
        if about.has_commits:
            row |= {"component": about.component, "tag": known[1], "commit": known[3], "status": "released"}
        yield {**row, **({"os": ["linux"]} if about.component in _ON_LINUX else {})}
