"""Everything that would stop a run, found before its first change and reported together, each with its fix."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gpustack.error_ids import ErrorId
from gpustack.errors import GpustackError
from gpustack.install.changes.backups import remove
from gpustack.install.run import package_manager_locks as locks
from gpustack.install.run.executor import Workplace
from gpustack.install.run.touched_paths import changes_packages, places_of
from gpustack.install.supply.signatures import unsafe_entries
from gpustack.model.actions import InstallPackages, RefreshIndex, RemovePackages, Words
from gpustack.model.steps import Step
from gpustack.plan.former import actions_of, asks_repositories, packages_in
from gpustack.plan.managers import database

FLOOR = 32 * 2**20
"""Bytes that must be free on every file system that is written: journal, configuration, package database."""

_PACKAGE_FLOOR = 128 * 2**20
"""The same for unpacked packages, whose sizes only the package manager knows; it checks them itself."""


class Obstacle(Struct, frozen=True, kw_only=True):
    """One obstacle, and what to do about it."""

    what: str
    cure: str
    code: ErrorId


Check = Callable[[Workplace, list[Step]], Iterator[Obstacle]]


def demand_ready(work: Workplace, steps: list[Step]) -> None:
    """Raise GpustackError with every obstacle to these steps."""
    found = [obstacle for check in CHECKS for obstacle in check(work, steps)]
    if not found:
        return
    codes = {one.code for one in found}
    texts = [one.what for one in found]
    lines = "\n".join(f"  {text}" for text in texts)
    msg = texts[0] if len(texts) == 1 else f"{len(texts)} problems prevent the installation:\n{lines}"
    raise GpustackError(
        msg,
        code=codes.pop() if len(codes) == 1 else "not-ready",
        hint="\n".join([*dict.fromkeys(one.cure for one in found), "nothing was changed"]),
    )


def _rights(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    needs_root = not work.target.is_live or any(step.needs_root for step in steps)
    if needs_root and os.geteuid() != 0:
        yield Obstacle(what="root privileges are required", cure="run it with sudo", code="root-required")


def _room(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    wanted: dict[str, int] = {}
    for step in steps:
        for artifact in step.artifacts:
            wanted[artifact.path] = wanted.get(artifact.path, 0) + (artifact.size or 0)
        for path in places_of(step):
            wanted.setdefault(path, 0)
    if any(changes_packages(step) for step in steps):
        wanted |= {"/usr": _PACKAGE_FLOOR, "/var": _PACKAGE_FLOOR}
    systems: dict[int, tuple[str, Path, int]] = {}
    for path, size in wanted.items():
        place = work.target.followed(path)
        while not place.exists():
            place = place.parent
        device = place.stat().st_dev
        shown, first, sum_ = systems.get(device, (path, place, 0))
        systems[device] = (shown, first, max(sum_, size) if size == _PACKAGE_FLOOR else sum_ + size)
    state = work.run.folder
    systems.setdefault(state.stat().st_dev, (str(state.parent.parent), state, 0))
    for shown, place, size in systems.values():
        yield from _of_system(shown, place, size + FLOOR)


def _of_system(shown: str, place: Path, size: int) -> Iterator[Obstacle]:
    found = os.statvfs(place)
    if found.f_flag & os.ST_RDONLY:
        yield Obstacle(
            what=f"the file system of {shown} is mounted read-only",
            cure="mount it writable",
            code="read-only-file-system",
        )
    elif found.f_bavail * found.f_frsize < size:
        free = found.f_bavail * found.f_frsize // 2**20
        what = f"{shown} has {free} MiB free, and {size // 2**20} MiB are needed"
        yield Obstacle(what=what, cure=f"make room on the file system of {shown}", code="disk-full")


def _package_locks(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    if any(changes_packages(step) for step in steps):
        kept = locks.wait_until_free(work)
        if kept:
            yield Obstacle(
                what=kept,
                cure="wait for it to finish, or wait longer with --wait SECONDS",
                code="package-database-locked",
            )


def _package_database(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    if not any(changes_packages(step) for step in steps):
        return
    try:
        there = work.snapshot()
    except GpustackError as error:
        yield Obstacle(what=error.message, cure="repair the package database first", code="package-database-broken")
        return
    broken = database.broken(work.tool, there)
    # What our own interrupted step left half-way is repaired when that step restarts.
    was_ours = any(step.before is not None for step in work.history.steps.values())
    if broken and not was_ours:
        what = f"packages are installed half-way: {', '.join(sorted(broken)[:8])}"
        yield Obstacle(
            what=what,
            cure="`dpkg --configure -a` and `apt-get install --fix-broken` repair that",
            code="package-database-broken",
        )
    wanted = _collect_packages(steps)
    held = sorted(name for name, state in there.items() if " hold " in state and name.partition(":")[0] in wanted)
    if held and not was_ours:
        names = " ".join(held)
        yield Obstacle(
            what=f"packages that the plan changes are held: {names}",
            cure=f"`apt-mark unhold {names}`",
            code="packages-held",
        )


def _collect_packages(steps: list[Step]) -> set[str]:
    """The packages that the steps install or change; holds do not count."""
    names: set[str] = set()
    for action in (action for step in steps for action in actions_of(step)):
        match action:
            case InstallPackages(packages=wanted):
                names |= {one.name for one in wanted}
            case Words(argv=argv):
                names |= packages_in(argv)
            case _:
                pass
    return names


def _repositories(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    if work.tool and any(changes_packages(step) for step in steps):
        for path, why in unsafe_entries(work.target):
            yield Obstacle(
                what=f"{path}: {why}", cure="disable that entry, or configure its key", code="unsigned-repository"
            )
    for command, where in _unreachable(work, steps):
        yield Obstacle(
            what=f"a repository cannot be reached: {where}",
            cure=f"`{command}` says more",
            code="repository-unreachable",
        )


_RELEASE = re.compile(r"^'(\S+)' \S*InRelease", re.MULTILINE)
_MOST_LOOKED_AT = 12
_PROBE = "/run/gpustack-probe"
_SKIPPED = ("cdrom:", "file:", "copy:", "mirror+")


def _unreachable(work: Workplace, steps: list[Step]) -> Iterator[tuple[str, str]]:
    """The apt repositories that do not answer, tested by apt itself with its proxies and certificates."""
    if work.tool != "dpkg" or not any(_refreshes(step) for step in steps):
        return
    with suppress(GpustackError):
        told = work.query(database.INDEXES)
        for address in list(dict.fromkeys(_RELEASE.findall(told)))[:_MOST_LOOKED_AT]:
            if address.startswith(_SKIPPED):
                continue
            # Some repositories have Release and Release.gpg instead of InRelease.
            plain = f"{address.removesuffix('InRelease')}Release"
            if not any(_answers(work, one) for one in (address, plain)):
                yield "apt-get update", address


def _answers(work: Workplace, address: str) -> bool:
    words = ("/usr/lib/apt/apt-helper", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15")
    try:
        work.query((*words, "download-file", address, _PROBE))
    except GpustackError:
        return False
    finally:
        remove(work.target.followed(_PROBE))
    return True


def _refreshes(step: Step) -> bool:
    """Whether the step contacts the system's repositories; with a bundle it does not."""
    for action in actions_of(step):
        match action:
            case InstallPackages() | RemovePackages() | RefreshIndex() if not action.bundle:
                return True
            case Words(argv=argv) if asks_repositories(argv):
                return True
            case _:
                pass
    return False


