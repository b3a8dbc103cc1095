"""The plan of a bundle as it runs without a network: the same steps, with packages and wheels from the bundle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec.structs import replace

from gpustack.install.bundle import Bundle
from gpustack.install.closure import is_install, is_pip_install, program_at
from gpustack.install.repository import DEB, RPM, WHEELS
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite, Step
from gpustack.plan.document import digest_of

STATE = "/var/lib/gpustack/bundle"
"""Where package managers are told of the bundle; their own settings are left alone."""

_PLACE = "/var/cache/gpustack/bundle"
_LIST, _INDEXES, _REPOSITORIES = f"{STATE}/apt.list", f"{STATE}/apt-indexes", f"{STATE}/repositories"
_NEEDS_AN_ACCOUNT = frozenset({"subscription-manager", "SUSEConnect"})
_SETTINGS_ONLY = frozenset({"config-manager"})
"""What dnf does to its own settings, which no network is asked for."""


def place_for(bundle: Bundle, root: Path | None) -> str:
    """The path of the bundle for programs in ``root``; the packages are laid into another tree than this machine's.

    Raises OSError.
    """
    if root is None:
        return str(bundle.folder)
    inside = root / _PLACE.lstrip("/") / bundle.manifest.plan[:16]
    own = {one.url for one in bundle.lock.artifacts}
    by_address = {name for url, name in bundle.manifest.artifacts.items() if url not in own}
    for name in bundle.manifest.files:
        target = inside / name
        is_package = name.startswith((DEB, RPM, WHEELS, "key.")) or name in by_address
        if not is_package or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(bundle.folder / name, target)
        except OSError:
            shutil.copyfile(bundle.folder / name, target)
    return "/" + str(inside.relative_to(root))


def offline_plan(bundle: Bundle, place: str) -> Plan:
    """The plan of ``bundle``, whose folder the target knows as ``place``."""
    lock = bundle.lock
    sums = {one.url: one for one in lock.artifacts}
    steps = [*_introduction(bundle, place), *(_step(step, bundle, place) for step in lock.plan.steps)]
    steps = [replace(step, artifacts=tuple(sums.get(one.url, one) for one in step.artifacts)) for step in steps]
    plan = replace(lock.plan, steps=tuple(steps))
    return replace(plan, digest=digest_of(plan))


def _introduction(bundle: Bundle, place: str) -> list[Step]:
    files = []
    commands: list[tuple[str, ...]] = [("install", "-d", "-m", "0755", "--", f"{_INDEXES}/partial", _REPOSITORIES)]
    if bundle.has(DEB):
        entry = f"deb [signed-by={place}/key.gpg] file://{place}/{DEB} ./\n"
        files.append(FileWrite(path=_LIST, content=entry))
    if bundle.has(RPM):
        entry = (
            f"[gpustack-bundle]\nname=gpustack bundle\nbaseurl=file://{place}/{RPM}\nenabled=1\n"
            f"gpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file://{place}/key.asc\nmetadata_expire=1\n"
        )
        files.append(FileWrite(path=f"{_REPOSITORIES}/gpustack-bundle.repo", content=entry))
    if not files:
        return []
    step = Step(
        id=f"bundle-{bundle.manifest.plan[:12]}",
        component="",
        kind="add-repository",
        title="tell the package manager of the bundle",
        why=f"packages come from {place}, whose index is signed with the key {bundle.manifest.fingerprint}",
        commands=tuple(commands),
        files=tuple(files),
        undo=(("rm", "-rf", "--", STATE),),
        phase="preflight",
    )
    return [step]


def _step(step: Step, bundle: Bundle, place: str) -> Step:
    commands = []
    for argv in step.commands:
        words = _offline(argv, bundle, place)
        if words:
            commands.append(words)
    return replace(step, commands=tuple(commands))


def _offline(argv: tuple[str, ...], bundle: Bundle, place: str) -> tuple[str, ...]:
    """The command as it runs without a network; empty where it does nothing without one."""
    at = program_at(argv)
    name = argv[at]
    if name in _NEEDS_AN_ACCOUNT:
        return ()
    if is_pip_install(argv):
        return ("env", "PIP_NO_INDEX=1", f"PIP_FIND_LINKS={place}/{WHEELS}", *argv)
    front, rest = argv[: at + 1], argv[at + 1 :]
    if name == "apt-get":
        settings = (
            f"Dir::Etc::sourcelist={_LIST}",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={_INDEXES}",
            "APT::Sandbox::User=root",
        )
        return (*front, *(word for one in settings for word in ("-o", one)), *rest)
    if name in {"dnf", "yum", "tdnf"} and not _SETTINGS_ONLY.intersection(rest):
        packages = tuple(_from_bundle(word, bundle, place) for word in rest) if is_install(argv) else rest
        return (*front, f"--setopt=reposdir={_REPOSITORIES}", *packages)
    if name == "zypper":
        # A refresh of a repository by its name would ask the network; the bundle's own is read when it is needed.
        rest = rest[: rest.index("refresh") + 1] if "refresh" in rest else rest
        return (*front, "--reposd-dir", _REPOSITORIES, "--gpg-auto-import-keys", *rest)
    return argv


def _from_bundle(word: str, bundle: Bundle, place: str) -> str:
    """A package that the plan names by its address, as the bundle has it."""
    name = bundle.manifest.artifacts.get(word, "")
    return f"{place}/{name}" if name else word
