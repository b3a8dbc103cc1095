"""Actions of package managers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpustack.model.actions.base import Action

ManagerName = Literal["apt", "dnf", "yum", "tdnf", "zypper"]


class Package(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One package by name; ``pin`` is its exact version as the manager spells it, "" if the name or a lock fixes it."""

    name: str
    pin: str = ""


class PackageAction(Action, frozen=True, kw_only=True):
    """An action of a package manager. ``bundle``: packages come from a bundle, without network access."""

    manager: ManagerName
    bundle: bool = False


class InstallPackages(PackageAction, frozen=True, kw_only=True):
    """Install or change to exactly these versions.

    ``downgrade`` allows versions older than the installed ones, ``replaces`` the removal of conflicting packages.
    """

    packages: tuple[Package, ...]
    downgrade: bool = False
    replaces: bool = False


class InstallFile(PackageAction, frozen=True, kw_only=True):
    """Install the package ``name`` from a file on the host."""

    path: str
    name: str


class RemovePackages(PackageAction, frozen=True, kw_only=True):
    """Remove packages; ``with_parts`` also removes dependencies that nothing else needs."""

    names: tuple[str, ...]
    with_parts: bool = False


class HoldPackages(PackageAction, frozen=True, kw_only=True):
    """Hold packages (names, or patterns of names) at their version. ``tools`` are packages that this requires."""

    names: tuple[str, ...]
    tools: tuple[str, ...] = ()


class UnholdPackages(PackageAction, frozen=True, kw_only=True):
    """Let packages follow upgrades again."""

    names: tuple[str, ...]


class RefreshIndex(PackageAction, frozen=True, kw_only=True):
    """Refresh package indexes: of the repository ``section`` if the manager can, else all."""

    section: str = ""


class EnableStream(PackageAction, frozen=True, kw_only=True):
    """Enable a module stream (NAME:STREAM); ``instead`` says how a currently enabled one is replaced."""

    stream: str
    instead: Literal["", "reset", "switch"] = ""


class ResetStream(PackageAction, frozen=True, kw_only=True):
    """Reset the streams of a module."""

    name: str


class DisableRepository(PackageAction, frozen=True, kw_only=True):
    """Disable the entry for ``url`` in the file ``path``."""

    path: str
    url: str


class EnableRepository(PackageAction, frozen=True, kw_only=True):
    """The inverse of ``DisableRepository``."""

    path: str
    url: str


class ExcludePackages(PackageAction, frozen=True, kw_only=True):
    """Exclude packages of these patterns in the repository files ``paths``."""

    paths: tuple[str, ...]
    patterns: tuple[str, ...]


class IncludePackages(PackageAction, frozen=True, kw_only=True):
    """The inverse of ``ExcludePackages``."""

    paths: tuple[str, ...]
    patterns: tuple[str, ...]


class ImportKey(PackageAction, frozen=True, kw_only=True):
    """Import the verified key in a file into the manager's own database, by its ``fingerprint`` if known."""

    path: str
    fingerprint: str = ""


class ForgetKey(PackageAction, frozen=True, kw_only=True):
    """Remove a key, by the end of its id or fingerprint, from the manager's own database."""

    key: str


class TrustLocalKeys(PackageAction, frozen=True, kw_only=True):
    """Trust the keyrings that a local repository in ``folder`` contains."""

    folder: str
