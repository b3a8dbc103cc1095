"""What a journal holds: one kind of record for each thing that happens in a run, told apart by their ``event``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpustack.plan.managers.database import Snapshot

Outcome = Literal["done", "failed", "interrupted", "paused", "skipped"]


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place in the file tree as it was: ``kind`` "" is absent; ``kept`` names the copy of its content.

    ``sum`` is the checksum of a small file's content, "" where it was not read; while its ``ctime`` (the last change of
    any kind, in ns as ``mtime``) stays, so does the content. ``attributes`` are the extended attributes: ACLs, SELinux
    label and capabilities among them. A file of several names has the number of its file system in ``disk``: names of
    one ``disk`` and ``inode`` are one file; ``links`` is their number, of what was kept those that were kept. ``type``
    (as in st_mode) and ``device`` are those of kind "other": pipe, socket, device. Names and links are as
    ``names.safe`` writes them.
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
    """The options that a run was begun with, as far as they were named; a run goes on with the same.

    ``mirrors`` may hold passwords. ``bundle``, ``lock`` (the file to be written), ``source`` (the lock that the plan
    came from) and ``matrices`` are absolute paths, "" where there is none; ``fingerprint`` is that of the bundle's key,
    ``wait`` is in seconds, ``min_speed`` in KiB a second.
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
        """Itself, with what it does not name taken from ``former``."""
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
    """When a record was written, and the kernel's id of the boot that it was written in ("" where there is none)."""

    at: str = ""
    boot: str = ""


class OriginNoted(_Stamped, frozen=True, tag="origin"):
    """The options of the run from here on."""

    origin: Origin


class RunBegun(_Stamped, frozen=True, tag="run"):
    """The packages before the first change."""

    packages: Snapshot = {}


class PolicySet(_Stamped, frozen=True, tag="policy"):
    """The tree is about to get a policy that no service is started."""


class StepBegun(_Stamped, frozen=True, tag="start"):
    """``before`` are places as they are ahead of the step, as far as no former record has them so.

    ``packages`` maps packages to their states as they differ from `RunBegun` ("": gone), None where the step changes
    none.
    """

    step: str
    before: dict[str, Entry] = {}
    packages: Snapshot | None = None


class CommandBegun(_Stamped, frozen=True, tag="command"):
    """The process of a command, the head of a group of its own; ``born`` is in clock ticks after the boot."""

    step: str = ""
    argv: tuple[str, ...] = ()
    pid: int = 0
    born: int = 0


class StepEnded(_Stamped, frozen=True, tag="end"):
    """``changed`` are places as the step left them, ``packages`` as in `StepBegun`.

    ``brought`` names the listings of the folders that the run made, as far as the step may have filled them.
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
    """``found`` are places that somebody else changed since the run did its last change, their contents kept."""

    found: dict[str, Entry] = {}


class UndoBegun(_Stamped, frozen=True, tag="undo"):
    """A step is about to be undone; ``found`` as in `RollbackBegun`, where a run begins a failed step anew."""

    step: str
    found: dict[str, Entry] = {}


class UndoFailed(_Stamped, frozen=True, tag="undo-failed"):
    """It could not be; ``changed`` are places as the attempt left them."""

    step: str
    reason: str = ""
    changed: dict[str, Entry] = {}


class Undone(_Stamped, frozen=True, tag="undone"):
    """Nothing is left of the step: as if it had never been begun.

    ``changed`` are places of other steps as its undoing left them.
    """

    step: str
    changed: dict[str, Entry] = {}


class RolledBack(_Stamped, frozen=True, tag="rolled-back"):
    """Every step is undone; ``left`` are sentences on what differs from before the run all the same."""

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
