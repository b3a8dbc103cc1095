"""The records of a journal: one kind for each event in a run, distinguished by their ``event``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpustack.plan.managers.database import Snapshot

Outcome = Literal["done", "failed", "interrupted", "paused", "skipped"]


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place in the file tree in a former state: ``kind`` "" is absent; ``kept`` names the copy of its content.

    ``sum`` is the checksum of a small file's content, "" if it was not read; while its ``ctime`` (the last change of
    any kind, in ns like ``mtime``) stays, so does the content. ``attributes`` are the extended attributes, including
    ACLs, SELinux label and capabilities. For a file with several names ``disk`` is the number of its file system: names
    with the same ``disk`` and ``inode`` are one file; ``links`` is the number of names, or of the kept ones. ``type``
    (as in st_mode) and ``device`` are for kind "other": pipe, socket, device. Names and links are in the form of
    ``names.safe``.
    """

    kind: Literal["", "file", "dir", "link", "other"] = ""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0
    link: str = ""
    kept: str = ""
    sum: str = ""
    attributes: dict[str, bytes] = {}
    links: int = 1
    disk: int = 0
    type: int = 0
    device: int = 0


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options that a run began with, if they were named; a resumed run uses the same.

    ``mirrors`` may contain passwords. ``bundle``, ``lock`` (the file to write), ``source`` (the lock that the plan came
    from) and ``matrices`` are absolute paths, "" without one; ``fingerprint`` is that of the bundle's key, ``wait`` is
    in seconds, ``min_speed`` in KiB a second.
    """

    mirrors: dict[str, str] = {}
    bundle: str = ""
    lock: str = ""
    source: str = ""
    matrices: str = ""
    fingerprint: str = ""
    reboot: Literal["", "now", "ask", "never"] = ""
    wait: float | None = None
    min_speed: float | None = None

    def or_else(self, former: Origin) -> Origin:
        """Itself, completed from ``former``."""
        return Origin(
            mirrors=self.mirrors or former.mirrors,
            bundle=self.bundle or former.bundle,
            lock=self.lock or former.lock,
            source=self.source or former.source,
            matrices=self.matrices or former.matrices,
            fingerprint=self.fingerprint or former.fingerprint,
            reboot=self.reboot or former.reboot,
            wait=former.wait if self.wait is None else self.wait,
            min_speed=former.min_speed if self.min_speed is None else self.min_speed,
        )


class _Stamped(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """When a record was written, and the kernel's id of that boot ("" if unknown)."""

    at: str = ""
    boot: str = ""


class OriginNoted(_Stamped, frozen=True, tag="origin"):
    """The options of the run from here on."""

    origin: Origin


class RunBegun(_Stamped, frozen=True, tag="run"):
    """The packages before the first change."""

    packages: Snapshot = {}


class PolicySet(_Stamped, frozen=True, tag="policy"):
    """The tree is about to get a policy against starting services."""


class StepBegun(_Stamped, frozen=True, tag="start"):
    """``before`` are the states of places ahead of the step, as far as no earlier record has them.

    ``packages`` maps packages to states that differ from `RunBegun` ("": gone), None if the step changes none.
    """

    step: str
    before: dict[str, Entry] = {}
    packages: Snapshot | None = None


class CommandBegun(_Stamped, frozen=True, tag="command"):
    """The process of a command, the leader of its process group; ``born`` is in clock ticks after the boot."""

    step: str = ""
    argv: tuple[str, ...] = ()
    pid: int = 0
    born: int = 0


class StepEnded(_Stamped, frozen=True, tag="end"):
    """``changed`` are the states of places after the step, ``packages`` as in `StepBegun`.

    ``brought`` names the listings of the folders that the run created and the step may have filled.
    """

    step: str
    outcome: Outcome
    reason: str = ""
    tail: str = ""
    seconds: float = 0.0
    changed: dict[str, Entry] = {}
    brought: dict[str, str] = {}
    packages: Snapshot | None = None


class RunFinished(_Stamped, frozen=True, tag="finished"):
    """Every step is done."""


class RollbackBegun(_Stamped, frozen=True, tag="rollback"):
    """``found`` are places that others changed since the run's last change, with contents kept."""

    found: dict[str, Entry] = {}


class UndoBegun(_Stamped, frozen=True, tag="undo"):
    """A step is about to be undone; ``found`` as in `RollbackBegun`, or when a run restarts a failed step."""

    step: str
    found: dict[str, Entry] = {}


class UndoFailed(_Stamped, frozen=True, tag="undo-failed"):
    """The undo failed; ``changed`` are the states of places after the attempt."""

    step: str
    reason: str = ""
    changed: dict[str, Entry] = {}


class Undone(_Stamped, frozen=True, tag="undone"):
    """Nothing is left of the step, as if it had never begun.

    ``changed`` are the states of places of other steps after its undo.
    """

    step: str
    changed: dict[str, Entry] = {}


class RolledBack(_Stamped, frozen=True, tag="rolled-back"):
    """Every step is undone; ``left`` are sentences on remaining differences from before the run."""

    left: tuple[str, ...] = ()


Record = (
    OriginNoted
    | RunBegun
    | PolicySet
    | StepBegun
    | CommandBegun
    | StepEnded
    | RunFinished
    | RollbackBegun
    | UndoBegun
    | UndoFailed
    | Undone
    | RolledBack
)
