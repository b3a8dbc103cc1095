"""The lock of a finished installation, from its journal and the package manager."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.lock import document as locks
from gpustack.install.root import InstallRoot
from gpustack.install.run.state import SYSTEM, runs, state_folder, user_folder
from gpustack.install.supply.rpm_index import listed, plain
from gpustack.model.host import Host
from gpustack.model.lock import Lock, LockedPackage
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact
from gpustack.plan.managers.database import Query, is_installed, snapshot, tool_of, version_in
from gpustack.plan.managers.database import addresses as addresses_of
from gpustack.system.hashed import sha256_of_file
from gpustack.system.run import LocalRunner

FILE = "lock.json"
"""The lock of the last installation, in the state folder."""

_Which = tuple[str, str, str]
"""Kind, name and version of a package."""

_URI = re.compile(r"'([^']+)' \S+ \d+")
_NO_SOURCE = re.compile(r"Can't find a source to download version '[^']*' of '([^':]+)")


def lock_of_last_run(root: Path | None, plan: Plan, host: Host, known: Lock | None = None) -> Lock:
    """The lock of the last run: ``plan`` as it was made, ``host`` as it is now; ``known`` supplies files and checksums.

    Raises GpustackError if the package database does not answer.
    """
    target = InstallRoot(root)
    done = runs(state_folder(target))
    packages = _packages(plan, done[-1].history().brought_by if done else {}, query_in(root), target)
    if known is not None:
        there: dict[_Which, LockedPackage] = {(one.kind, one.name, one.version): one for one in known.packages}
        _demand_same_bytes(packages, there)
        packages = [there.get((one.kind, one.name, one.version), one) for one in packages]
        packages += [one for one in known.packages if one.kind == "wheel"]
    artifacts = known.artifacts if known is not None else _measure(plan, target)
    return locks.of_plan(plan, artifacts=artifacts, packages=packages, host=host)


def save_last(root: Path | None, lock: Lock) -> None:
    """Keep the lock for ``status``. Raises GpustackError."""
    locks.save(lock, state_folder(InstallRoot(root)) / FILE)


def last_lock(root: Path | None) -> Path:
    """The path of the lock of the last installation, if there was one: root's, then this user's."""
    system = InstallRoot(root).followed(f"{SYSTEM}/{FILE}")
    if root is not None or system.is_file() or os.geteuid() == 0:
        return system
    return user_folder() / FILE


def query_in(root: Path | None) -> Query:
    """Runs read-only commands in the tree."""

    def query(argv: tuple[str, ...]) -> str:
        done = LocalRunner().run(("chroot", str(root), *argv) if root else argv, timeout=120.0)
        if done.code != 0:
            msg = f"`{argv[0]}` failed: {done.error or done.err.strip()[-500:]}"
            raise GpustackError(
                msg, code="command-failed", hint="the lock is written from the package database, which must answer"
            )
        return done.out

    return query


def _demand_same_bytes(packages: Iterable[LockedPackage], known: Mapping[_Which, LockedPackage]) -> None:
    """Raise GpustackError if a package of the lock's version is another file than the lock names."""
    wrong = []
    for one in packages:
        former = known.get((one.kind, one.name, one.version))
        if former is not None and {one.sha256, former.sha256}.isdisjoint({""}) and one.sha256 != former.sha256:
            wrong.append(f"{one.name} {one.version}: sha256 {one.sha256}, in the lock {former.sha256}")
    if wrong:
        msg = "package checksums do not match the lock:\n" + "\n".join(wrong)
        raise GpustackError(
            msg,
            code="lock-mismatch",
            hint="their repository replaced them; `gpustack install --rollback` removes them",
        )


def _packages(plan: Plan, brought_by: Mapping[str, str], query: Query, target: InstallRoot) -> list[LockedPackage]:
    tool = tool_of(plan.host.os.family)
    if not tool:
        return []
    steps = _steps(plan, brought_by)
    found = []
    for key, state in snapshot(tool, query).items():
        name, _, arch = key.rpartition(":" if tool == "dpkg" else ".")
        if is_installed(tool, state) and (key in steps or name in steps):
            found.append(
                LockedPackage(
                    kind="deb" if tool == "dpkg" else "rpm",
                    name=name,
                    version=version_in(state).rpartition(",")[2],
                    arch=arch,
                    step=steps.get(key, steps.get(name, "")),
                )
            )
    return _with_files(found, query) if tool == "dpkg" else _complete_from_indexes(found, target, plan.host.arch or "")


def _steps(plan: Plan, brought_by: Mapping[str, str]) -> dict[str, str]:
    """Which step installed which package; "" for those that the plan names and that were installed already."""
    found = dict(brought_by)
    own = (step for step in plan.steps if step.kind == "install-packages" and step.component)
    for word in (word for step in own for word in step.packages):
        found.setdefault(word.partition("=")[0], "")
    return found


def _complete_from_indexes(packages: list[LockedPackage], target: InstallRoot, arch: str) -> list[LockedPackage]:
    """The packages, completed from the indexes of their repositories if all indexes agree."""
    there = listed(target, {one.name for one in packages}, arch)
    found = []
    for one in packages:
        rows = there.get((one.name, plain(one.version), one.arch), set())
        if len({row.sha256 for row in rows}) == 1:
            row = max(rows, key=lambda row: row.url)
            one = replace(one, url=row.url, sha256=row.sha256, size=row.size)  # noqa: PLW2901 (completed)
        found.append(one)
    return found


def _with_files(packages: list[LockedPackage], query: Query) -> list[LockedPackage]:
    """The packages with their addresses, sizes and checksums in apt's indexes."""
    asked = {one.name: one for one in packages}
    addresses: dict[str, str] = {}
    while asked:
        words = tuple(f"{one.name}={one.version}" for one in asked.values())
        try:
            told = query(addresses_of(words))
        except GpustackError as exc:
            gone = {name for name in _NO_SOURCE.findall(exc.message) if name in asked}
            if not gone:
                return packages
            for name in gone:
                del asked[name]
            continue
        addresses = {match[1].rpartition("/")[2]: match[1] for match in map(_URI.match, told.splitlines()) if match}
        break
    if not addresses:
        return packages
    shown = query(("apt-cache", "show", "--no-all-versions", *(f"{one.name}={one.version}" for one in asked.values())))
    facts = {}
    for block in shown.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
        facts[fields.get("Package", ""), fields.get("Version", "")] = fields
    return [_described(one, facts.get((one.name, one.version), {}), addresses) for one in packages]


def _described(package: LockedPackage, fields: dict[str, str], addresses: dict[str, str]) -> LockedPackage:
    name = fields.get("Filename", "").rpartition("/")[2]
    if name not in addresses:
        return package
    size = fields.get("Size", "")
    return replace(
        package,
        url=addresses[name],
        sha256=fields.get("SHA256", ""),
        size=int(size) if size.isdigit() else None,
    )


def _measure(plan: Plan, target: InstallRoot) -> list[Artifact]:
    """The plan's artifacts with their actual checksum and size, if they still exist."""
    found = []
    for artifact in (one for step in plan.steps for one in step.artifacts):
        place = target.followed(artifact.path)
        if artifact.sha256 or not place.is_file():
            found.append(artifact)
        else:
            found.append(replace(artifact, sha256=sha256_of_file(place), size=place.stat().st_size))
    return found
