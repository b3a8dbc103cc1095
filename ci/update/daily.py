"""What is read every day: addresses that stay, manifests whose number may be next, and the bulletins of the index.

Lists of GPUs have an address for each release, which a person gives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from update.fetch import fetch
from update.record import Body, Given, MissingError, SourceError, load, save
from update.sources import csaf, manifests, releases, source, tags, wheels
from update.tables import Facts

FILES = ("Release", "Packages")
"""What is read of each apt folder."""

NAMES = ("tags", "releases", "wheels", "redist", "csaf", "apt")


class Servers(NamedTuple):
    """Where a run reads. ``mirror`` is a server with copies of all but the index, below the names of their hosts.

    ``kept`` is a folder with the bodies of the last run: what has not changed is not sent again.
    """

    index: str
    mirror: str = ""
    kept: Path | None = None


def given(name: str, facts: Facts, servers: Servers, day: dt.date) -> tuple[list[Given], list[str]]:
    """What the parts of one source give, and why others are stopped.

    Each folder of packages is a part, of which nothing is used if it cannot be read; other sources are one part.
    """
    path = servers.kept / f"{name}.xz" if servers.kept else None
    known = {body.address: body for body in load(path)} if path and path.is_file() else {}
    reader = _Reader(servers, known)
    found, stops = [], []
    for part in reader.parts(name, facts, day):
        try:
            found.append(source(name).rows(list(part)))
        except SourceError as error:  # noqa: PERF203 (each part is read for itself)
            stops.append(str(error))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, ({**known, **reader.answers} if stops else reader.answers).values(), preset=0)
    return found, stops


class _Reader:
    """The reading of one source."""

    def __init__(self, servers: Servers, known: dict[str, Body]) -> None:
        self._servers, self._known = servers, known
        self.answers: dict[str, Body] = {}

    def parts(self, name: str, facts: Facts, day: dt.date) -> Iterator[Iterator[Body]]:
        """The bodies of each part of a source, read while they are iterated over."""
        if name == "csaf":
            yield self._bulletins(day)
        elif name == "redist":
            yield filter(None, map(self._optional, next_manifests(facts)))
        else:
            read = addresses(name, facts, self._servers.index)
            size = len(FILES) if name == "apt" else len(read)
            yield from (map(self._one, read[start : start + size]) for start in range(0, len(read), size))

    def _one(self, address: str) -> Body:
        mirror, known = self._servers.mirror.rstrip("/"), self._known.get(address)
        if mirror and not address.startswith(self._servers.index):
            copy = f"{mirror}/{address.removeprefix('https://')}"
            self.answers[address] = fetch(copy, known)._replace(address=address)
        else:
            self.answers[address] = fetch(address, known)
        return self.answers[address]

    def _optional(self, address: str) -> Body | None:
        try:
            return self._one(address)
        except MissingError:
            return None  # not released yet

    def _bulletins(self, day: dt.date) -> Iterator[Body]:
        """The bulletins about known products in the indexes of this year and the last."""
        for year in (day.year - 1, day.year):
            index = self._optional(csaf.INDEX.format(year=year))
            for number in csaf.listed(index) if index else ():
                address = csaf.ADDRESS.format(year=year, number=number)
                yield self._one(address)
                yield self._one(f"{address}.sha256")


def addresses(name: str, facts: Facts, index: str) -> list[str]:
    """The addresses of a source that stay the same; ``index`` is the package index."""
    if name == "tags":
        return [f"https://github.com/{one}.git/info/refs?service=git-upload-pack" for one in tags.REPOSITORIES]
    if name == "releases":
        return [releases.ADDRESS]
    if name == "wheels":
        return [f"{index.rstrip('/')}/{project}/" for project in wheels.PROJECTS]
    rows = facts.rows("repositories", "repositories")
    folders = [row["url"] for row in rows if row.get("family") == "apt" and not row["arch"].startswith("cross-")]
    return [f"{folder}{file}" for folder in folders for file in FILES]


def next_manifests(facts: Facts) -> list[str]:
    """The manifest of the newest release of each line that has one, and those of the releases that could follow it."""
    found = []
    for product, first in (("cuda", [11, 4, 2]), ("cudnn", [9, 10, 0])):
        releases_of = {tuple(map(int, row["version"].split(".")[:3])) for row in facts.rows(product, "releases")}
        numbers = sorted(one for one in releases_of if len(one) == 3 and list(one) >= first)
        newest = {one[:2]: one[2] for one in numbers}
        major, minor = max(newest)
        follow = [(major, minor + 1, 0), (major, minor + 1, 1), (major + 1, 0, 0)]
        wanted = [(*line, patch + more) for line, patch in newest.items() for more in (0, 1)] + follow
        found += [f"{manifests.HOME}{product}/redist/redistrib_{'.'.join(map(str, one))}.json" for one in wanted]
    return found
