"""The plan of a bundle without a network: the same steps, with packages and wheels from the bundle."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.root import InstallRoot
from gpustack.install.supply.bundle import Bundle
from gpustack.install.supply.cache import has_sum, is_private, take
from gpustack.install.supply.repository import DEB, RPM, WHEELS
from gpustack.model.actions import (
    AnyAction,
    EnableSource,
    InstallWheels,
    MakeFolders,
    Package,
    PackageAction,
    Remove,
    Words,
)
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite, Step
from gpustack.plan.commands import commands_of, wheels_from
from gpustack.plan.document import digest_of
from gpustack.plan.former import actions_of, is_pip_install, manager_of, needs_account
from gpustack.plan.installing import with_actions, with_packages
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import BUNDLE, BUNDLE_INDEXES, BUNDLE_LIST, BUNDLE_REPOSITORIES

_PLACE = "/var/cache/gpustack/bundle"
_KEY = f"{BUNDLE}/key.asc"
"""The one key for package managers: written from the plan, so nobody can replace it after it was checked."""

_PLAIN = re.compile(r"[A-Za-z0-9._/+-]+")
"""Paths that mean the same in the settings of every package manager."""


def place_for(bundle: Bundle, root: Path | None) -> str:
    """The path of the bundle's packages for programs in ``root``; `lay` puts them there.

    It is the bundle itself only if nobody but root, and the current user, can change it after it was checked.
    """
    if root is None and _PLAIN.fullmatch(str(bundle.folder)) and is_private(bundle.folder):
        return str(bundle.folder)
    return f"{_PLACE}/{bundle.digest[:16]}"


def lay(bundle: Bundle, root: Path | None) -> None:
    """Copy the packages to `place_for`, hashed on the way; unchanged copies stay.

    Raises GpustackError if a file is not the signed one, or if there is no room.
    """
    place = place_for(bundle, root)
    if place == str(bundle.folder):
        return
    target = InstallRoot(root.resolve() if root is not None else None)
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


def _demand_room(target: InstallRoot, size: int) -> None:
    there = target.followed(_PLACE)
    there = next(one for one in (there, *there.parents) if one.exists())
    free = shutil.disk_usage(there).free
    if size > free:
        msg = f"the packages of the bundle need {size / 2**20:,.0f} MiB, and {free / 2**20:,.0f} MiB are free"
        raise GpustackError(msg, code="disk-full", where=_PLACE, hint="make room on that file system")


def offline_plan(bundle: Bundle, place: str) -> Plan:
    """The plan of ``bundle``, whose folder in the target is ``place``."""
    lock = bundle.lock
    sums = {one.url: one for one in lock.artifacts}
    steps = [*_introduction(bundle, place), *(_step(step, bundle, place) for step in lock.plan.steps)]
    steps = [replace(step, artifacts=tuple(sums.get(one.url, one) for one in step.artifacts)) for step in steps]
    plan = replace(lock.plan, steps=tuple(steps))
    return replace(plan, digest=digest_of(plan))


def _introduction(bundle: Bundle, place: str) -> list[Step]:
    files = [FileWrite(path=_KEY, content=bundle.key)]
    if bundle.has(DEB):
        entry = f"deb [signed-by={_KEY}] file://{place}/{DEB} ./\n"
        files.append(FileWrite(path=BUNDLE_LIST, content=entry))
    if bundle.has(RPM):
        # The packages keep their publishers' signatures; here the signed index verifies each of them by its sha256.
        entry = (
            f"[gpustack-bundle]\nname=gpustack bundle\nbaseurl=file://{place}/{RPM}\nenabled=1\n"
            f"gpgcheck=0\nrepo_gpgcheck=1\ngpgkey=file://{_KEY}\nmetadata_expire=1\n"
        )
        files.append(FileWrite(path=f"{BUNDLE_REPOSITORIES}/gpustack-bundle.repo", content=entry))
    if len(files) == 1:
        return []
    actions = (MakeFolders(paths=(f"{BUNDLE_INDEXES}/partial", BUNDLE_REPOSITORIES)),)
    undo = (Remove(paths=(BUNDLE,), whole=True),)
    step = Step(
        id=f"bundle-{bundle.manifest.plan[:12]}",
        component="",
        kind="add-repository",
        title="add the bundle as a package source",
        why=f"packages come from {place}, whose index is signed with the key {bundle.manifest.fingerprint}",
        files=tuple(files),
        commands=commands_of(actions),
        undo=commands_of(undo),
        phase="preflight",
        actions=actions,
        undo_actions=undo,
    )
    return [step]


def _step(step: Step, bundle: Bundle, place: str) -> Step:
    return with_actions(step, (one for action in actions_of(step) for one in _offline(action, bundle, place)))


def _offline(action: AnyAction, bundle: Bundle, place: str) -> tuple[AnyAction, ...]:
    """The action without a network; () if it does nothing without one."""
    action = with_packages(action, lambda packages: [_from_bundle(one, bundle, place) for one in packages])
    wheels = f"{place}/{WHEELS}"
    match action:
        case EnableSource(needs_account=True):
            return ()
        case PackageAction():
            return (replace(action, bundle=True),)
        case InstallWheels():
            return (replace(action, wheels=wheels),)
        case Words(argv=argv) if needs_account(argv):
            return ()
        case Words(argv=argv) if is_pip_install(argv):
            return (Words(argv=wheels_from(wheels, argv)),)
        case Words(argv=argv):
            name = manager_of(argv)
            return (Words(argv=manager(name).offline(argv)),) if name else (action,)
        case _:
            return (action,)


def _from_bundle(package: Package, bundle: Bundle, place: str) -> Package:
    """A package that the plan names by address, as a file of the bundle."""
    name = bundle.manifest.artifacts.get(package.name, "")
    return Package(name=f"{place}/{name}") if name else package
