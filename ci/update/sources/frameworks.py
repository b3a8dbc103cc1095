"""The wheels of frameworks for Python on the package index: their builds and files.

The rows are those that ``ci/frameworks`` writes, out of the same bodies: pages of projects, and digests of wheels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from frameworks import rows as made
from frameworks.recipes import RECIPES
from update.record import Body, Found, Given, Row, refuse
from update.sources.digests import digest_of
from update.sources.index import WheelFile, wheels_of
from update.sources.wheel_pairings import NAMES, pairings

HAND_OUT = "pages of the index, as for wheels; digests of wheels, which ci/frameworks makes"
SUBJECT = "frameworks"


def rows(bodies: Sequence[Body]) -> Given:
    """The builds of which a wheel was read, and the files of every page."""
    pages = {wheels[0].project: wheels for body in bodies if body.address.endswith("/") and (wheels := wheels_of(body))}
    digests = dict(digest_of(body) for body in bodies if not body.address.endswith("/"))
    try:
        builds = [row for name in pages if name in RECIPES for row in made.builds(name, pages[name], digests)]
        files = list(_files(pages, builds))
    except ValueError as exc:  # a version or requirement that is none
        where = "a page or digest of a framework"
        raise refuse(where, str(exc)) from exc
    found = [Found(SUBJECT, "framework_builds", row) for row in builds]
    found += [Found(SUBJECT, "framework_files", row) for row in files]
    requires = {file: read["requires"] for file, read in digests.items()}
    paired = (row for name in NAMES if name in pages for row in pairings(name, pages[name], requires))
    found += [Found("cudnn", "pairings", row) for row in paired]
    covers = [(SUBJECT, "framework_files", {"component": name}) for name in pages if name in RECIPES]
    return Given(tuple(found), tuple(covers))


def _files(pages: dict[str, list[WheelFile]], builds: Iterable[Row]) -> Iterator[Row]:
    for name, wheels in pages.items():
        if name in RECIPES:
            yield from made.files(name, wheels)
    for name, versions in made.pinned(builds).items():
        if name in pages:
            yield from made.pinned_files(pages[name], versions)
