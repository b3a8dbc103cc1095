"""os-release: its shell-like values, and the known system that a release is or derives from."""

from __future__ import annotations

import re

from gpustack.model.host import OperatingSystem
from gpustack.model.places import System, find_system
from gpustack.patterns import later

MAX_LINES = 500
MAX_VALUE = 300
_LINE = later(r"\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_ESCAPE = later(r"\\(.)")
_RPM_FAMILIES = {"dnf", "yum", "tdnf", "zypper"}
_FAMILY_OF_LIKE = {"ubuntu": "apt", "debian": "apt", "rhel": "dnf", "fedora": "dnf", "centos": "dnf", "suse": "zypper"}


def parse_os_release(text: str) -> dict[str, str]:
    """The assignments in an os-release file. Values may be bare or quoted either way; other lines are ignored."""
    found: dict[str, str] = {}
    for line in text.splitlines()[:MAX_LINES]:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        value = _unquoted(match[2].strip())
        if value and value.isprintable() and len(value) <= MAX_VALUE:
            found[match[1]] = value
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        inner = value[1:-1]
        return inner if value[0] == "'" else _ESCAPE.sub(r"\1", inner)
    return "" if value[:1] in {'"', "'"} else value


def operating_system(
    values: dict[str, str], systems: tuple[System, ...], *, manager_hint: str | None = None
) -> OperatingSystem:
    """The system in os-release. ``manager_hint`` is the family of the package database that was found."""
    identity = values.get("ID")
    version = values.get("VERSION_ID")
    like = tuple(values.get("ID_LIKE", "").lower().split())
    codename = values.get("VERSION_CODENAME") or values.get("UBUNTU_CODENAME") or values.get("DEBIAN_CODENAME")
    row = find_system(systems, identity, version) or _by_codename(systems, identity, version, codename)
    if row is not None and manager_hint == "apt" and row.family in _RPM_FAMILIES:
        row = None  # a desktop edition with dpkg under the server's ID: its packages differ
    base = None if row is not None and not _is_bare(row) else _base(values, systems, row)
    told = row or base
    family = told.family if told is not None else None
    if family in {None, "", "none"} and row is None:
        family = manager_hint or next((_FAMILY_OF_LIKE[word] for word in like if word in _FAMILY_OF_LIKE), None)
    return OperatingSystem(
        id=identity,
        version_id=version,
        family=family or None,
        name=values.get("PRETTY_NAME") or values.get("NAME") or (row.name if row is not None else None),
        eol=(row.eol if row is not None else "") or None,
        codename=codename,
        like=like,
        repo=(row.repo if row is not None and row.repo else base.repo if base is not None else "") or None,
        base=(row.base if row is not None and row.base else base.key if base is not None else "") or None,
        system=row.key if row is not None else None,
    )


def _is_bare(row: System) -> bool:
    """Whether a row has neither a repository nor a reason: then the release's statement on its base counts."""
    return not row.repo and not row.base and not row.no_repo


def _by_codename(
    systems: tuple[System, ...], identity: str | None, version: str | None, codename: str | None
) -> System | None:
    if version is not None or not identity or not codename:
        return None
    return next((r for r in systems if r.id == identity.lower() and r.codename == codename), None)


def _base(values: dict[str, str], systems: tuple[System, ...], row: System | None) -> System | None:
    """The system whose repository a derivative uses, as the release itself declares it; ID_LIKE alone is no proof."""
    identity = (values.get("ID") or "").lower()
    for key, parent in (("UBUNTU_CODENAME", "ubuntu"), ("DEBIAN_CODENAME", "debian")):
        name = values.get(key)
        if name and identity != parent:
            return next((r for r in systems if r.id == parent and r.codename == name.lower()), None)
    if "debian" in values.get("ID_LIKE", "").lower().split() and values.get("VERSION_CODENAME"):
        name = values["VERSION_CODENAME"].lower()
        return next((r for r in systems if r.id == "debian" and r.codename == name), None)
    platform = re.fullmatch(r"platform:(el|f)(\d+)", values.get("PLATFORM_ID", ""))
    if platform is None or identity in {"rhel", "fedora", "amzn"}:
        return None
    parent = "rhel" if platform[1] == "el" else "fedora"
    return find_system(systems, parent, platform[2]) if row is None or not row.no_repo else None
