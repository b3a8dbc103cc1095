"""Locks: written from a plan or an installation, validated when read, and converted to a plan."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gpustack.errors import DocumentError, GpustackError
from gpustack.model.actions import AnyAction, HoldPackages, Package
from gpustack.model.conditions import Condition, conditions, spell
from gpustack.model.host import Host
from gpustack.model.lock import Lock, LockedPackage
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.plan.document import demand_sound, digest_of, digest_of_document
from gpustack.plan.former import actions_of
from gpustack.plan.installing import installs, tools_of, with_actions, with_packages
from gpustack.plan.managers import NAMES, manager
from gpustack.system.files import write_atomically
from gpustack.visible import visible_json

SCHEMA = "gpustack/lock/v1"
_HINT = "`gpustack install --lock FILE` and `gpustack fetch` write locks"


def of_plan(
    plan: Plan, *, artifacts: Iterable[Artifact] = (), packages: Iterable[LockedPackage] = (), host: Host | None = None
) -> Lock:
    """The lock of a plan: what it pins by itself, and further known packages and files."""
    pinned = {one.url: one for one in artifacts}
    own = [one for step in plan.steps for one in step.artifacts]
    lock = Lock(
        facts=plan.facts,
        stack=plan.stack,
        artifacts=tuple(dict.fromkeys(pinned.get(one.url, one) for one in own)),
        packages=tuple(packages) or tuple(_collect_named(plan)),
        host=host,
        plan=plan,
    )
    return replace(lock, digest=_digest_of(lock))


def dump(lock: Lock) -> str:
    """The document."""
    compact = msgspec.json.encode(lock, order="deterministic")
    return visible_json(msgspec.json.format(compact, indent=2).decode()) + "\n"


def save(lock: Lock, path: Path) -> None:
    """Write the lock, complete or not at all. Raises GpustackError if the place cannot be written."""
    try:
        write_atomically(path, dump(lock))
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="not-writable", where=str(path), hint="free some space, or move the existing file away"
        ) from exc


def load(path: Path) -> Lock:
    """The lock in a file. Raises DocumentError (exit 2) if it cannot be read, is not a lock, or was changed by hand."""
    if path.exists() and not path.is_file():
        msg = "is not a file"
        raise DocumentError(msg, code="unreadable-lock", where=str(path), hint=_HINT)
    try:
        raw = path.read_bytes()
    except OSError as exc:
        msg = f"cannot be read: {exc.strerror or exc}"
        raise DocumentError(msg, code="unreadable-lock", where=str(path), hint=_HINT) from exc
    return parse(raw, str(path))


def parse(raw: bytes, where: str) -> Lock:
    """The lock in the bytes ``raw``; ``where`` names them in errors. Raises DocumentError as ``load`` does."""
    try:
        document = msgspec.json.decode(raw)
        lock = msgspec.convert(document, Lock)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        msg = f"is not a lock file: {exc}"
        raise DocumentError(msg, code="unreadable-lock", where=where, hint=_HINT) from exc
    written = (lock.digest, lock.plan.digest)
    # An earlier edition wrote fewer fields: accept the document as it was written, too.
    if written != (_digest_of(lock), digest_of(lock.plan)) and written != (
        digest_of_document(document),
        digest_of_document(document["plan"]),
    ):
        msg = "was changed after it was written: its digest does not match its content"
        raise DocumentError(msg, code="unreadable-lock", where=where, hint=_HINT)
    try:
        for plan in (lock.plan, locked_plan(lock)):
            demand_sound(plan, where)
    except DocumentError as exc:
        msg = f"its plan cannot be carried out: {exc.message}"
        raise DocumentError(msg, code="unreadable-lock", where=where, hint=_HINT) from exc
    return lock


def is_lock(path: Path) -> bool:
    """Whether a file claims to be a lock; only regular files are read, since others could block forever."""
    try:
        document = msgspec.json.decode(path.read_bytes()) if path.is_file() else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def locked_plan(lock: Lock) -> Plan:
    """The plan of a lock, fully pinned: checksums of every file, versions of every package and its dependencies."""
    sums = {one.url: one for one in lock.artifacts}
    packages = {one.name: one for one in lock.packages if one.kind != "wheel"}
    steps = tuple(_pinned(step, sums, packages) for step in lock.plan.steps)
    plan = replace(lock.plan, steps=steps)
    return replace(plan, digest=digest_of(plan))


def _pinned(step: Step, sums: dict[str, Artifact], packages: dict[str, LockedPackage]) -> Step:
    """The step, pinned exactly. Its id stays, because others name it in ``depends_on``."""
    brought = [one for one in packages.values() if one.step == step.id]
    artifacts = [sums.get(one.url, one) for one in step.artifacts]
    actions = list(actions_of(step))
    places = [number for number, action in enumerate(actions) if installs(action)]
    for number in reversed(places):
        is_last = number == places[-1]
        files = {one.name: _file(one) for one in brought if _is_file(one)} if is_last else {}
        artifacts += files.values()
        own = brought if is_last else []
        actions[number : number + 1] = _exact(actions[number], packages, own, files)
    done_when = _all_there(step.done_when, brought)
    return replace(with_actions(step, actions), artifacts=tuple(artifacts), done_when=done_when)


def _all_there(done_when: str, brought: list[LockedPackage]) -> str:
    """The condition that a step that installs packages is done: its own, and each package in its version.

    A step that is never known to be done does more than that.
    """
    there = (Condition("package", (one.name, one.version.rpartition(":")[2])) for one in brought)
    told = conditions(done_when)
    return spell(*told, *there) if brought and told else done_when


def _is_file(package: LockedPackage) -> bool:
    """Whether the file can be downloaded again and verified by its checksum."""
    return bool(package.sha256) and package.url.startswith(("https://", "http://"))


def _file(package: LockedPackage) -> Artifact:
    path = f"{_LOCKED}/{package.url.rpartition('/')[2]}"
    return Artifact(url=package.url, path=path, sha256=package.sha256, size=package.size)


_LOCKED = "/var/cache/gpustack/locked"


def _exact(
    action: AnyAction,
    packages: dict[str, LockedPackage],
    brought: list[LockedPackage],
    files: dict[str, Artifact],
) -> list[AnyAction]:
    """The action with files if known and versions otherwise, for everything that it installs."""

    def exact(wanted: list[Package]) -> list[Package]:
        found = [_with_version(one, packages) for one in wanted if one.name not in files]
        known = {one.name for one in found}
        found += [_as_locked(one) for one in brought if one.name not in {*files, *known}]
        return [*found, *(Package(name=one.path) for one in files.values())]

    if not isinstance(action, HoldPackages):
        return [with_packages(action, exact)]
    # The tools of a hold are installed before it, as exactly as all else.
    return [with_packages(tools_of(action), exact), action]


def _as_locked(package: LockedPackage) -> Package:
    return Package(name=package.name, pin=package.version)


def _with_version(package: Package, packages: dict[str, LockedPackage]) -> Package:
    known = packages.get(package.name)
    return package if known is None else _as_locked(known)


def _collect_named(plan: Plan) -> Iterable[LockedPackage]:
    """The packages that the plan itself names with a full version."""
    kind = "deb" if plan.host.os.family == "apt" else "rpm"
    tool = manager(plan.host.os.family) if plan.host.os.family in NAMES else None
    for step in plan.steps:
        if step.kind != "install-packages" or not step.component or tool is None:
            continue
        for package in map(tool.read, step.packages):
            if package.pin and "*" not in package.pin:
                yield LockedPackage(kind=kind, name=package.name, version=package.pin)  # type: ignore[arg-type]  # one of both


def _digest_of(lock: Lock) -> str:
    return digest_of_document(msgspec.to_builtins(lock))
