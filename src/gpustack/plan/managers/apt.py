"""apt: Debian, Ubuntu and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.model import actions as do
from gpustack.model.actions import Argv, ManagerName, Package
from gpustack.model.architectures import debian_name
from gpustack.model.conditions import Condition, spell
from gpustack.model.host import RepositoryEntry
from gpustack.model.steps import FileWrite
from gpustack.plan.managers.base import BUNDLE_INDEXES, BUNDLE_LIST, Place

_ENV = ("env", "DEBIAN_FRONTEND=noninteractive")
_GET = (*_ENV, "apt-get", "-o", "DPkg::Lock::Timeout=300")


class Apt:
    """apt-get, dpkg and apt-mark. Repository entries are deb822 or one line, by the extension of the file."""

    name: ManagerName = "apt"
    tools = ("ca-certificates", "curl", "gnupg")
    signature_tools = (*tools, "gpgv")
    clean = ""
    left = "/var/lib/apt/lists/*"

    def commands(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        match action:
            case do.InstallPackages(packages=packages):
                # A new driver replaces the packages of the conflicting branch or flavour.
                extra = ("--autoremove", "--purge") if action.replaces else ()
                down = ("--allow-downgrades",) if action.downgrade else ()
                return ((*_GET, "install", *extra, "-y", *down, *map(self.word, packages)),)
            case do.InstallFile(path=path):
                return ((*_ENV, "dpkg", "-i", path),)
            case do.RemovePackages(names=names):
                return ((*_GET, "purge", "-y", *(("--autoremove",) if action.with_parts else ()), *names),)
            case do.HoldPackages(names=names):
                return (("apt-mark", "hold", *names),)
            case do.UnholdPackages(names=names):
                return (("apt-mark", "unhold", *names),)
            case do.RefreshIndex():
                return ((*_GET, "update"),)
            case do.DisableRepository() | do.EnableRepository():
                return _switched(action)
            case do.TrustLocalKeys(folder=folder):
                # The package contains its own key; apt trusts it once it is among the keyrings.
                into = ("cp", "--", "{}", "/usr/share/keyrings/", ";")
                return (("find", folder, "-name", "*-keyring.gpg", "-exec", *into),)
            case _:
                msg = f"apt has nothing like {type(action).__name__}"
                raise ValueError(msg)

    def in_image(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        words = self.commands(action)
        match action:
            case do.RefreshIndex():
                return (("apt-get", "update"),)
            case do.InstallPackages():
                few = ("install", "--no-install-recommends")
                return tuple((_ENV[1], "apt-get", *few, *argv[len(_GET) + 1 :]) for argv in words)
            case do.RemovePackages():
                return tuple((_ENV[1], "apt-get", *argv[len(_GET) :]) for argv in words)
            case _:
                return words

    def key_path(self, place: Place) -> str:
        return f"/usr/share/keyrings/{place.id}-archive-keyring.gpg"

    def knows_key(self, keyring: str, key: str, home: str) -> tuple[Condition, ...]:
        gpg = ("gpg", "--homedir", home, "--batch", "--no-default-keyring", "--keyring", keyring, "--list-keys", key)
        # First check for the file: gpg would create an empty keyring.
        return Condition("path", (keyring,)), Condition("succeeds", gpg)

    def repository_file(self, place: Place) -> FileWrite:
        arch = debian_name(place.repository.arch)
        # Fields and order of Ansible's deb822_repository, so that both write the same bytes.
        fields = [
            *([f"Architectures: {arch}"] if arch else []),
            f"X-Repolib-Name: {place.file}",
            f"Signed-By: {place.keyring}",
            "Suites: /",
            "Types: deb",
            f"URIs: {place.url}",
        ]
        return FileWrite(path=f"/etc/apt/sources.list.d/{place.file}.sources", content="\n".join(fields) + "\n")

    def is_disabled(self, entry: RepositoryEntry) -> str:
        if not entry.path.endswith(".list"):
            return spell(Condition("succeeds", ("test", "!", "-e", entry.path)))
        names_it = ("grep", "--quiet", "--regexp", line_of(entry.url).replace("\\#", "#"), "--", entry.path)
        return spell(Condition("succeeds", ("sh", "-c", '! "$@"', "sh", *names_it)))

    def word(self, package: Package) -> str:
        return f"{package.name}={package.pin}" if package.pin else package.name

    def read(self, word: str) -> Package:
        name, _, pin = word.partition("=") if "/" not in word else (word, "", "")
        return Package(name=name, pin=pin)

    def switches(self, packages: Sequence[Package]) -> tuple[str, ...]:  # noqa: ARG002 (apt takes files as they are)
        return ()

    def offline(self, argv: Argv) -> Argv:
        settings = (
            f"Dir::Etc::sourcelist={BUNDLE_LIST}",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={BUNDLE_INDEXES}",
            "APT::Sandbox::User=root",
        )
        return _with_options(argv, settings) if "apt-get" in argv else argv

    def addresses(self, argv: Argv, folder: str) -> Argv:
        return _fetching(argv, folder, "--print-uris")

    def download(self, argv: Argv, folder: str) -> Argv:
        return _fetching(argv, folder, "--download-only")

    def provides(self, name: str) -> Condition | None:  # noqa: ARG002 (dpkg knows packages only)
        return None

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:  # noqa: ARG002 (a command does it)
        return None

    def hold_tools(self) -> tuple[str, ...]:
        return ()


def _with_options(argv: Argv, settings: Sequence[str]) -> Argv:
    at = argv.index("apt-get") + 1
    return (*argv[:at], *(word for one in settings for word in ("-o", one)), *argv[at:])


def _fetching(argv: Argv, folder: str, how: str) -> Argv:
    at = argv.index("install") + 1
    return (*argv[:at], "-o", f"Dir::Cache::archives={folder}/", how, *argv[at:])


def _switched(action: do.DisableRepository | do.EnableRepository) -> tuple[Argv, ...]:
    path = action.path
    is_list = path.endswith(".list")
    aside = f"{path}.saved-by-gpustack" if is_list else f"{path}.disabled-by-gpustack"
    match action:
        case do.EnableRepository():
            return (("mv", "--", aside, path),)
        case do.DisableRepository() if is_list:
            # Only the lines with this address: the file may contain other archives too.
            expression = f"\\#{line_of(action.url)}#s#^#\\# off by gpustack: #"
            return ("cp", "--preserve", "--", path, aside), ("sed", "-i", "-e", expression, "--", path)
        case do.DisableRepository():
            return (("mv", "--", path, aside),)


def line_of(url: str) -> str:
    """The lines of a source list that name an address, as a sed expression between two #."""
    address = url.partition("://")[2].rstrip("/")
    # A bracket or brace in square ones is itself to sed and to Python, whose other spellings of it differ.
    plain = (f"[{char}]" if char in "(){}" else f"\\{char}" if char in "\\.*[]^$#&" else char for char in address)
    return f"^deb.*{''.join(plain)}"


MANAGER = Apt()
