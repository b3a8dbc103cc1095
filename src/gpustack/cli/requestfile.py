"""gpustack.toml: requirements under ``[stack]``, long options under ``[options]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from gpustack.cli.options import EnvironmentName, Imex, KernelModule, OnOff, Policy, Stage
from gpustack.cli.stack_options import StackOptions
from gpustack.errors import DocumentError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:  # in the standard library from 3.11 on
    import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]

LARGEST = 64 << 10
"""The most bytes of such a file."""
LONGEST_LINE = 2000
"""The most characters of a line: the parser takes quadratic time for a dotted key."""


def read_request_file(path: Path, given: StackOptions) -> StackOptions:
    """Complete ``given`` with requirements and options of the file that the command line does not set.

    Raises DocumentError (exit 2) naming the key.
    """
    return completed(path, read_toml(path, "strings need quotes; tables are [stack] and [options]"), given)


def completed(path: Path, table: dict[str, Any], given: StackOptions) -> StackOptions:
    """Complete ``given`` with the tables of the file. Raises DocumentError."""
    for key in table:
        if key not in {"stack", "options"}:
            raise _fault(path, f"unknown table [{key}]", "tables are [stack] and [options]")
    requirements = requirements_of(path, table.get("stack", {}))
    options = _options(path, table.get("options", {}))
    merged = {
        **options,
        **{key: value for key, value in msgspec.structs.asdict(given).items() if value not in (None, ())},
    }
    return StackOptions(**{**merged, "requirements": given.requirements or requirements})


def read_toml(path: Path, form: str) -> dict[str, Any]:
    """The tables of a small TOML file; ``form`` is the hint if it is not one. Raises DocumentError (exit 2)."""
    try:
        # A named pipe or a device would be read forever.
        if not path.is_file():
            fault = "is not a file" if path.exists() else "does not exist"
            raise _unreadable(path, fault, "give the path of a TOML file")
        if path.stat().st_size > LARGEST:
            raise _unreadable(path, f"is larger than {LARGEST >> 10} KiB", "that is too large for a request")
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise _unreadable(path, f"cannot be read: {exc}", "give the path of a TOML file") from exc
    except (ValueError, RecursionError) as exc:
        raise _unreadable(path, f"is not TOML: {exc}", form) from exc


def parse_toml(text: str) -> dict[str, Any]:
    """The tables in ``text``. Raises ValueError, or RecursionError if it is nested too deeply."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LONGEST_LINE:
            msg = f"line {number} is longer than {LONGEST_LINE} characters"
            raise ValueError(msg)
    table: dict[str, Any] = tomllib.loads(text)
    return table


def requirements_of(path: Path, stack: object) -> tuple[str, ...]:
    """The requirements of a table of components. Raises DocumentError."""
    if not isinstance(stack, dict):
        raise _fault(path, "stack must be a table", '[stack]\ncuda = ">=12.4,<13"')
    return tuple(_requirement(path, component, specifier) for component, specifier in stack.items())


def _requirement(path: Path, component: str, versions: object) -> str:
    from gpustack.solve.requirements import component_named, specifier

    if not isinstance(versions, str):
        raise _fault(path, f"[stack] {component}: the specifier must be a string", f'{component} = ">=1"')
    text = versions.strip()
    if text == "*":
        text = ""
    try:
        name = component_named(component)
        return name + specifier(text if not text or text[0] in "=<>!~" else f"=={text}", of=name)
    except UsageError as exc:
        raise _fault(path, f"[stack] {component}: {exc.message}", exc.hint) from exc


_KINDS: dict[str, tuple[str, type]] = {
    "method": ("methods", list),
    "from": ("files", list),
    "gpu": ("gpus", list),
    "strict": ("strict", bool),
    "live": ("live", bool),
    "policy": ("policy", Policy),
    "upgrade": ("upgrades", list),
    "kernel-module": ("kernel_module", KernelModule),
    "imex": ("imex", Imex),
    "deny-vulnerable": ("deny_vulnerable", bool),
    "target": ("target", str),
    "stage": ("stage", Stage),
    "root": ("root", Path),
    "host": ("host", Path),
    "os": ("os", str),
    "arch": ("arch", str),
    "driver": ("driver", str),
    "kernel": ("kernel", str),
    "gcc": ("gcc", str),
    "clang": ("clang", str),
    "msvc": ("msvc", str),
    "glibc": ("glibc", str),
    "python": ("python", str),
    "secure-boot": ("secure_boot", OnOff),
    "environment": ("environment", EnvironmentName),
    "mig": ("mig", bool),
    "anonymous": ("anonymous", bool),
    "matrices": ("matrices", Path),
    "format": ("format", str),
    "out": ("out", Path),
    "detailed-exitcode": ("is_exit_detailed", bool),
}


def _options(path: Path, options: object) -> dict[str, Any]:
    if not isinstance(options, dict):
        raise _fault(path, "options must be a table", '[options]\npolicy = "production"')
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _KINDS:
            raise _fault(path, f"[options] {name} is not an option", f"known are {', '.join(_KINDS)}")
        field, kind = _KINDS[name]
        if kind is bool:
            if not isinstance(value, bool):
                raise _fault(path, f"[options] {name}: must be true or false", f"{name} = true")
            found[field] = value
            continue
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in values) or (kind is not list and len(values) != 1):
            raise _fault(path, f"[options] {name}: must be a string", f'{name} = "..."')
        if any("\0" in item for item in values):
            raise _fault(path, f"[options] {name}: holds a NUL character", "names and paths cannot contain one")
        try:
            found[field] = tuple(values) if kind is list else kind(values[0])
        except ValueError as exc:
            raise _fault(path, f"[options] {name}: {exc}", "`gpustack plan --help` lists the values") from exc
    return found


def _fault(path: Path, message: str, hint: str) -> DocumentError:
    return DocumentError(message, code="bad-request-file", where=str(path), hint=hint)


def _unreadable(path: Path, message: str, hint: str) -> DocumentError:
    return DocumentError(message, code="unreadable-toml", where=str(path), hint=hint)
