"""gpustack.toml: requirements under ``[stack]``, long options under ``[options]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from gpustack.cli.asking import Asked
from gpustack.cli.options import KernelModule, Policy
from gpustack.errors import DocumentError

if sys.version_info >= (3, 11):
    import tomllib
else:  # the standard library has it from 3.11 on
    import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]

LARGEST = 1 << 20


def read_request_file(path: Path, given: Asked) -> Asked:
    """``given`` with the file's requirements and options where the command line gave none.

    Raises DocumentError (exit 2) naming the key.
    """
    table = _parse(path)
    for key in table:
        if key not in {"stack", "options"}:
            raise _fault(path, f"unknown table [{key}]", "tables are [stack] and [options]")
    requirements = _requirements(path, table.get("stack", {}))
    options = _options(path, table.get("options", {}))
    merged = {
        **options,
        **{key: value for key, value in msgspec.structs.asdict(given).items() if value not in (None, ())},
    }
    return Asked(**{**merged, "requirements": given.requirements or requirements})


def _parse(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise _fault(path, "is larger than 1 MiB", "a request is a few lines")
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise _fault(path, f"cannot be read: {exc}", "give the path of a gpustack.toml") from exc
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise _fault(path, f"is not TOML: {exc}", "strings stand in quotes; tables are [stack] and [options]") from exc
    return table


def _requirements(path: Path, stack: object) -> tuple[str, ...]:
    if not isinstance(stack, dict):
        raise _fault(path, "stack has to be a table", '[stack]\ncuda = ">=12.4,<13"')
    found = []
    for component, specifier in stack.items():
        if not isinstance(specifier, str):
            raise _fault(path, f"[stack] {component}: the specifier has to be a string", f'{component} = ">=1"')
        text = specifier.strip()
        found.append(component if text in {"", "*"} else f"{component}{text if text[0] in '=<>!~' else f'=={text}'}")
    return tuple(found)


_KINDS: dict[str, tuple[str, type]] = {
    "method": ("methods", list),
    "gpu": ("gpus", list),
    "policy": ("policy", Policy),
    "kernel-module": ("kernel_module", KernelModule),
    "target": ("target", str),
    "root": ("root", Path),
    "host": ("host", Path),
    "os": ("os", str),
    "arch": ("arch", str),
    "driver": ("driver", str),
}


def _options(path: Path, options: object) -> dict[str, Any]:
    if not isinstance(options, dict):
        raise _fault(path, "options has to be a table", '[options]\npolicy = "production"')
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _KINDS:
            raise _fault(path, f"[options] {name} is not an option", f"known are {', '.join(_KINDS)}")
        field, kind = _KINDS[name]
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in values) or (kind is not list and len(values) != 1):
            raise _fault(path, f"[options] {name}: has to be a string", f'{name} = "..."')
        try:
            found[field] = tuple(values) if kind is list else kind(values[0])
        except ValueError as exc:
            raise _fault(path, f"[options] {name}: {exc}", "`gpustack plan --help` lists the values") from exc
    return found


def _fault(path: Path, message: str, hint: str) -> DocumentError:
    return DocumentError(message, where=str(path), hint=hint)
