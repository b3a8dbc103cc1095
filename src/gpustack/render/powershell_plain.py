"""Commands of a Windows plan as a person types them: plain cmdlets, without the functions of the script."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.steps import Artifact
from gpustack.plan.commands import spell
from gpustack.plan.managers.windows import SCOPE
from gpustack.render.powershell import command, literal


def plain(action: AnyAction) -> list[str]:
    """One action of a plan as lines of PowerShell."""
    match action:
        case do.CopyFiles(pattern=pattern, folder=folder):
            copy = f"Copy-Item -Path {literal(pattern)} -Destination {literal(folder)} -Recurse -Force"
            return [_folder(literal(folder)), copy]
        case do.MoveFiles(pattern=pattern, folder=folder):
            move = f"Move-Item -Path {literal(pattern)} -Destination {literal(folder)}"
            return [_folder(literal(folder)), move]
        case do.RenameFolder(path=path, new=new):
            return [f"Move-Item -LiteralPath {literal(path)} -Destination {literal(new)}"]
        case do.RemoveFiles(pattern=pattern):
            return [f"Remove-Item -Path {literal(pattern)} -Recurse -Force"]
        case do.AssertSum(path=path, algorithm=algorithm, digest=digest):
            found = f"(Get-FileHash -LiteralPath {literal(path)} -Algorithm {literal(algorithm)}).Hash"
            return [f"{found} -eq {literal(digest)}  # True"]
        case do.SetVariable() | do.RestoreVariable() | do.AddPath() | do.RemovePath() | do.UndoPath():
            return [_environment(action)]
        case do.MakeFolder() | do.LeaveMark() | do.ExpandArchive():
            return [command(argv) for argv in spell(action)]
        case _:
            return [" ".join(["&", *map(literal, argv)]) for argv in spell(action)]


def download(artifact: Artifact) -> list[str]:
    """The download of one file, and the comparison that must print True."""
    path = literal(artifact.path)
    folder = literal(artifact.path.rpartition("\\")[0])
    if artifact.own_path:
        return [
            _folder(folder),
            f"Copy-Item -LiteralPath {literal(artifact.own_path)} -Destination {path}",
            f"(Get-FileHash -LiteralPath {path} -Algorithm SHA256).Hash -eq {literal(artifact.sha256)}  # True",
        ]
    lines = [_folder(folder), f"Invoke-WebRequest -Uri {literal(artifact.url)} -OutFile {path} -UseBasicParsing"]
    if artifact.sha256:
        digest = literal(artifact.sha256)
        lines.append(f"(Get-FileHash -LiteralPath {path} -Algorithm SHA256).Hash -eq {digest}  # True")
    return lines


def _folder(path: str) -> str:
    return f"$null = New-Item -ItemType Directory -Path {path} -Force"


_Variable = do.SetVariable | do.RestoreVariable | do.AddPath | do.RemovePath | do.UndoPath


def _environment(action: _Variable) -> str:
    scope = literal(SCOPE)
    match action:
        case do.SetVariable(name=name, value=value):
            return f"[Environment]::SetEnvironmentVariable({literal(name)}, {literal(value)}, {scope})"
        case do.RestoreVariable(name=name):
            return f"[Environment]::SetEnvironmentVariable({literal(name)}, $null, {scope})  # or its old value"
        case do.AddPath(folder=folder) | do.RemovePath(folder=folder) | do.UndoPath(folder=folder):
            entry, old = literal(folder), f"[Environment]::GetEnvironmentVariable('Path', {scope})"
            new = f"(({old} -split ';' | Where-Object {{ $_ -ne {entry} }}) -join ';')"
            if isinstance(action, do.AddPath):
                new = f"{entry} + ';' + {old}"
            return f"[Environment]::SetEnvironmentVariable('Path', {new}, {scope})"
