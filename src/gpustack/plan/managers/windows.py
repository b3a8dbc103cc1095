r"""What a plan does on Windows: PowerShell commands as argument lists, and the folders that they work in.

A command is its name, then parameters, each a name of ``COMMANDS`` and, where it takes one, its value. Names with
``Stack`` are functions that the PowerShell form of a plan defines; a name that ``COMMANDS`` has not is a program.
"""

from __future__ import annotations

import re

from gpustack.model.actions import Cmdlet

ROOT = r"C:\Program Files\gpustack"
r"""Where a plan's own files lie: not in ProgramData, where every user may plant a file before we read it."""

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
    """``text`` as the name of a file: no separators, no wildcards, nothing that leads out of its folder."""
    return _UNSAFE.sub("_", text).lstrip(".") or "file"


def make_folder(path: str) -> Cmdlet:
    """Make a folder and those above it; one that is there already is left as it is."""
    return Cmdlet(argv=("New-Item", "-ItemType", "Directory", "-Path", path, "-Force"))


def mark(path: str) -> Cmdlet:
    """Leave an empty file as the sign that a step is done; the folder has to be there."""
    return Cmdlet(argv=("New-Item", "-ItemType", "File", "-Path", path, "-Force"))


def unpack(archive: str, folder: str) -> Cmdlet:
    """Unpack a zip archive into a folder."""
    return Cmdlet(argv=("Expand-Archive", "-LiteralPath", archive, "-DestinationPath", folder, "-Force"))


def assert_hash(path: str, algorithm: str, digest: str) -> Cmdlet:
    """Stop, and delete the file, when its sum is another one."""
    return Cmdlet(argv=("Assert-StackHash", "-LiteralPath", path, "-Algorithm", algorithm, "-Hash", digest))


def copy(pattern: str, folder: str) -> Cmdlet:
    """Copy what matches into a folder, over older files; an error when nothing matches."""
    return Cmdlet(argv=("Copy-StackItem", "-Path", pattern, "-Destination", folder))


def move(pattern: str, folder: str) -> Cmdlet:
    """Move what matches into a folder; what that has already stays as it is. Nothing that matches is fine."""
    return Cmdlet(argv=("Move-StackItem", "-Path", pattern, "-Destination", folder))


def rename_folder(path: str, new: str) -> Cmdlet:
    """Give a folder another name where it is there; an error when both are."""
    return Cmdlet(argv=("Rename-StackFolder", "-LiteralPath", path, "-Destination", new))


def remove(pattern: str) -> Cmdlet:
    """Delete what matches, folders with their content; nothing that matches is fine."""
    return Cmdlet(argv=("Remove-StackItem", "-Path", pattern))


def set_variable(name: str, value: str) -> Cmdlet:
    """Set an environment variable of the machine; its value before the first change is kept."""
    return Cmdlet(argv=("Set-StackVariable", "-Name", name, "-Value", value, "-Scope", SCOPE))


def restore_variable(name: str) -> Cmdlet:
    """Give an environment variable its kept value back, or delete it where it had none."""
    return Cmdlet(argv=("Restore-StackVariable", "-Name", name, "-Scope", SCOPE))


def add_path(folder: str, *, if_present: bool = False) -> Cmdlet:
    """Put a folder in front of the machine's PATH, once; with ``if_present`` only a folder that exists."""
    return Cmdlet(argv=("Add-StackPath", "-Entry", folder, "-Scope", SCOPE, *(("-IfPresent",) if if_present else ())))


def remove_path(folder: str) -> Cmdlet:
    """Take a folder off the machine's PATH, whoever put it there."""
    return Cmdlet(argv=("Remove-StackPath", "-Entry", folder, "-Scope", SCOPE))


def undo_path(folder: str) -> Cmdlet:
    """Take a folder off the machine's PATH where ``add_path`` put it there."""
    return Cmdlet(argv=("Undo-StackPath", "-Entry", folder, "-Scope", SCOPE))
