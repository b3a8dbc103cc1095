"""Which program wrote a line of a log, and what its failures come from."""

import re
from functools import lru_cache

from msgspec import Struct

from gpustack.detect.scene import Scene
from gpustack.patterns import later

_OF_ENGINES = later(r"^/var/lib/docker/containers/[^/]*/|^/var/log/containers/")
"""The part of a log's path that is an engine's and says nothing of the program in the container."""


class Program(Struct, frozen=True, kw_only=True):
    """A row of the programs: ``like`` finds the path of the log and the line; ``own``: all its failures count.

    ``also``: what its failures come from is said next to a cause that is sure.
    """

    id: str
    like: str
    what: str
    fix: str
    own: bool = False
    also: bool = False
    src: tuple[str, ...] = ()


def writer(scene: Scene, path: str, line: str) -> Program | None:
    """The program of a line: one that the line itself shows before one that only the log's path shows."""
    rows = scene.matrix.rows("log-lines", "programs", Program)
    every = _any(tuple(row.like for row in rows))
    for text in (line, _OF_ENGINES.sub("", path)):
        if every.search(text):
            found = [row for row in rows if re.search(row.like, text)]
            return next((row for row in found if row.own), found[0])
    return None


@lru_cache(maxsize=2)
def _any(likes: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{like})" for like in likes))
