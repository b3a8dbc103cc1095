"""The plan of a bundle as it runs without a network: the same steps, with packages and wheels from the bundle."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.root import Target
from gpustack.install.supply.bundle import Bundle
from gpustack.install.supply.cache import has_sum, is_private, take
from gpustack.install.supply.closure import is_install, is_pip_install, program_at
from gpustack.install.supply.repository import DEB, RPM, WHEELS
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite, Step
from gpustack.plan.document import digest_of

STATE = "/var/lib/gpustack/bundle"
"""Where package managers are told of the bundle; their own settings are left alone."""

_PLACE = "/var/cache/gpustack/bundle"
_LIST, _INDEXES, _REPOSITORIES = f"{STATE}/apt.list", f"{STATE}/apt-indexes", f"{STATE}/repositories"
_KEY = f"{STATE}/key.asc"
"""The one key that package managers get: written from the plan, so nobody exchanges it after it was checked."""

_NEEDS_AN_ACCOUNT = frozenset({"subscription-manager", "SUSEConnect"})
_SETTINGS_ONLY = frozenset({"config-manager"})
"""What dnf does to its own settings, which no network is asked for."""

_PLAIN = re.compile(r"[A-Za-z0-9._/+-]+")
"""Paths that mean the same in the settings of every package manager."""


def place_for(bundle: Bundle, root: Path | None) -> str:
    """The path of the bundle's packages for programs in ``root``; `lay` puts them there.

    It is the bundle itself only where nobody but root, or whoever runs this, can change it after it was checked.
    """
    if root is None and _PLAIN.fullmatch(str(bundle.folder)) and is_private(bundle.folder):
        return str(bundle.folder)
    return f"{_PLACE}/{bundle.digest[:16]}"


def lay(bundle: Bundle, root: Path | None) -> None:
    """Copy the packages to `place_for`, hashed on the way; what is there already and unchanged stays.

    Raises GpustackError where a file is not the one that was signed, or where there is no room.
    """
    place = place_for(bundle, root)
    if place == str(bundle.folder):
        return
    target = Target(root.resolve() if root is not None else None)
    files = bundle.manifest.files
    own = {one.url for one in bundle.lock.artifacts}
    by_address = {name for url, name in bundle.manifest.artifacts.items() if url not in own}
    wanted = [name for name in files if name.partition("/")[0] in {DEB, RPM, WHEELS} or name in by_address]
    places = {name: target.place(f"{place}/{name}") for name in wanted}
    missing = [name for name in wanted if not has_sum(places[name], files[name].sha256)]
    _demand_room(target, sum(files[name].size for name in missing))
    for name in missing:
        there = places[name]
        there.parent.mkdir(parents=True, exist_ok=True)
        new = there.parent / f".{there.name}.{os.getpid()}"
        new.unlink(missing_ok=True)
        take(bundle.folder / name, new, files[name].sha256)
        new.chmod(0o644)
        new.replace(there)


def _demand_room(target: Target, size: int) -> None:
    there = target.followed(_PLACE)
    there = next(one for one in (there, *there.parents) if one.exists())
    free = shutil.disk_usage(there).free
    if size > free:
        msg = f"the packages of the bundle need {size / 2**20:,.0f} MiB, and {free / 2**20:,.0f} MiB are free"
        raise GpustackError(msg, code="disk-full", where=_PLACE, hint="make room on that file system")


def offline_plan(bundle: Bundle, place: str) -> Plan:
    """The plan of ``bundle``, whose folder the target knows as ``place``."""
    lock = bundle.lock
    sums = {one.url: one for one in lock.artifacts}
    steps = [*_introduction(bundle, place), *(_step(step, bundle, place) for step in lock.plan.steps)]
    steps = [replace(step, artifacts=tuple(sums.get(one.url, one) for one in step.artifacts)) for step in steps]
    plan = replace(lock.plan, steps=tuple(steps))
    return replace(plan, digest=digest_of(plan))


def _introduction(bundle: Bundle, place: str) -> list[Step]:
    files = [FileWrite(path=_KEY, content=bundle.key)]
    commands: list[tuple[str, ...]] = [("install", "-d", "-m", "0755", "--", f"{_INDEXES}/partial", _REPOSITORIES)]
    if bundle.has(DEB):
        entry = f"deb [signed-by={_KEY}] file://{place}/{DEB} ./\n"
        files.append(FileWrite(path=_LIST, content=entry))
    if bundle.has(RPM):
        # The packages keep their publishers' signatures; here the signed index vouches for each of them by its sha256.
        entry = (
            f"[gpustack-bundle]\nname=gpustack bundle\nbaseurl=file://{place}/{RPM}\nenabled=1\n"
            f"gpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file://{_KEY}\nmetadata_expire=1\n"
        )
        files.append(FileWrite(path=f"{_REPOSITORIES}/gpustack-bundle.repo", content=entry))
    if len(files) == 1:
        return []
    step = Step(
        id=f"bundle-{bundle.manifest.plan[:12]}",
        component="",
        kind="add-repository",
        title="add the bundle as a package source",
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
    changed = {"actions": UNSET, "undo_actions": UNSET} if tuple(commands) != step.commands else {}
    return replace(step, commands=tuple(commands), **changed)


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
