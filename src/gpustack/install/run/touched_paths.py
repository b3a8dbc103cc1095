"""Which places of the tree a step may change: by its actions, and by the files of package managers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from gpustack.install.changes.names import beside
from gpustack.model.steps import Step
from gpustack.plan.former import is_elsewhere
from gpustack.plan.touched import touched

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
"""What is watched around every command that may change the system's configuration."""


def _of_alternatives(text: str) -> set[str]:
    """The public links of a group, its own and those of its slaves: status, link, then name and link of each slave."""
    head = text.partition("\n\n")[0].split("\n")
    return {*head[1:2], *head[3::2]}


def _of_diversions(text: str) -> set[str]:
    """The diverted names and their targets: three lines each, the third is the package."""
    return {line for number, line in enumerate(text.split("\n")) if number % 3 < 2}


def _of_overrides(text: str) -> set[str]:
    """The places with overridden owner and mode: user, group, mode, path."""
    return {line.split(maxsplit=3)[3] for line in text.split("\n") if len(line.split(maxsplit=3)) == 4}


NAMED_IN: dict[str, Callable[[str], set[str]]] = {
    "/var/lib/alternatives": _of_alternatives,
    "/var/lib/dpkg/alternatives": _of_alternatives,
    "/var/lib/dpkg/diversions": _of_diversions,
    "/var/lib/dpkg/statoverride": _of_overrides,
}
"""The files, and folders of files, in which the package manager names places that it changes by itself."""


def changes_packages(step: Step) -> bool:
    """Whether the step may add, change or remove packages."""
    return touched(step).packages


def newcomer(path: str) -> str:
    """The temporary path of a file before it is renamed: known, so that a crash's leftovers are found."""
    place = PurePosixPath(path)
    return str(place.with_name(beside(place.name, "gpustack-new")))


def places_of(step: Step) -> tuple[str, ...]:
    """The places to watch during a step, none of them within another."""
    own = {file.path for file in step.files} | {artifact.path for artifact in step.artifacts}
    found = own | {newcomer(path) for path in own}
    what = touched(step)
    found |= {*what.places, *(SETTINGS if what.settings else ())}
    return tuple(path for path in sorted(found) if not any(str(one) in found for one in PurePosixPath(path).parents))


def is_watched_alone(path: str) -> bool:
    """Whether a place that a package manager names needs its own watch: no other root contains it."""
    return path.startswith("/") and len(PurePosixPath(path).parts) > 2 and not is_elsewhere(path)
