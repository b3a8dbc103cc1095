"""Steps that consist only of words: of the first edition, or written by hand. All their actions are ``Words``.

The only module that derives the meaning of a command from its words; everything else has types.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Literal

from msgspec import UnsetType

from gpustack.model.actions import AnyAction, Argv, ByHand, ManagerName, Reboot, Verify, Words
from gpustack.model.steps import Kind, Step

_VERIFY = ("gpustack", "verify")
_PACKAGE_TOOLS = frozenset({"apt-get", "apt", "apt-mark", "dpkg", "rpm", "dnf", "yum", "tdnf", "zypper"})
_BY_COPY = _PACKAGE_TOOLS | {"rm", "rmdir", "mv", "cp", "ln", "make", "ldconfig", "python3"}
"""Programs of an undo whose work kept copies and former versions do better."""

_MANAGERS: dict[str, ManagerName] = {
    "apt-get": "apt",
    "dnf": "dnf",
    "yum": "yum",
    "tdnf": "tdnf",
    "zypper": "zypper",
}
_FETCHES = {"git": "clones a repository", "docker": "pulls an image", "podman": "pulls an image"}
_INITRAMFS = frozenset({"update-initramfs", "dracut"})
_CONTAINED = frozenset(
    {"note", "manual", "reboot", "refresh-index", "download", "extract", "make-link", "pip-install", "build"}
)
"""The kinds of steps that change nothing but what their commands name."""

_ELSEWHERE = ("/proc", "/sys", "/dev", "/run", "/etc")
"""Places outside of the tree, and one that is watched anyway."""

_PATH = r"(?:--?[\w-]+=|[A-Z_]+=)?(/[^:]*)"
_BY_RUNFILES = "/usr/local/cuda"
"""The link that NVIDIA's .run files set by themselves: no command names it."""


def actions_of(step: Step) -> tuple[AnyAction, ...]:
    """The actions of a step; one for each command if the step has nothing but commands."""
    return _actions(step, step.actions, step.commands)


def undo_actions_of(step: Step) -> tuple[AnyAction, ...]:
    """The actions that undo a step, like ``actions_of``."""
    return _actions(step, step.undo_actions, step.undo)


def _actions(step: Step, said: tuple[AnyAction, ...] | UnsetType, commands: tuple[Argv, ...]) -> tuple[AnyAction, ...]:
    if not isinstance(said, UnsetType):
        return said
    if not commands:
        return ()
    match step.kind:
        case "manual":
            return (ByHand(commands=commands),)
        case "reboot":
            return (Reboot(),)
        case _:
            return tuple(map(_meant, commands))


def _meant(argv: Argv) -> AnyAction:
    """A command of gpustack itself, which has a type."""
    if argv[:2] != _VERIFY:
        return Words(argv=argv)
    if argv[-2:-1] == ("--python",):
        return Verify(components=argv[2:-2], python=argv[-1])
    return Verify(components=argv[2:])


def words_of(argv: Argv) -> Argv:
    """The program of a command and its arguments, without a leading ``env`` and its assignments."""
    if argv[0] != "env":
        return argv
    rest = list(argv[1:])
    while rest and ("=" in rest[0] or rest[0].startswith("-")):
        rest.pop(0)
    return tuple(rest) or argv


def program(argv: Argv) -> str:
    """The name of the program that a command runs."""
    return PurePosixPath(words_of(argv)[0]).name


def is_of_packages(argv: Argv) -> bool:
    """Whether a command belongs to a package manager."""
    return program(argv) in _PACKAGE_TOOLS


def manager_of(argv: Argv) -> ManagerName | None:
    """The package manager that a command belongs to, None if it is none."""
    return next((_MANAGERS[word] for word in argv if word in _MANAGERS), None)


def is_pip_install(argv: Argv) -> bool:
    """Whether a command makes pip install wheels."""
    return argv[1:4] == ("-m", "pip", "install")


def fetched_by(argv: Argv) -> str:
    """What a command downloads by itself, "" for nothing."""
    what = _FETCHES.get(program(argv), "")
    return f"`{program(argv)}` {what}" if what else ""


def needs_account(argv: Argv) -> bool:
    """Whether a command contacts the system's publisher with the account of the machine."""
    return program(argv) in {"subscription-manager", "SUSEConnect"}


def touched_by_words(kind: Kind, argv: Argv) -> tuple[tuple[str, ...], bool, bool]:
    """The places that a command may change, whether it changes settings, and whether packages."""
    packages = kind != "refresh-index" and is_of_packages(argv)
    places = set() if is_of_packages(argv) else named_places(argv)
    if any(word.endswith(".run") for word in argv):
        places.add(_BY_RUNFILES)
    return tuple(sorted(places)), packages or kind not in _CONTAINED, packages


def named_places(argv: Argv) -> set[str]:
    """The places that a command names and may write to; its program is only read, except in a virtual environment."""
    words = words_of(argv)
    found = {match.group(1).rstrip("/") for word in words[1:] if (match := re.fullmatch(_PATH, word))}
    if argv[0] == "env":
        found |= {word.partition("=")[2] for word in argv if word.startswith("--chdir=")}
    place = PurePosixPath(words[0])
    if place.is_absolute() and place.parent.name == "bin" and place.name.startswith("python") and len(place.parts) > 4:
        found.add(str(place.parent.parent))
    return {path for path in found if len(PurePosixPath(path).parts) > 2 and not is_elsewhere(path)}


def is_elsewhere(path: str) -> bool:
    """Whether a place is outside the tree, or watched anyway."""
    return any(path == one or path.startswith(f"{one}/") for one in _ELSEWHERE)


def way_back_of_words(argv: Argv) -> Literal["files", "packages", "command", "at the end"]:
    """How an installer carries out a command of an undo."""
    if is_of_packages(argv):
        return "packages"
    if program(argv) in _INITRAMFS:
        return "at the end"
    return "files" if program(argv) in _BY_COPY else "command"


def missing_system(argv: Argv) -> Literal["", "services", "boot"]:
    """What a command requires of a running system."""
    name = program(argv)
    return "services" if name == "systemctl" else "boot" if name in _INITRAMFS else ""


def packages_in(argv: Argv) -> set[str]:
    """The packages that a command installs or changes; holds do not count."""
    words = words_of(argv)
    if not is_of_packages(argv) or program(argv) == "apt-mark" or "install" not in words:
        return set()
    return {word.partition("=")[0] for word in words[words.index("install") + 1 :]}


def asks_repositories(argv: Argv) -> bool:
    """Whether a command makes apt contact the system's repositories; it is skipped with a bundle."""
    return program(argv) in {"apt-get", "apt"} and "Dir::Etc::sourceparts=-" not in argv


def rpm_file_in(argv: Argv) -> str:
    """The package file that a command installs with rpm, "" if none."""
    return argv[2] if argv[:2] == ("rpm", "--install") and len(argv) == 3 else ""


def unpackings_in(argv: Argv) -> list[tuple[str, str, int]]:
    """The archive that a command unpacks, its folder, and the number of stripped path components."""
    if "tar" not in argv[:1] or "--extract" not in argv:
        return []
    words = dict(word.split("=", 1) for word in argv if word.startswith("--") and "=" in word)
    return [(words["--file"], words["--directory"], int(words.get("--strip-components", "0")))]