def _gpu_processes(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    """Programs that use the GPU, and would lose it when its driver is replaced."""
    if not work.target.is_live or not any(step.phase == "driver" and changes_packages(step) for step in steps):
        return
    users: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for handle in folder.iterdir():
                with suppress(OSError):
                    if str(handle.readlink()).startswith("/dev/nvidia"):
                        process = int(folder.parent.name)
                        users[process] = (folder.parent / "comm").read_text(encoding="utf-8").strip()
                        break
    others = {process: name for process, name in users.items() if name != "nvidia-persiste"}
    if others:
        shown = ", ".join(f"{name} ({process})" for process, name in sorted(others.items())[:8])
        yield Obstacle(
            what=f"programs use the GPU: {shown}",
            cure="stop them first: the driver is replaced while they run",
            code="gpu-in-use",
        )


def _reboot_pending(work: Workplace, steps: list[Step]) -> Iterator[Obstacle]:
    """A running kernel that is gone from the disk: modules would be built for the wrong one."""
    if not work.target.is_live or not any(step.phase == "driver" and changes_packages(step) for step in steps):
        return
    release = os.uname().release
    if Path("/lib/modules").is_dir() and not Path(f"/lib/modules/{release}").is_dir() and _has_own_kernel():
        what = f"the running kernel {release} is no longer on the disk: a reboot is pending"
        yield Obstacle(what=what, cure="reboot first", code="reboot-required")


def _has_own_kernel() -> bool:
    """Whether this machine boots a kernel from its own disk; containers do not."""
    return any(Path("/boot").glob("vmlinuz*"))


CHECKS: tuple[Check, ...] = (
    _rights,
    _room,
    _package_locks,
    _package_database,
    _repositories,
    _gpu_processes,
    _reboot_pending,
)
"""Every check, in the order in which obstacles are reported."""
