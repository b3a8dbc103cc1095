"""What every package manager can do for a plan. Argument lists and files only; nothing is run here."""

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
"""Where a plan's downloads lie."""


BUNDLE = "/var/lib/gpustack/bundle"
"""Where package managers are told of a bundle; their own settings are left alone."""

BUNDLE_LIST = f"{BUNDLE}/apt.list"
BUNDLE_INDEXES = f"{BUNDLE}/apt-indexes"
BUNDLE_REPOSITORIES = f"{BUNDLE}/repositories"


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
    """The words of a package manager."""

    name: ManagerName
    tools: tuple[str, ...]
    """What fetching and checking a key needs."""

    signature_tools: tuple[str, ...]
    """What checking a signed file needs."""

    def commands(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        """The commands of an action, asking nothing; () where a file does it."""
        ...

    def in_image(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        """The commands of an action while an image is made; () for what the next installation does by itself."""
        ...

    clean: str
    """The command that leaves no index and no package in an image, "" where there is none."""

    left: str
    """What else to remove for that, as a pattern of a shell; "" for nothing."""

    def key_path(self, place: Place) -> str:
        """Where the checked key of a repository is kept."""
        ...

    def knows_key(self, keyring: str, key: str, home: str) -> tuple[Condition, ...]:
        """The conditions that a key (fingerprint or id) at ``keyring`` is known; ``home`` is a folder of gpg's own."""
        ...

    def repository_file(self, place: Place) -> FileWrite:
        """The file that names the repository, its key, and nothing that weakens the check of signatures."""
        ...

    def is_disabled(self, entry: RepositoryEntry) -> str:
        """The condition that ``DisableRepository`` has been carried out."""
        ...

    def word(self, package: Package) -> str:
        """The package and its pin as one word of the command line."""
        ...

    def read(self, word: str) -> Package:
        """The package that a word of the command line names; a file, an address or a capability is its own name."""
        ...

    def switches(self, packages: Sequence[Package]) -> tuple[str, ...]:
        """What an installation has to be told because files are among these."""
        ...

    def offline(self, argv: Argv) -> Argv:
        """The command with packages from a bundle, whose settings lie in ``BUNDLE``; itself where it asks nobody."""
        ...

    def addresses(self, argv: Argv, folder: str) -> Argv:
        """The command that prints what an installing one would download, () where the manager cannot."""
        ...

    def download(self, argv: Argv, folder: str) -> Argv:
        """The command that downloads to ``folder`` what an installing one would install."""
        ...

    def provides(self, name: str) -> Condition | None:
        """The condition for what is no package's name (a file, a capability); None where it is one."""
        ...

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:
        """The file that keeps packages at their version, None where a command does it."""
        ...

    def hold_tools(self) -> tuple[str, ...]:
        """Packages that holding needs."""
        ...
