"""Commands of a Windows plan as a person types them: plain cmdlets, without the functions of the script."""

from __future__ import annotations

from gpustack.model.steps import Artifact
from gpustack.plan.managers.windows import COMMANDS
from gpustack.render.powershell import literal


def plain(argv: tuple[str, ...]) -> list[str]:
    """One command of a plan as lines of PowerShell."""
    name, *words = argv
    if name not in COMMANDS:
        return [" ".join(["&", literal(name), *map(literal, words)])]
    values = _values(name, words)
    path, target = values.get("-Path", ""), values.get("-Destination", "")
    match name:
        case "Copy-StackItem":
            return [_folder(target), f"Copy-Item -Path {path} -Destination {target} -Recurse -Force"]
        case "Move-StackItem":
            return [_folder(target), f"Move-Item -Path {path} -Destination {target}"]
        case "Rename-StackFolder":
            return [f"Move-Item -LiteralPath {values['-LiteralPath']} -Destination {target}"]
        case "Remove-StackItem":
            return [f"Remove-Item -Path {path} -Recurse -Force"]
        case "Assert-StackHash":
            file, algorithm = values["-LiteralPath"], values["-Algorithm"]
            return [f"(Get-FileHash -LiteralPath {file} -Algorithm {algorithm}).Hash -eq {values['-Hash']}  # True"]
        case _ if name.endswith(("Variable", "Path")):
            return _environment(name, values)
        case _:
            return [" ".join([name, *(f"{key} {value}".rstrip() for key, value in values.items())])]


def download(artifact: Artifact) -> list[str]:
    """The download of one file, and the comparison that has to say True."""
    path = literal(artifact.path)
    folder = literal(artifact.path.rpartition("\\")[0])
    lines = [_folder(folder), f"Invoke-WebRequest -Uri {literal(artifact.url)} -OutFile {path} -UseBasicParsing"]
    if artifact.sha256:
        digest = literal(artifact.sha256)
        lines.append(f"(Get-FileHash -LiteralPath {path} -Algorithm SHA256).Hash -eq {digest}  # True")
    return lines


def _values(name: str, words: list[str]) -> dict[str, str]:
    """The parameters of a command with their values as literals; a switch has ""."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        found[word] = literal(next(rest, "")) if COMMANDS[name].get(word) else ""
    return found


def _folder(path: str) -> str:
    return f"$null = New-Item -ItemType Directory -Path {path} -Force"


def _environment(name: str, values: dict[str, str]) -> list[str]:
    scope = values.get("-Scope", "'Machine'")
    if name == "Set-StackVariable":
        return [f"[Environment]::SetEnvironmentVariable({values['-Name']}, {values['-Value']}, {scope})"]
    if name == "Restore-StackVariable":
        return [f"[Environment]::SetEnvironmentVariable({values['-Name']}, $null, {scope})  # or its old value"]
    entry = values["-Entry"]
    old = f"[Environment]::GetEnvironmentVariable('Path', {scope})"
    if name == "Add-StackPath":
        new = f"{entry} + ';' + {old}"
    else:
        new = f"(({old} -split ';' | Where-Object {{ $_ -ne {entry} }}) -join ';')"
    return [f"[Environment]::SetEnvironmentVariable('Path', {new}, {scope})"]
