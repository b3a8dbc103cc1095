"""What dnf, yum, tdnf and zypper have in common: .repo files and keys in the rpm database."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.model.conditions import Condition, spelled
from gpustack.model.host import RepositoryEntry
from gpustack.model.steps import FileWrite
from gpustack.plan.managers.base import Argv, Package, Place

KEY_FOLDER = "/etc/pki/rpm-gpg"


class RpmManager:
    """The common part; ``folder`` is where .repo files lie."""

    name = ""
    folder = "/etc/yum.repos.d"
    tools: tuple[str, ...] = ("gnupg2",)

    def key_path(self, place: Place) -> str:
        return f"{KEY_FOLDER}/RPM-GPG-KEY-NVIDIA-{place.key.id if place.key else place.id}"

    def key_commands(self, place: Place) -> tuple[Argv, ...]:
        return (("rpm", "--import", place.keyring),)

    def repository_file(self, place: Place) -> FileWrite:
        lines = [
            f"# {place.title}; written by gpustack",
            f"[{place.section}]",
            f"name={place.title}",
            f"baseurl={place.url}",
            "enabled=1",
            *self.checks(place),
            f"gpgkey=file://{place.keyring}",
            *self.extra_lines(place),
        ]
        return FileWrite(path=f"{self.folder}/{place.file}.repo", content="\n".join(lines) + "\n")

    def checks(self, place: Place) -> list[str]:
        """The lines that have every package checked, by its own signature or through the signed metadata."""
        if place.signed == "packages":
            return ["gpgcheck=1"]
        # The publisher signs the metadata, which holds the sum of every package, and not the packages themselves.
        return ["repo_gpgcheck=1", "gpgcheck=false"]

    def extra_lines(self, place: Place) -> list[str]:  # noqa: ARG002 (for those that need one)
        return []

    def disable(self, entry: RepositoryEntry) -> tuple[tuple[Argv, ...], tuple[Argv, ...]]:
        moved = f"{entry.path}.disabled-by-gpustack"
        return (("mv", "--", entry.path, moved),), (("mv", "--", moved, entry.path),)

    def is_disabled(self, entry: RepositoryEntry) -> str:
        return spelled(Condition("succeeds", ("test", "!", "-e", entry.path)))

    def refresh(self, place: Place | None = None) -> tuple[Argv, ...]:  # noqa: ARG002 (all indexes at once)
        return ((self.name, "clean", "expire-cache"), (self.name, "-y", "makecache"))

    def install(self, packages: Sequence[Package], *, downgrade: bool = False) -> Argv:
        return (self.name, "-y", "downgrade" if downgrade else "install", *map(self.word, packages))

    def word(self, package: Package) -> str:
        """The package as the manager's command line takes it."""
        pin = package.pin.removesuffix("-*")
        return f"{package.name}-{pin}" if pin else package.name

    def install_file(self, path: str) -> Argv:
        return ("rpm", "--install", path)

    def remove(self, names: Sequence[str], *, with_parts: bool = False) -> Argv:
        # dnf takes what nobody else needs along by itself; yum and tdnf have a command of its own for that.
        alone = self.name == "dnf" or not with_parts
        return (self.name, "-y", "remove" if alone else "autoremove", *names)

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((self.name, "-y", "versionlock", "add", *names),)

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((self.name, "-y", "versionlock", "delete", *names),)

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:  # noqa: ARG002 (a command does it)
        return None

    def hold_tools(self) -> tuple[str, ...]:
        return ()
