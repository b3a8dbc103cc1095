"""What every package manager can do for a plan. Only argument lists and files; nothing runs here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.actions import Argv, ManagerName, Package
from gpustack.model.conditions import Condition
from gpustack.model.host import RepositoryEntry
from gpustack.model.places import Repository, SigningKey
from gpustack.model.steps import FileWrite

CACHE = "/var/cache/gpustack"
"""The folder of a plan's downloads."""


BUNDLE = "/var/lib/gpustack/bundle"
"""Settings of package managers for a bundle; their own settings are left alone."""

BUNDLE_LIST = f"{BUNDLE}/apt.list"
BUNDLE_INDEXES = f"{BUNDLE}/apt-indexes"
BUNDLE_REPOSITORIES = f"{BUNDLE}/repositories"


class Place(Struct, frozen=True, kw_only=True):
    """One repository as a plan adds it.

    ``file`` (without extension) and ``section`` are the vendor's own names, so that nothing is duplicated later.
    ``url`` is its address without variables, except $basearch for rpm; ``keyring`` is the path at which the
    verified key is (or will be), ``key_url`` its source. ``signed`` says what is signed: every
    package, or the metadata with the checksums of all packages.
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
    """The words of a package manager."""

    name: ManagerName
    tools: tuple[str, ...]
    """What downloading and verifying a key requires."""

    signature_tools: tuple[str, ...]
    """What verifying a signed file requires."""

    def commands(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        """The commands of an action, non-interactive; () if a file does it."""
        ...

    def in_image(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        """The commands of an action while building an image; () for what the next installation does by itself."""
        ...

    clean: str
    """The command that removes indexes and packages from an image, or ""."""

    left: str
    """What else to remove for that, as a shell pattern; "" for nothing."""

    def key_path(self, place: Place) -> str:
        """The path of the verified key of a repository."""
        ...

    def knows_key(self, keyring: str, key: str, home: str) -> tuple[Condition, ...]:
        """The conditions that a key (fingerprint or id) at ``keyring`` is trusted; ``home`` is a folder for gpg."""
        ...

    def repository_file(self, place: Place) -> FileWrite:
        """The file that defines the repository and its key, with all signature checks enabled."""
        ...

    def is_disabled(self, entry: RepositoryEntry) -> str:
        """The condition that ``DisableRepository`` has been carried out."""
        ...

    def word(self, package: Package) -> str:
        """The package and its pin as one word on the command line."""
        ...

    def read(self, word: str) -> Package:
        """The package that a word on the command line names; a file, an address or a capability is its own name."""
        ...

    def switches(self, packages: Sequence[Package]) -> tuple[str, ...]:
        """Extra options of an installation from these files."""
        ...

    def offline(self, argv: Argv) -> Argv:
        """The command with packages from a bundle, whose settings are in ``BUNDLE``; itself if it needs no network."""
        ...

    def addresses(self, argv: Argv, folder: str) -> Argv:
        """The command that prints what an installation would download, () if the manager cannot."""
        ...

    def download(self, argv: Argv, folder: str) -> Argv:
        """The command that downloads to ``folder`` what an installation would install."""
        ...

    def provides(self, name: str) -> Condition | None:
        """The condition for a file or a capability; None for the name of a package."""
        ...

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:
        """The file that holds packages at their version, None if a command does it."""
        ...

    def hold_tools(self) -> tuple[str, ...]:
        """Packages that a hold requires."""
        ...
