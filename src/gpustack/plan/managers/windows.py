r"""The actions of a plan on Windows: PowerShell commands as argument lists, and their folders.

A command is its name, then parameters, each a name of ``COMMANDS`` and, where it takes one, its value. Names with
``Stack`` are functions that the PowerShell form of a plan defines; a name that is not in ``COMMANDS`` is a program.
"""

from __future__ import annotations

import re

from gpustack.model import actions as do
from gpustack.model.actions import Argv

ROOT = r"C:\Program Files\gpustack"
r"""The folder of a plan's own files: not in ProgramData, where every user may plant a file before we read it."""

CACHE = rf"{ROOT}\cache"
STATE = rf"{ROOT}\state"
UNPACKED = rf"{ROOT}\unpacked"
TOOLKITS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"
NVIDIA = r"C:\Program Files\NVIDIA"
SCOPE = "Machine"
"""The scope of every variable: the whole machine, as the vendor's installers set them."""

COMMANDS: dict[str, dict[str, bool]] = {
    "New-Item": {"-ItemType": True, "-Path": True, "-Force": False},
    "Expand-Archive": {"-LiteralPath": True, "-DestinationPath": True, "-Force": False},
    "Assert-StackHash": {"-LiteralPath": True, "-Algorithm": True, "-Hash": True},
    "Copy-StackItem": {"-Path": True, "-Destination": True},
    "Move-StackItem": {"-Path": True, "-Destination": True},
    "Rename-StackFolder": {"-LiteralPath": True, "-Destination": True},
    "Remove-StackItem": {"-Path": True},
    "Set-StackVariable": {"-Name": True, "-Value": True, "-Scope": True},
    "Restore-StackVariable": {"-Name": True, "-Scope": True},
    "Add-StackPath": {"-Entry": True, "-Scope": True, "-IfPresent": False},
    "Remove-StackPath": {"-Entry": True, "-Scope": True},
    "Undo-StackPath": {"-Entry": True, "-Scope": True},
}
"""The commands of a Windows plan with their parameters: True where a value follows."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")


def safe_name(text: str) -> str:
    """Return ``text`` as a safe file name: no separators, no wildcards, nothing that leaves its folder."""
    return _UNSAFE.sub("_", text).lstrip(".") or "file"


def commands(action: do.AnyWindowsAction) -> tuple[Argv, ...]:  # noqa: C901, PLR0911, PLR0912 (one for each action)
    """The commands of an action for Windows."""
    match action:
        case do.MakeFolder(path=path):
            return (("New-Item", "-ItemType", "Directory", "-Path", path, "-Force"),)
        case do.LeaveMark(path=path):
            return (("New-Item", "-ItemType", "File", "-Path", path, "-Force"),)
        case do.ExpandArchive(archive=archive, folder=folder):
            return (("Expand-Archive", "-LiteralPath", archive, "-DestinationPath", folder, "-Force"),)
        case do.AssertSum(path=path, algorithm=algorithm, digest=digest):
            return (("Assert-StackHash", "-LiteralPath", path, "-Algorithm", algorithm, "-Hash", digest),)
        case do.CopyFiles(pattern=pattern, folder=folder):
            return (("Copy-StackItem", "-Path", pattern, "-Destination", folder),)
        case do.MoveFiles(pattern=pattern, folder=folder):
            return (("Move-StackItem", "-Path", pattern, "-Destination", folder),)
        case do.RenameFolder(path=path, new=new):
            return (("Rename-StackFolder", "-LiteralPath", path, "-Destination", new),)
        case do.RemoveFiles(pattern=pattern):
            return (("Remove-StackItem", "-Path", pattern),)
        case do.SetVariable(name=name, value=value):
            return (("Set-StackVariable", "-Name", name, "-Value", value, "-Scope", SCOPE),)
        case do.RestoreVariable(name=name):
            return (("Restore-StackVariable", "-Name", name, "-Scope", SCOPE),)
        case do.AddPath(folder=folder, if_present=if_present):
            return (("Add-StackPath", "-Entry", folder, "-Scope", SCOPE, *(("-IfPresent",) if if_present else ())),)
        case do.RemovePath(folder=folder):
            return (("Remove-StackPath", "-Entry", folder, "-Scope", SCOPE),)
        case do.UndoPath(folder=folder):
            return (("Undo-StackPath", "-Entry", folder, "-Scope", SCOPE),)
        case do.RunProgram(argv=argv):
            return (argv,)
        case do.RunMsys(bash=bash, script=script):
            return ((bash, "--login", script),)
