"""zypper: SLES, openSUSE Leap and Tumbleweed."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.model import actions as do
from gpustack.model.actions import Argv, Package
from gpustack.plan.managers.base import BUNDLE_REPOSITORIES, Place
from gpustack.plan.managers.rpm import RpmManager

_ZYPPER = ("zypper", "--non-interactive")


class Zypper(RpmManager):
    """zypper. Keys are imported after a check of their fingerprint, so none is ever accepted automatically."""

    name = "zypper"
    folder = "/etc/zypp/repos.d"
    tools = ("gpg2",)

    clean = "zypper clean --all"
    left = ""

    def in_image(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        return self.commands(action)

    def checks(self, place: Place) -> list[str]:  # noqa: ARG002 (libzypp uses signed metadata for its packages)
        return ["gpgcheck=1"]

    def extra_lines(self, place: Place) -> list[str]:  # noqa: ARG002
        return ["autorefresh=1", "type=rpm-md"]

    def refresh(self, section: str) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "refresh", *([section] if section else [])),)

    def install(self, action: do.InstallPackages) -> Argv:
        extra = ("--force-resolution",) if action.replaces else ()
        down = ("--oldpackage",) if action.downgrade else ()
        switches = (*extra, "--auto-agree-with-licenses", *down, *self.switches(action.packages))
        return (*_ZYPPER, "install", *switches, *map(self.word, action.packages))

    def read(self, word: str) -> Package:
        name, _, pin = word.partition("=") if "/" not in word else (word, "", "")
        return Package(name=name, pin=pin)

    def switches(self, packages: Sequence[Package]) -> tuple[str, ...]:
        # A checksum pins each of the files, so missing signatures are acceptable.
        return ("--allow-unsigned-rpm",) if any(one.name.startswith("/") for one in packages) else ()

    def offline(self, argv: Argv) -> Argv:
        if "zypper" not in argv:
            return argv
        at = argv.index("zypper") + 1
        # Refreshing a repository by name would use the network; the bundle's own is read when needed.
        rest = argv[at : argv.index("refresh") + 1] if "refresh" in argv else argv[at:]
        return (*argv[:at], "--reposd-dir", BUNDLE_REPOSITORIES, "--gpg-auto-import-keys", *rest)

    def download(self, argv: Argv, folder: str) -> Argv:
        at = argv.index("install")
        return (*argv[:at], "--pkg-cache-dir", folder, "install", "--download-only", *argv[at + 1 :])

    def word(self, package: Package) -> str:
        pin = package.pin.removesuffix("-*")
        return f"{package.name}={pin}" if pin else package.name

    def remove(self, action: do.RemovePackages) -> Argv:
        return (*_ZYPPER, "remove", "--clean-deps", *action.names)

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "addlock", *names),)

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "removelock", *names),)


MANAGER = Zypper()
