"""What every package manager can do for a plan. Argument lists and files only; nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from gpustack.model.host import RepositoryEntry
from gpustack.model.places import Repository, SigningKey
from gpustack.model.steps import FileWrite

Argv = tuple[str, ...]
CACHE = "/var/cache/gpustack"
"""Where a plan's downloads lie."""


class Package(Struct, frozen=True, kw_only=True):
    """One package by name; ``pin`` is its exact version for the manager, "" where the name or a lock fixes it."""

    name: str
    pin: str = ""


class Place(Struct, frozen=True, kw_only=True):
    """One repository as a plan adds it.

    ``file`` (without ending) and ``section`` are the vendor's own names, so that nothing is doubled later.
    ``url`` is its address with no variable left in it, but $basearch in rpm's; ``keyring`` is the path at which the
    checked key lies (or will lie), ``key_url`` where it comes from. ``signed`` says what carries the signature: every
    package, or the metadata that holds the sums of all packages.
    """

    id: str
    title: str
    repository: Repository
    file: str
    section: str
    url: str
    key: SigningKey | None = None
    key_url: str = ""
    keyring: str = ""
    signed: Literal["packages", "metadata"] = "packages"


class Manager(Protocol):
    """The verbs of a package manager."""

    name: str
    tools: tuple[str, ...]
    """What fetching and checking a key needs."""

    def key_path(self, place: Place) -> str:
        """Where the checked key of a repository is kept."""
        ...

    def key_commands(self, place: Place) -> tuple[Argv, ...]:
        """What makes the manager know the key once it lies at ``place.keyring``; () where the file is enough."""
        ...

    def repository_file(self, place: Place) -> FileWrite:
        """The file that names the repository, its key, and nothing that weakens the check of signatures."""
        ...

    def disable(self, entry: RepositoryEntry) -> tuple[tuple[Argv, ...], tuple[Argv, ...]]:
        """The commands that switch an entry of the host off, and those that take this back."""
        ...

    def is_disabled(self, entry: RepositoryEntry) -> str:
        """The condition that ``disable`` has been carried out."""
        ...

    def refresh(self, place: Place | None = None) -> tuple[Argv, ...]:
        """Read the indexes anew."""
        ...

    def install(self, packages: Sequence[Package], *, downgrade: bool = False) -> Argv:
        """Install exactly these, asking nothing."""
        ...

    def word(self, package: Package) -> str:
        """The package and its pin as one word of the command line."""
        ...

    def install_file(self, path: str) -> Argv:
        """Install a package file that lies on the host."""
        ...

    def remove(self, names: Sequence[str], *, with_parts: bool = False) -> Argv:
        """Remove packages by name, asking nothing; ``with_parts``: and what came along that nothing else needs."""
        ...

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        """Keep packages at their version; () where that is done with a file."""
        ...

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:
        """The file that keeps packages at their version, None where a command does it."""
        ...

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        """Take ``hold`` back."""
        ...

    def hold_tools(self) -> tuple[str, ...]:
        """Packages that ``hold`` needs."""
        ...
