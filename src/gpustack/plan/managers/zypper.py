"""zypper: SLES, openSUSE Leap and Tumbleweed."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.model import actions as do
from gpustack.model.actions import Argv, Package
from gpustack.plan.managers.base import Place
from gpustack.plan.managers.rpm import RpmManager

_ZYPPER = ("zypper", "--non-interactive")


class Zypper(RpmManager):
    """zypper. Keys are imported after their fingerprint was checked, so no key is ever accepted automatically."""

    name = "zypper"
    folder = "/etc/zypp/repos.d"
    tools = ("gpg2",)

    clean = "zypper clean --all"
    left = ""

    def in_image(self, action: do.AnyPackageAction) -> tuple[Argv, ...]:
        return self.commands(action)

    def checks(self, place: Place) -> list[str]:  # noqa: ARG002 (libzypp takes signed metadata for its packages)
        return ["gpgcheck=1"]

    def extra_lines(self, place: Place) -> list[str]:  # noqa: ARG002
        return ["autorefresh=1", "type=rpm-md"]

    def refresh(self, section: str) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "refresh", *([section] if section else [])),)

    def install(self, action: do.InstallPackages) -> Argv:
        extra = ("--force-resolution",) if action.replaces else ()
        down = ("--oldpackage",) if action.downgrade else ()
        return (*_ZYPPER, "install", *extra, "--auto-agree-with-licenses", *down, *map(self.word, action.packages))

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
