"""What dnf, yum, tdnf and zypper share: .repo files and keys in the rpm database."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpustack.model import actions as do
from gpustack.model.actions import Argv, ManagerName, Package
from gpustack.model.conditions import Condition, spell
from gpustack.model.host import RepositoryEntry
from gpustack.model.steps import FileWrite
from gpustack.plan.managers.base import BUNDLE_REPOSITORIES, Place

KEY_FOLDER = "/etc/pki/rpm-gpg"
_PINNED = re.compile(r"(?P<name>[a-zA-Z].*?)-(?P<pin>\d[^-]*(?:-[^-]+)?)")
_CAPABILITY = re.compile(r".*[(/].*")


class RpmManager:
    """The common part; ``folder`` is that of the .repo files."""

    name: ManagerName
    folder = "/etc/yum.repos.d"
    tools: tuple[str, ...] = ("gnupg2",)

    @property
    def signature_tools(self) -> tuple[str, ...]:
        return self.tools

    def commands(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:  # noqa: C901, PLR0911, PLR0912 (one for each action)
        match action:
            case do.InstallPackages():
                return (self.install(action),)
            case do.InstallFile(path=path):
                return (("rpm", "--install", path),)
            case do.RemovePackages():
                return (self.remove(action),)
            case do.HoldPackages(names=names, tools=tools):
                needs = do.InstallPackages(manager=self.name, packages=tuple(Package(name=name) for name in tools))
                return (*((self.install(needs),) if tools else ()), *self.hold(names))
            case do.UnholdPackages(names=names):
                return self.unhold(names)
            case do.RefreshIndex(section=section):
                return self.refresh(section)
            case do.EnableStream() | do.ResetStream():
                return _stream(self.name, action)
            case do.DisableRepository(path=path):
                return (("mv", "--", path, f"{path}.disabled-by-gpustack"),)
            case do.EnableRepository(path=path):
                return (("mv", "--", f"{path}.disabled-by-gpustack", path),)
            case do.ExcludePackages(paths=paths, patterns=patterns):
                return (("sed", "-i", "-e", f"/^enabled=/a {exclusion(patterns)}", "--", *paths),)
            case do.IncludePackages(paths=paths, patterns=patterns):
                return (("sed", "-i", "-e", f"/^{exclusion(patterns).replace('*', '[*]')}$/d", "--", *paths),)
            case do.ImportKey(path=path):
                return (("rpm", "--import", path),)
            case do.ForgetKey(key=key):
                return (("rpm", "--erase", "--allmatches", _key_name(key)),)
            case do.TrustLocalKeys():
                msg = f"{self.name} takes keys into its own database"
                raise ValueError(msg)

    def in_image(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        # The next installation reads the index by itself, and a layer keeps none.
        return () if isinstance(action, do.RefreshIndex) else self.commands(action)

    @property
    def clean(self) -> str:
        return f"{self.name} clean all"

    @property
    def left(self) -> str:
        return f"/var/cache/{self.name}"

    def key_path(self, place: Place) -> str:
        return f"{KEY_FOLDER}/RPM-GPG-KEY-NVIDIA-{place.key.id if place.key else place.id}"

    def knows_key(self, keyring: str, key: str, home: str) -> tuple[Condition, ...]:  # noqa: ARG002 (rpm needs none)
        return Condition("path", (keyring,)), Condition("succeeds", ("rpm", "--query", _key_name(key)))

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
        """The lines that have every package verified, by its own signature or through the signed metadata."""
        if place.signed == "packages":
            return ["gpgcheck=1"]
        # The publisher signs the metadata, which contains the checksum of every package, but not the packages.
        return ["repo_gpgcheck=1", "gpgcheck=false"]

    def extra_lines(self, place: Place) -> list[str]:  # noqa: ARG002 (for those that need one)
        return []

    def is_disabled(self, entry: RepositoryEntry) -> str:
        return spell(Condition("succeeds", ("test", "!", "-e", entry.path)))

    def refresh(self, section: str) -> tuple[Argv, ...]:  # noqa: ARG002 (all indexes at once)
        return (self.name, "clean", "expire-cache"), (self.name, "-y", "makecache")

    def install(self, action: do.InstallPackages) -> Argv:
        verb = "downgrade" if action.downgrade else "install"
        return (self.name, "-y", verb, *map(self.word, action.packages))

    def word(self, package: Package) -> str:
        pin = package.pin.removesuffix("-*")
        return f"{package.name}-{pin}" if pin else package.name

    def read(self, word: str) -> Package:
        found = None if set(word) & set("/(*") else _PINNED.fullmatch(word)
        return Package(name=found["name"], pin=found["pin"]) if found else Package(name=word)

    def switches(self, packages: Sequence[Package]) -> tuple[str, ...]:  # noqa: ARG002 (for those that need one)
        return ()

    def offline(self, argv: Argv) -> Argv:
        # Its settings are its own and require no network.
        if self.name not in argv or "config-manager" in argv:
            return argv
        at = argv.index(self.name) + 1
        return (*argv[:at], f"--setopt=reposdir={BUNDLE_REPOSITORIES}", *argv[at:])

    def addresses(self, argv: Argv, folder: str) -> Argv:  # noqa: ARG002 (it prints none)
        return ()

    def download(self, argv: Argv, folder: str) -> Argv:
        at = argv.index("install") + 1
        return (*argv[:at], "--downloadonly", f"--downloaddir={folder}", *argv[at:])

    def provides(self, name: str) -> Condition | None:
        capability = _CAPABILITY.fullmatch(name)
        return Condition("succeeds", ("rpm", "--query", "--whatprovides", name)) if capability else None

    def remove(self, action: do.RemovePackages) -> Argv:
        return (self.name, "-y", "autoremove" if action.with_parts else "remove", *action.names)

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((self.name, "-y", "versionlock", "add", *names),)

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((self.name, "-y", "versionlock", "delete", *names),)

    def hold_file(self, component: str, names: Sequence[str]) -> FileWrite | None:  # noqa: ARG002 (a command does it)
        return None

    def hold_tools(self) -> tuple[str, ...]:
        return ()


def exclusion(patterns: Sequence[str]) -> str:
    """The line of a .repo file that excludes packages of these patterns."""
    return f"excludepkgs={' '.join(patterns)}"


def switch_repository(identity: str, *, on: bool) -> Argv:
    """The command of dnf that enables or disables a repository that is configured."""
    return ("dnf", "config-manager", "--set-enabled" if on else "--set-disabled", identity)


def _stream(name: str, action: do.EnableStream | do.ResetStream) -> tuple[Argv, ...]:
    words = (name, "-y", "module")
    match action:
        case do.ResetStream():
            return ((*words, "reset", action.name),)
        case do.EnableStream(instead="switch"):
            return ((*words, "switch-to", action.stream, "--allowerasing"),)
        case do.EnableStream():
            reset = ((*words, "reset", action.stream.partition(":")[0]),) if action.instead else ()
            return (*reset, (*words, "enable", action.stream))


def _key_name(key: str) -> str:
    """The name that rpm gives to an imported key: the end of its fingerprint or id."""
    return f"gpg-pubkey-{key[-8:].lower()}"
