"""Conditions by which a step is known to be done: what each kind of step leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpustack.digests import sha256_hex
from gpustack.model.actions import Package
from gpustack.model.conditions import NEVER, Condition, spell
from gpustack.model.steps import FileWrite
from gpustack.plan.managers.base import Manager

_EPOCH = re.compile(r"\d+:")


def packages(tool: Manager, wanted: Iterable[Package]) -> str:
    """All of these packages are installed, those with a pin in that version."""
    return spell(*(_package(tool, one) for one in wanted))


def names(tool: Manager, wanted: Iterable[str]) -> str:
    """All of these packages are installed, in any version."""
    return packages(tool, [Package(name=name) for name in wanted])


def _package(tool: Manager, one: Package) -> Condition:
    provided = tool.provides(one.name)
    if provided is not None:
        return provided
    pin = _EPOCH.sub("", one.pin.removesuffix("-*").removesuffix("*"), count=1)
    return Condition("package", (one.name, pin) if pin else (one.name,))


def absent(wanted: Iterable[str]) -> str:
    """None of these packages is installed."""
    return spell(*(Condition("absent", (name,)) for name in wanted))


def held(wanted: Iterable[str]) -> str:
    """All of these packages are held at their version."""
    return spell(*(Condition("held", (name,)) for name in wanted))


def files(written: Iterable[FileWrite]) -> str:
    """Every file has exactly this content."""
    return spell(*(Condition("file", (one.path, _sum(one.content))) for one in written))


def paths(*wanted: str) -> str:
    """All of these paths exist."""
    return spell(*(Condition("path", (path,)) for path in wanted))


def link(path: str, target: str) -> str:
    """The path is a symbolic link to the target."""
    return spell(Condition("link", (path, target)))


def succeeds(*argv: str) -> str:
    """The command, which only reads, exits with 0."""
    return spell(succeeds_one(*argv))


def succeeds_one(*argv: str) -> Condition:
    """``succeeds`` as one condition among others."""
    return Condition("succeeds", argv)


def unit(name: str, *, running: bool = False) -> str:
    """The unit is enabled at boot, and active if ``running``."""
    enabled = succeeds("systemctl", "--quiet", "is-enabled", name)
    return every(enabled, succeeds("systemctl", "--quiet", "is-active", name)) if running else enabled


def every(*texts: str) -> str:
    """All of these hold; "never" if one of them is never known."""
    return NEVER if NEVER in texts else "\n".join(text for text in texts if text)


def marker(prefix: str, name: str) -> str:
    """The file in a folder that says that a step has filled it: it disappears with the folder."""
    return f"{prefix}/.gpustack/{name}"


def _sum(content: str) -> str:
    return sha256_hex(content.encode())
