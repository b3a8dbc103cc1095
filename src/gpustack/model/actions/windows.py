"""Actions on Windows, which PowerShell applies to the whole machine."""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv


class WindowsAction(Action, frozen=True, kw_only=True):
    """The base of the actions for Windows."""


class MakeFolder(WindowsAction, frozen=True, kw_only=True):
    """Create a folder and its parents; an existing one stays as it is."""

    path: str


class LeaveMark(WindowsAction, frozen=True, kw_only=True):
    """Leave an empty file as the sign that a step is done; its folder must exist."""

    path: str


class ExpandArchive(WindowsAction, frozen=True, kw_only=True):
    """Unpack a zip archive into a folder."""

    archive: str
    folder: str


class AssertSum(WindowsAction, frozen=True, kw_only=True):
    """Stop, and delete the file, unless its checksum matches."""

    path: str
    algorithm: str
    digest: str


class CopyFiles(WindowsAction, frozen=True, kw_only=True):
    """Copy what matches a pattern into a folder, overwriting older files; an error if nothing matches."""

    pattern: str
    folder: str


class MoveFiles(WindowsAction, frozen=True, kw_only=True):
    """Move what matches a pattern into a folder; existing files stay. No match is fine."""

    pattern: str
    folder: str


class RenameFolder(WindowsAction, frozen=True, kw_only=True):
    """Rename a folder if it exists; an error if both names do."""

    path: str
    new: str


class RemoveFiles(WindowsAction, frozen=True, kw_only=True):
    """Delete what matches a pattern, folders with their content; no match is fine."""

    pattern: str


class SetVariable(WindowsAction, frozen=True, kw_only=True):
    """Set an environment variable of the machine; its value before the first change is kept."""

    name: str
    value: str


class RestoreVariable(WindowsAction, frozen=True, kw_only=True):
    """Restore an environment variable from its kept value, or delete it if it had none."""

    name: str


class AddPath(WindowsAction, frozen=True, kw_only=True):
    """Prepend a folder to the machine's PATH, once; with ``if_present`` only if it exists."""

    folder: str
    if_present: bool = False


class RemovePath(WindowsAction, frozen=True, kw_only=True):
    """Remove a folder from the machine's PATH, whatever its origin."""

    folder: str


class UndoPath(WindowsAction, frozen=True, kw_only=True):
    """Remove a folder from the machine's PATH if ``AddPath`` put it there."""

    folder: str


class RunProgram(WindowsAction, frozen=True, kw_only=True):
    """Run a program with its arguments."""

    argv: Argv


class RunMsys(WindowsAction, frozen=True, kw_only=True):
    """Run a bash script of the plan in its private MSYS2; ``packages`` are the MSYS2 packages that it installs."""

    bash: str
    script: str
    packages: tuple[str, ...] = ()


AnyWindowsAction = (
    MakeFolder
    | LeaveMark
    | ExpandArchive
    | AssertSum
    | CopyFiles
    | MoveFiles
    | RenameFolder
    | RemoveFiles
    | SetVariable
    | RestoreVariable
    | AddPath
    | RemovePath
    | UndoPath
    | RunProgram
    | RunMsys
)
"""Every action for Windows."""
