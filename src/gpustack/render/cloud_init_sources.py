"""Package repositories for cloud-init's own modules: apt sources and yum repositories, each with its key."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from gpustack.model.actions import Argv, ImportKey
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite, PackageSource, Step
from gpustack.plan.commands import commands_of
from gpustack.plan.former import actions_of
from gpustack.render.yaml_text import Text, Value

_URL = re.compile(r"https://[A-Za-z0-9._~:/+-]+")
_BASE = re.compile(r"https://[A-Za-z0-9._~:/+-]+(?:\$basearch)?[A-Za-z0-9._~:/+-]*")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_PATH = re.compile(r"(?:/[A-Za-z0-9._+-]+)+")
_ARCH = re.compile(r"[a-z0-9]*")
_SECTION = re.compile(r"\[([A-Za-z0-9][A-Za-z0-9._+-]*)\]")
_OPTION = re.compile(r"([a-z_]+)=(.*)")
_DECIMAL = re.compile(r"[0-9]{1,9}")


class Sources(NamedTuple):
    """The settings of the modules, the files that they need, and what remains of some steps."""

    apt: dict[str, Value]
    yum: dict[str, Value]
    files: list[Value]
    left: dict[str, tuple[Argv, ...]]
    """The remaining commands of a step that a module replaces, by its id."""

    without_keyring: bool
    """Whether a source replaces the vendor's package of source, key and preferences."""


def sources_of(plan: Plan) -> Sources:
    """The repositories of the plan that cloud-init's modules can add by themselves.

    Those without a key in the plan stay as they are, and so do all if the plan first changes others.
    """
    found = Sources({}, {}, [], {}, without_keyring=False)
    if any(step.phase == "preflight" and step.commands for step in plan.steps):
        # The package manager would read both entries before the plan's first command disables one of them.
        return found
    for step in plan.steps:
        repository = step.repository
        if isinstance(repository, PackageSource):
            if plan.host.os.family == "apt":
                found = _apt(plan, step, repository, found)
            elif plan.host.os.family in {"dnf", "yum"}:
                found = _yum(plan, step, repository, found)
    return found


def _apt(plan: Plan, step: Step, repository: PackageSource, found: Sources) -> Sources:
    key = _binary(repository.key)
    plain = (
        _URL.fullmatch(repository.url)
        and _FILE.fullmatch(repository.file)
        and _PATH.fullmatch(repository.keyring)
        and _ARCH.fullmatch(repository.arch)
    )
    if not key or not plain:
        return found
    # As in cuda-keyring, so that this package may be installed later.
    arch = f"arch={repository.arch} " if step.files and repository.arch else ""
    line = f"deb [{arch}signed-by={repository.keyring}] {repository.url} /"
    found.apt[f"{repository.file}.list"] = {"source": line}
    found.files.append(
        {
            "path": repository.keyring,
            "permissions": "0644",
            "encoding": "b64",
            "content": Text("\n".join(_folded(key)) + "\n"),
        }
    )
    if repository.preferences:
        found.files.append(_file(repository.preferences))
    found.left[step.id] = ()
    found.left.update(dict.fromkeys(_key_steps(plan, step), ()))
    found.left.update(dict.fromkeys(_index_steps(plan, step), ()))
    return found._replace(without_keyring=found.without_keyring or bool(step.commands))


def _yum(plan: Plan, step: Step, repository: PackageSource, found: Sources) -> Sources:
    section, options = _parsed(step.files[0].content) if len(step.files) == 1 else ("", {})
    key = repository.key if _binary(repository.key) and _PATH.fullmatch(repository.keyring) else ""
    if not section or step.commands or (options.get("repo_gpgcheck") == 1 and not key):
        # Without its key a repository with signed metadata cannot even be read.
        return found
    found.yum[section] = options
    found.left[step.id] = ()
    if key:
        found.files.append({"path": repository.keyring, "permissions": "0644", "content": Text(key)})
        for name in _key_steps(plan, step):
            checked = next(one for one in plan.steps if one.id == name)
            found.left[name] = commands_of(one for one in actions_of(checked) if isinstance(one, ImportKey))
        found.left.update(dict.fromkeys(_index_steps(plan, step), ()))
    return found


def _key_steps(plan: Plan, step: Step) -> list[str]:
    """The steps that only download and verify the key (or the package with it) of one repository."""
    return [
        one.id
        for one in plan.steps
        if one.id in step.depends_on and one.phase == "repositories" and one.kind in {"download", "run"}
    ]


def _index_steps(plan: Plan, step: Step) -> list[str]:
    return [one.id for one in plan.steps if one.kind == "refresh-index" and step.id in one.depends_on]


def _file(file: FileWrite) -> Value:
    return {"path": file.path, "permissions": file.mode, "content": Text(file.content)}


def _parsed(content: str) -> tuple[str, dict[str, Value]]:
    """The only section of a .repo file with its options; ("", {}) for anything else."""
    section, options = "", dict[str, Value]()
    for line in content.splitlines():
        head, option = _SECTION.fullmatch(line), _OPTION.fullmatch(line)
        if head and not section:
            section = head[1]
        elif option and section:
            options[option[1]] = int(option[2]) if _DECIMAL.fullmatch(option[2]) else option[2]
        elif line and not line.startswith("#"):
            return "", {}
    if not _BASE.fullmatch(str(options.get("baseurl", ""))) or options.get("enabled") != 1:
        return "", {}
    return section, {**options, "enabled": True}


def _binary(armoured: str) -> bytes:
    """The bytes of an armoured key; b"" if it is invalid."""
    lines = [line.strip() for line in armoured.strip().splitlines()]
    if not lines or "BEGIN PGP PUBLIC KEY BLOCK" not in lines[0] or "" not in lines:
        return b""
    body = lines[lines.index("") + 1 : -1]
    if body and body[-1].startswith("="):
        body.pop()  # its checksum
    try:
        return base64.b64decode("".join(body), validate=True)
    except ValueError:
        return b""


def _folded(key: bytes) -> list[str]:
    text = base64.b64encode(key).decode()
    return [text[place : place + 76] for place in range(0, len(text), 76)]
