"""What package managers do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpustack.model.actions.base import Action

ManagerName = Literal["apt", "dnf", "yum", "tdnf", "zypper"]


class Package(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One package by name; ``pin`` is its exact version for the manager, "" where the name or a lock fixes it."""

    name: str
    pin: str = ""


class PackageAction(Action, frozen=True, kw_only=True):
    """What a package manager does. ``bundle``: packages come from one, and no network is asked."""

    manager: ManagerName
    bundle: bool = False


class InstallPackages(PackageAction, frozen=True, kw_only=True):
    """Install exactly these, or go to these versions.

    ``downgrade`` allows older versions than are there, ``replaces`` the removal of what they cannot lie beside.
    """

    packages: tuple[Package, ...]
    downgrade: bool = False
    replaces: bool = False


class InstallFile(PackageAction, frozen=True, kw_only=True):
    """Install the package ``name`` from a file on the host."""

    path: str
    name: str


class RemovePackages(PackageAction, frozen=True, kw_only=True):
    """Remove packages; ``with_parts``: and what came along with them that nothing else needs."""

    names: tuple[str, ...]
    with_parts: bool = False


class HoldPackages(PackageAction, frozen=True, kw_only=True):
    """Keep packages (names, or patterns of names) at their version. ``tools`` are packages that this needs."""

    names: tuple[str, ...]
    tools: tuple[str, ...] = ()


class UnholdPackages(PackageAction, frozen=True, kw_only=True):
    """Let packages follow upgrades again."""

    names: tuple[str, ...]


class RefreshIndex(PackageAction, frozen=True, kw_only=True):
    """Read package indexes anew: of the repository ``section`` where the manager can, else of all."""

    section: str = ""


class EnableStream(PackageAction, frozen=True, kw_only=True):
    """Enable a module stream (NAME:STREAM); ``instead`` says how one that is enabled now gives way."""

    stream: str
    instead: Literal["", "reset", "switch"] = ""


class ResetStream(PackageAction, frozen=True, kw_only=True):
    """Forget which stream of a module is enabled."""

    name: str


class DisableRepository(PackageAction, frozen=True, kw_only=True):
    """Switch off the entry for ``url`` in the file ``path``."""

    path: str
    url: str


class EnableRepository(PackageAction, frozen=True, kw_only=True):
    """Take ``DisableRepository`` back."""

    path: str
    url: str


class ExcludePackages(PackageAction, frozen=True, kw_only=True):
    """Keep packages of these patterns out of the repositories in the files ``paths``."""

    paths: tuple[str, ...]
    patterns: tuple[str, ...]


class IncludePackages(PackageAction, frozen=True, kw_only=True):
    """Take ``ExcludePackages`` back."""

    paths: tuple[str, ...]
    patterns: tuple[str, ...]


class ImportKey(PackageAction, frozen=True, kw_only=True):
    """Have the package manager's own database know the checked key in a file, by its ``fingerprint`` where known."""

    path: str
    fingerprint: str = ""


class ForgetKey(PackageAction, frozen=True, kw_only=True):
    """Take a key, by the end of its id or fingerprint, out of the package manager's own database."""

    key: str


class TrustLocalKeys(PackageAction, frozen=True, kw_only=True):
    """Trust the keyrings that a local repository in ``folder`` brought along."""

    folder: str
