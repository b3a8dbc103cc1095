"""Which program wrote a line of a log, and what its failures come from; the lines that are judged by this."""

import re
from functools import lru_cache

from msgspec import Struct

from gpustack.detect.problems.phrases import Cause
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_OF_ENGINES = later(r"^/var/lib/docker/containers/[^/]*/|^/var/log/containers/")
"""The part of a log's path that is an engine's and says nothing of the program in the container."""


_DAEMONS = later(
    r"nvidia-container-(?:cli|runtime|toolkit)|nvidia-ctk|nvidia-cdi|nvidia-imex|nv-hostengine|nvidia-vgpu-mgr|"
    r"nvidia-powerd|"
    r"nvidia-persistenced|nvidia-device-plugin|nvidia-mig-(?:manager|parted)|modprobe: (?:ERROR|FATAL)|NVRM|"
    r"fabric ?manager|"
    r"nvidia-gridd|slurmd?\b.*(?:gres|gpu|nvml)",
    re.IGNORECASE,
)


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


class Line(Struct, frozen=True, kw_only=True):
    """A grave line of a log that no fact explains, how often it comes, and what it says by itself."""

    path: str
    text: str
    count: int
    cause: Cause | None
    program: Program | None = None

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """The gravest first: causes that this host shows, then causes, then failures of NVIDIA's own daemons."""
        return (
            self.cause is None or not self.cause.sure,
            self.cause is None,
            not _DAEMONS.search(self.text),
        )

    @property
    def follows(self) -> bool:
        """Whether a program only says that it failed: for the reason that it gave, where it gave one."""
        return self.cause is None and self.program is not None

    @property
    def is_vague(self) -> bool:
        """Whether the driver reports that something failed, and nothing says what that comes from."""
        return "NVRM" in self.text and (self.cause is None or not self.cause.sure)


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
