"""apt: Debian, Ubuntu and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.model.architectures import debian_name
from gpustack.model.conditions import Condition, spelled
from gpustack.model.host import RepositoryEntry
from gpustack.model.steps import FileWrite
from gpustack.plan.managers.base import Argv, Package, Place

_ENV = ("env", "DEBIAN_FRONTEND=noninteractive")
_GET = (*_ENV, "apt-get", "-o", "DPkg::Lock::Timeout=300")


class Apt:
    """apt-get, dpkg and apt-mark. Repository entries are deb822 or one line, as the file's name says."""

    name = "apt"
    tools = ("ca-certificates", "curl", "gnupg")

    def key_path(self, place: Place) -> str:
        return f"/usr/share/keyrings/{place.id}-archive-keyring.gpg"

    def key_commands(self, place: Place) -> tuple[Argv, ...]:  # noqa: ARG002 (Signed-By names the file; that is enough)
        return ()

    def repository_file(self, place: Place) -> FileWrite:
        arch = debian_name(place.repository.arch)
        # Fields and order of Ansible's deb822_repository, so that either way of writing it leaves the same bytes.
        fields = [
            *([f"Architectures: {arch}"] if arch else []),
            f"X-Repolib-Name: {place.file}",
            f"Signed-By: {place.keyring}",
            "Suites: /",
            "Types: deb",
            f"URIs: {place.url}",
        ]
        return FileWrite(path=f"/etc/apt/sources.list.d/{place.file}.sources", content="\n".join(fields) + "\n")

    def disable(self, entry: RepositoryEntry) -> tuple[tuple[Argv, ...], tuple[Argv, ...]]:
        if not entry.path.endswith(".list"):
            moved = f"{entry.path}.disabled-by-gpustack"
            return (("mv", "--", entry.path, moved),), (("mv", "--", moved, entry.path),)
        # Only the lines with this address: the file may hold other archives too.
        expression = f"\\#{_line_of(entry)}#s#^#\\# off by gpustack: #"
        saved = f"{entry.path}.saved-by-gpustack"
        return (
            (("cp", "--preserve", "--", entry.path, saved), ("sed", "-i", "-e", expression, "--", entry.path)),
            (("mv", "--", saved, entry.path),),
        )

    def is_disabled(self, entry: RepositoryEntry) -> str:
        if not entry.path.endswith(".list"):
            return spelled(Condition("succeeds", ("test", "!", "-e", entry.path)))
        names_it = ("grep", "--quiet", "--regexp", _line_of(entry).replace("\\#", "#"), "--", entry.path)
        return spelled(Condition("succeeds", ("sh", "-c", '! "$@"', "sh", *names_it)))

    def refresh(self, place: Place | None = None) -> tuple[Argv, ...]:  # noqa: ARG002 (apt has one index for all)
        return ((*_GET, "update"),)

    def install(self, packages: Sequence[Package], *, downgrade: bool = False) -> Argv:
        extra = ["--allow-downgrades"] if downgrade else []
        return (*_GET, "install", "-y", *extra, *map(self.word, packages))

    def word(self, package: Package) -> str:
        return f"{package.name}={package.pin}" if package.pin else package.name

    def install_file(self, path: str) -> Argv:
        return (*_ENV, "dpkg", "-i", path)

    def remove(self, names: Sequence[str], *, with_parts: bool = False) -> Argv:
        return (*_GET, "purge", "-y", *(("--autoremove",) if with_parts else ()), *names)

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return (("apt-mark", "hold", *names),)

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return (("apt-mark", "unhold", *names),)

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:  # noqa: ARG002 (a command does it)
        return None

    def hold_tools(self) -> tuple[str, ...]:
        return ()


def _line_of(entry: RepositoryEntry) -> str:
    """The lines of a source list that name an entry's address, as sed's expression between two #."""
    address = entry.url.partition("://")[2].rstrip("/")
    return "^deb.*" + "".join(f"\\{char}" if char in "\\.*[]^$#&" else char for char in address)


MANAGER = Apt()
