"""How one sees that a step has nothing left to do: the questions that a machine can answer about it."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from gpustack.digests import sha256_hex
from gpustack.model.conditions import conditions
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.managers.base import CACHE

Argv = tuple[str, ...]
Asked = Literal[
    "package",
    "absent",
    "held",
    "succeeds",
    "deb",
    "deb-exact",
    "deb-prefix",
    "deb-gone",
    "deb-held",
    "rpm",
    "rpm-gone",
    "zypper-locked",
    "file",
    "path",
    "no-path",
    "link",
    "enabled",
    "active",
]


class Question(NamedTuple):
    """One thing to look at, such as ``deb-exact`` of a package and a version."""

    asked: Asked
    words: Argv


class Signs(NamedTuple):
    """A step is done when every question is answered with yes and, with ``marked``, a mark says that it ran."""

    questions: tuple[Question, ...]
    marked: bool

    @property
    def any(self) -> bool:
        """Whether there is any sign: a step without one only looks, and is taken each time."""
        return bool(self.questions) or self.marked


_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300")
_DEB_FILE = re.compile(r".*/([a-z0-9][a-z0-9+.-]+)_([^_/*]+)_[a-z0-9]+\.deb")
_RPM_FILE = re.compile(r".*/([^/*]+)\.[a-z0-9_]+\.rpm")
_RPM_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+~^()-]*")
_RPM_EPOCH = re.compile(r"-[0-9]+:(?=[^:]*$)")
_DEB_NAME = re.compile(r"[a-z0-9][a-z0-9+.:-]*")
_DEB_VERSION = re.compile(r"[0-9A-Za-z.+~:-]+")
_LOOKS = frozenset({"sha256sum", "md5sum", "gpgv", "pkg-config", "gpustack", "mkdir", "chmod"})
"""Programs that only look, or make ready for what another command of the step does."""


def signs(step: Step) -> Signs:
    """The signs of one step. What serves only the step itself, such as a folder in our cache, is none of them."""
    told = _told(step.done_when)
    if told:
        return Signs(tuple(told), marked=False)
    questions: list[Question] = []
    for artifact in step.artifacts:
        questions += _of_artifact(step, artifact)
    questions += [_of_file(file) for file in step.files if not file.path.startswith(f"{CACHE}/")]
    unseen = bool(step.artifacts) and not questions
    for argv in step.commands:
        seen = seen_by(argv)
        if seen is None:
            unseen = True
        else:
            questions += [one for one in seen if not _is_of_passage(one, argv, step)]
    if unseen:
        questions += [Question("path", (path,)) for path in _made_by(step)]
    return Signs(tuple(dict.fromkeys(questions)), unseen)


def only_serves(step: Step) -> bool:
    """Whether the step is of use to later ones only, so that it may be left out where those are done."""
    if step.kind == "refresh-index":
        return True
    paths = [*(one.path for one in step.artifacts), *(one.path for one in step.files)]
    return step.kind == "download" and bool(paths) and all(path.startswith(f"{CACHE}/") for path in paths)


def seen_by(argv: Argv) -> tuple[Question, ...] | None:
    """The questions that tell whether one command has anything left to do; None where none can tell."""
    for look in (_by_apt, _by_rpm, _by_path, _by_service):
        found = look(argv)
        if found is not None:
            return found
    return () if argv[0] in _LOOKS else None


def _told(done_when: str) -> list[Question]:
    """The conditions of a step as questions; all of its other signs are in them."""
    return [Question(one.kind, one.words) for one in conditions(done_when)]


def _of_artifact(step: Step, artifact: Artifact) -> list[Question]:
    in_cache = artifact.path.startswith(f"{CACHE}/")
    if not artifact.sha256 or (in_cache and step.kind != "download"):
        return []
    return [Question("file", (artifact.path, artifact.sha256))]


def _of_file(file: FileWrite) -> Question:
    return Question("file", (file.path, sha256_hex(file.content.encode())))


def _made_by(step: Step) -> list[str]:
    """The paths that the step says it makes: those that taking it back removes."""
    removed = [path for argv in step.undo for path in _removed(argv)]
    return [path for path in removed if step.kind == "download" or not path.startswith(f"{CACHE}/")]


def _removed(argv: Argv) -> Argv:
    return argv[3:] if argv[:3] in {("rm", "-f", "--"), ("rm", "-rf", "--")} else ()


def _is_of_passage(question: Question, argv: Argv, step: Step) -> bool:
    """Whether what the question asks holds only until a later command of the step."""
    if question.asked != "no-path":
        return False
    later = step.commands[step.commands.index(argv) + 1 :]
    [path] = question.words
    return any(word == path or word.startswith(f"{path}/") for other in later for word in other)


def _by_apt(argv: Argv) -> tuple[Question, ...] | None:
    if argv[: len(_APT)] == _APT:
        verb, *rest = argv[len(_APT) :] or ("",)
        names = [word for word in rest if not word.startswith("-")]
        if verb == "update":
            return ()
        if verb == "install":
            return _all([_deb(word) for word in names])
        return tuple(Question("deb-gone", (name,)) for name in names) if verb == "purge" else None
    if argv[:4] == ("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "-i") and len(argv) == 5:
        named = _DEB_FILE.fullmatch(argv[4])
        return (Question("deb-exact", (named[1], named[2])),) if named else None
    if argv[:2] == ("apt-mark", "hold"):
        return tuple(Question("deb-held", (name,)) for name in argv[2:])
    return None


def _deb(word: str) -> Question | None:
    name, _, pin = word.partition("=")
    if not _DEB_NAME.fullmatch(name) or (pin and not _DEB_VERSION.fullmatch(pin.removesuffix("*"))):
        return None
    if not pin:
        return Question("deb", (name,))
    return Question("deb-prefix", (name, pin[:-1])) if pin.endswith("*") else Question("deb-exact", (name, pin))


def _by_rpm(argv: Argv) -> tuple[Question, ...] | None:
    match argv:
        case ("dnf" | "yum" | "tdnf", "-y", "install", *words):
            return _all([_rpm(word) for word in words if word != "--allowerasing"])
        case ("dnf" | "yum" | "tdnf", "-y", "remove", *words) | ("zypper", _, "remove", "--clean-deps", *words):
            return tuple(Question("rpm-gone", (word,)) for word in words)
        case ("zypper", _, "install", "--auto-agree-with-licenses", *words):
            names = [word.replace("=", "-", 1) for word in words if word != "--oldpackage"]
            return _all([_rpm(name) for name in names])
        case ("zypper", _, "addlock", *words):
            return tuple(Question("zypper-locked", (word,)) for word in words)
        case ("dnf" | "yum" | "tdnf", "clean", _) | ("dnf" | "yum" | "tdnf", "-y", "makecache"):
            return ()
        case ("zypper", "--non-interactive", "refresh", *_):
            return ()
        case ("rpm", "--install", path):
            named = _RPM_FILE.fullmatch(path)
            return (Question("rpm", (named[1],)),) if named else None
        case _:
            return None


def _rpm(word: str) -> Question | None:
    plain = _RPM_EPOCH.sub("-", word)
    return Question("rpm", (plain,)) if _RPM_WORD.fullmatch(plain) else None


def _all(questions: list[Question | None]) -> tuple[Question, ...] | None:
    known = tuple(one for one in questions if one is not None)
    return known if len(known) == len(questions) else None


def _by_path(argv: Argv) -> tuple[Question, ...] | None:
    match argv:
        case ("ln", "-sfn", target, link):
            return (Question("link", (link, target)),)
        case ("install", "-d", "-m", _, "--", *_):
            return ()
        case ("mv", "--", source, _):
            return (Question("no-path", (source,)),)
        case _:
            return tuple(Question("no-path", (path,)) for path in _removed(argv)) or None


def _by_service(argv: Argv) -> tuple[Question, ...] | None:
    if argv[:2] != ("systemctl", "enable"):
        return None
    units = [unit for unit in argv[2:] if unit != "--now"]
    found = [Question("enabled", (unit,)) for unit in units]
    return (*found, *(Question("active", (unit,)) for unit in units if "--now" in argv))
