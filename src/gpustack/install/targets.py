"""Which places of the tree a step may change: what its commands name, and what package managers write to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from gpustack.install.names import beside
from gpustack.model.steps import Step

SETTINGS = (
    "/etc",
    "/usr/share/keyrings",
    "/var/lib/alternatives",
    "/var/lib/apt/extended_states",
    "/var/lib/dpkg/alternatives",
    "/var/lib/dpkg/diversions",
    "/var/lib/dpkg/statoverride",
    "/var/lib/systemd",
    "/var/lib/zypp",
)
"""What is watched around every command that may change the system's settings."""


def _of_alternatives(text: str) -> set[str]:
    """The public links of a group, its own and those of its slaves: status, link, then name and link of each slave."""
    head = text.partition("\n\n")[0].split("\n")
    return {*head[1:2], *head[3::2]}


def _of_diversions(text: str) -> set[str]:
    """The diverted names and those that they are diverted to: three lines each, the package is the third."""
    return {line for number, line in enumerate(text.split("\n")) if number % 3 < 2}


def _of_overrides(text: str) -> set[str]:
    """The places whose owner and mode are overridden: user, group, mode, path."""
    return {line.split(maxsplit=3)[3] for line in text.split("\n") if len(line.split(maxsplit=3)) == 4}


NAMED_IN: dict[str, Callable[[str], set[str]]] = {
    "/var/lib/alternatives": _of_alternatives,
    "/var/lib/dpkg/alternatives": _of_alternatives,
    "/var/lib/dpkg/diversions": _of_diversions,
    "/var/lib/dpkg/statoverride": _of_overrides,
}
"""The files, and folders of files, in which the package manager names places that it changes by itself."""

PACKAGE_TOOLS = frozenset({"apt-get", "apt", "apt-mark", "dpkg", "rpm", "dnf", "yum", "tdnf", "zypper"})

_ELSEWHERE = ("/proc", "/sys", "/dev", "/run", "/etc")
"""Places that are none of the tree's own, and one that is watched anyway."""

_PATH = re.compile(r"(?:--?[\w-]+=|[A-Z_]+=)?(/[^:]*)")

_BY_RUNFILES = "/usr/local/cuda"
"""The link that NVIDIA's .run files set without being told: no command names it."""

_CONTAINED = frozenset(
    {"note", "manual", "reboot", "refresh-index", "download", "extract", "make-link", "pip-install", "build"}
)
"""The kinds of steps that change nothing but what their commands name."""


def words_of(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The program of a command and its words, without the ``env`` in front of them and its assignments."""
    if argv[0] != "env":
        return argv
    rest = list(argv[1:])
    while rest and ("=" in rest[0] or rest[0].startswith("-")):
        rest.pop(0)
    return tuple(rest) or argv


def program(argv: tuple[str, ...]) -> str:
    """The name of the program that a command runs."""
    return PurePosixPath(words_of(argv)[0]).name


def changes_packages(step: Step) -> bool:
    """Whether a command of the step may add, change or remove packages."""
    return step.kind != "refresh-index" and any(program(argv) in PACKAGE_TOOLS for argv in step.commands)


def newcomer(path: str) -> str:
    """Where a file is written before it takes its place: known, so that what a crash leaves there is found."""
    place = PurePosixPath(path)
    return str(place.with_name(beside(place.name, "gpustack-new")))


def places_of(step: Step) -> tuple[str, ...]:
    """The places to be watched around a step, none of them within another."""
    own = {file.path for file in step.files} | {artifact.path for artifact in step.artifacts}
    found = own | {newcomer(path) for path in own}
    if step.commands and (step.kind not in _CONTAINED or changes_packages(step)):
        found |= set(SETTINGS)
    for argv in step.commands:
        if program(argv) not in PACKAGE_TOOLS:
            found |= named_places(argv)
        if any(word.endswith(".run") for word in argv):
            found.add(_BY_RUNFILES)
    return tuple(path for path in sorted(found) if not any(str(one) in found for one in PurePosixPath(path).parents))


def named_places(argv: tuple[str, ...]) -> set[str]:
    """The places that a command names and may write to; its program is read only, but for a virtual environment's."""
    words = words_of(argv)
    found = {match.group(1).rstrip("/") for word in words[1:] if (match := _PATH.fullmatch(word))}
    if argv[0] == "env":
        found |= {word.partition("=")[2] for word in argv if word.startswith("--chdir=")}
    place = PurePosixPath(words[0])
    if place.is_absolute() and place.parent.name == "bin" and place.name.startswith("python") and len(place.parts) > 4:
        found.add(str(place.parent.parent))
    return {path for path in found if len(PurePosixPath(path).parts) > 2 and not _is_elsewhere(path)}


def is_watched_alone(path: str) -> bool:
    """Whether a place that a package manager names is one to look at: no other root has it."""
    return path.startswith("/") and len(PurePosixPath(path).parts) > 2 and not _is_elsewhere(path)


def _is_elsewhere(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in _ELSEWHERE)
