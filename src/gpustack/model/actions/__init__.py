"""What the steps of a plan do: one type for each kind of action, with exactly its own fields.

An action says what is meant. `gpustack.plan.commands` spells it for a machine, and `gpustack.plan.touched` knows
what it may change; both, and every renderer, match on the whole union.
"""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv
from gpustack.model.actions.files import (
    CheckKeyFile,
    ChooseAlternative,
    CopyTree,
    EnableSource,
    Link,
    Look,
    MakeFolders,
    Mark,
    Readable,
    RefreshLoader,
    Remove,
    StoreFile,
    TakeKey,
    TakeOut,
    Unpack,
)
from gpustack.model.actions.packages import (
    DisableRepository,
    EnableRepository,
    EnableStream,
    ExcludePackages,
    ForgetKey,
    HoldPackages,
    ImportKey,
    IncludePackages,
    InstallFile,
    InstallPackages,
    ManagerName,
    Package,
    PackageAction,
    RefreshIndex,
    RemovePackages,
    ResetStream,
    TrustLocalKeys,
    UnholdPackages,
)
from gpustack.model.actions.programs import (
    AwaitServer,
    BuildModules,
    ByHand,
    Clone,
    Configure,
    DisableService,
    EnableService,
    InstallWheels,
    Make,
    MakeVenv,
    PullImage,
    Reboot,
    RebuildInitramfs,
    RemoveContainer,
    RemoveImage,
    RemoveWheels,
    RestartService,
    Run,
    RunInstaller,
    StartContainer,
    Verify,
    Words,
)
from gpustack.model.actions.windows import (
    AddPath,
    AnyWindowsAction,
    AssertSum,
    CopyFiles,
    ExpandArchive,
    LeaveMark,
    MakeFolder,
    MoveFiles,
    RemoveFiles,
    RemovePath,
    RenameFolder,
    RestoreVariable,
    RunMsys,
    RunProgram,
    SetVariable,
    UndoPath,
    WindowsAction,
)

__all__ = [
    "Action",
    "AddPath",
    "AnyAction",
    "AnyPackageAction",
    "AnyWindowsAction",
    "Argv",
    "AssertSum",
    "AwaitServer",
    "BuildModules",
    "ByHand",
    "CheckKeyFile",
    "ChooseAlternative",
    "Clone",
    "Configure",
    "CopyFiles",
    "CopyTree",
    "DisableRepository",
    "DisableService",
    "EnableRepository",
    "EnableService",
    "EnableSource",
    "EnableStream",
    "ExcludePackages",
    "ExpandArchive",
    "ForgetKey",
    "HoldPackages",
    "ImportKey",
    "IncludePackages",
    "InstallFile",
    "InstallPackages",
    "InstallWheels",
    "LeaveMark",
    "Link",
    "Look",
    "Make",
    "MakeFolder",
    "MakeFolders",
    "MakeVenv",
    "ManagerName",
    "Mark",
    "MoveFiles",
    "Package",
    "PackageAction",
    "PullImage",
    "Readable",
    "Reboot",
    "RebuildInitramfs",
    "RefreshIndex",
    "RefreshLoader",
    "Remove",
    "RemoveContainer",
    "RemoveFiles",
    "RemoveImage",
    "RemovePackages",
    "RemovePath",
    "RemoveWheels",
    "RenameFolder",
    "ResetStream",
    "RestartService",
    "RestoreVariable",
    "Run",
    "RunInstaller",
    "RunMsys",
    "RunProgram",
    "SetVariable",
    "StartContainer",
    "StoreFile",
    "TakeKey",
    "TakeOut",
    "TrustLocalKeys",
    "UndoPath",
    "UnholdPackages",
    "Unpack",
    "Verify",
    "WindowsAction",
    "Words",
]

AnyPackageAction = (
    InstallPackages
    | InstallFile
    | RemovePackages
    | HoldPackages
    | UnholdPackages
    | RefreshIndex
    | EnableStream
    | ResetStream
    | DisableRepository
    | EnableRepository
    | ExcludePackages
    | IncludePackages
    | ImportKey
    | ForgetKey
    | TrustLocalKeys
)
"""Every action of a package manager."""

AnyAction = (
    AnyPackageAction
    | EnableSource
    | TakeKey
    | CheckKeyFile
    | StoreFile
    | Look
    | MakeFolders
    | Remove
    | Unpack
    | Readable
    | CopyTree
    | TakeOut
    | Mark
    | Link
    | ChooseAlternative
    | RefreshLoader
    | EnableService
    | DisableService
    | RestartService
    | RebuildInitramfs
    | BuildModules
    | Reboot
    | RunInstaller
    | Clone
    | Configure
    | Make
    | MakeVenv
    | InstallWheels
    | RemoveWheels
    | PullImage
    | RemoveImage
    | StartContainer
    | RemoveContainer
    | AwaitServer
    | Verify
    | Run
    | ByHand
    | Words
    | AnyWindowsAction
)
"""Every action; mypy proves that a ``match`` over it is exhaustive."""
