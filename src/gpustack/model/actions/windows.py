"""What is done on Windows, where PowerShell does it for the whole machine."""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv


class WindowsAction(Action, frozen=True, kw_only=True):
    """The base of the actions for Windows."""


class MakeFolder(WindowsAction, frozen=True, kw_only=True):
    """Make a folder and those above it; one that is there already is left as it is."""

    path: str


class LeaveMark(WindowsAction, frozen=True, kw_only=True):
    """Leave an empty file as the sign that a step is done; its folder has to be there."""

    path: str


class ExpandArchive(WindowsAction, frozen=True, kw_only=True):
    """Unpack a zip archive into a folder."""

    archive: str
    folder: str


class AssertSum(WindowsAction, frozen=True, kw_only=True):
    """Stop, and delete the file, when its sum is another one."""

    path: str
    algorithm: str
    digest: str


class CopyFiles(WindowsAction, frozen=True, kw_only=True):
    """Copy what matches a pattern into a folder, over older files; an error when nothing matches."""

    pattern: str
    folder: str


class MoveFiles(WindowsAction, frozen=True, kw_only=True):
    """Move what matches a pattern into a folder; what that has already stays. Nothing that matches is fine."""

    pattern: str
    folder: str


class RenameFolder(WindowsAction, frozen=True, kw_only=True):
    """Give a folder another name where it is there; an error when both are."""

    path: str
    new: str


class RemoveFiles(WindowsAction, frozen=True, kw_only=True):
    """Delete what matches a pattern, folders with their content; nothing that matches is fine."""

    pattern: str


class SetVariable(WindowsAction, frozen=True, kw_only=True):
    """Set an environment variable of the machine; its value before the first change is kept."""

    name: str
    value: str


class RestoreVariable(WindowsAction, frozen=True, kw_only=True):
    """Give an environment variable its kept value back, or delete it where it had none."""

    name: str


class AddPath(WindowsAction, frozen=True, kw_only=True):
    """Put a folder in front of the machine's PATH, once; with ``if_present`` only a folder that exists."""

    folder: str
    if_present: bool = False


class RemovePath(WindowsAction, frozen=True, kw_only=True):
    """Take a folder off the machine's PATH, whoever put it there."""

    folder: str


class UndoPath(WindowsAction, frozen=True, kw_only=True):
    """Take a folder off the machine's PATH where ``AddPath`` put it there."""

    folder: str


class RunProgram(WindowsAction, frozen=True, kw_only=True):
    """Run a program with its arguments."""

    argv: Argv


class RunMsys(WindowsAction, frozen=True, kw_only=True):
    """Run a bash script of the plan in its own MSYS2; ``packages`` are those of MSYS2 that it installs."""

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
