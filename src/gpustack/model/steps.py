"""The steps of a plan, as data. A step downloads artifacts, writes files, then runs actions; it has no shell lines."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from gpustack.model.actions import AnyAction

Kind = Literal[
    "note",
    "add-repository",
    "refresh-index",
    "install-packages",
    "remove-packages",
    "hold-packages",
    "download",
    "extract",
    "write-file",
    "make-link",
    "set-environment",
    "pip-install",
    "build",
    "run",
    "load-module",
    "rebuild-initramfs",
    "enable-service",
    "manual",
    "reboot",
]


class Artifact(Struct, frozen=True, kw_only=True):
    """One file that a step downloads. ``sha256`` is empty only if nobody publishes one; ``size`` is in bytes.

    A ``url`` that begins with file:// is a file that the user has downloaded, at this place of the host.
    """

    url: str
    path: str
    sha256: str = ""
    size: int | None = None
    fingerprint: str = ""

    @property
    def own_path(self) -> str:
        """Where the user has the file; "" where it is downloaded."""
        if not self.url.startswith("file://"):
            return ""
        from urllib.parse import unquote  # noqa: PLC0415 (most files are downloaded)

        return unquote(self.url.removeprefix("file://"))


class FileWrite(Struct, frozen=True, kw_only=True):
    """One file that a step writes as a whole."""

    path: str
    content: str
    mode: str = "0644"


class PackageSource(Struct, frozen=True, kw_only=True):
    """A package repository as data, for formats with a native form for it.

    ``file`` is the name of its file without extension, ``arch`` the package manager's word ("" for all). ``keyring``
    holds the key with this ``fingerprint``; ``key`` is that key itself, armoured, "" where the facts have no text of
    it. ``preferences`` is a file that belongs to it.
    """

    name: str
    file: str
    url: str
    keyring: str
    arch: str = ""
    fingerprint: str = ""
    key: str = ""
    preferences: FileWrite | None = None


class Step(Struct, frozen=True, kw_only=True):
    """One step. ``id`` is derived from the content, so a changed version is another step.

    ``artifacts`` are downloaded, then ``files`` written, then ``actions`` run, each in order;
    ``undo_actions`` undo the step; if nothing can, they are empty and ``undo_note`` says why. ``commands``, ``undo``
    and ``packages`` spell them out for people and other programs: `gpustack.plan.commands` derives them, and
    a plan in which they differ from what is derived is refused. A step of the first edition, or written by hand, has
    commands and no actions: `gpustack.plan.former` reads both. ``kind`` names the step for people and for filters.

    ``done_when`` tells an installer that nothing is left to do: "never", or conditions that must
    all hold, one per line, in the words of ``gpustack.model.conditions`` ("package NAME VERSION", "path PATH", ...).

    On Windows a command is a PowerShell command: its name, then parameters, each its name ("-LiteralPath") and,
    unless it is a switch, its value. ``gpustack.plan.managers.windows.COMMANDS`` lists them; other words are
    programs.
    """

    id: str
    component: str
    kind: Kind
    title: str
    why: str
    commands: tuple[tuple[str, ...], ...] = ()
    files: tuple[FileWrite, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    packages: tuple[str, ...] = ()
    needs_root: bool = True
    reboot_after: bool = False
    depends_on: tuple[str, ...] = ()
    undo: tuple[tuple[str, ...], ...] = ()
    undo_note: str = ""
    done_when: str = "never"
    phase: str = ""
    sources: tuple[str, ...] = ()
    repository: PackageSource | UnsetType = UNSET
    actions: tuple[AnyAction, ...] | UnsetType = UNSET
    undo_actions: tuple[AnyAction, ...] | UnsetType = UNSET
