"""zypper: SLES, openSUSE Leap and Tumbleweed."""

from __future__ import annotations

from collections.abc import Sequence

from gpustack.plan.managers.base import Argv, Package, Place
from gpustack.plan.managers.rpm import RpmManager

_ZYPPER = ("zypper", "--non-interactive")


class Zypper(RpmManager):
    """zypper. Keys are imported after their fingerprint was checked, so no key is ever accepted automatically."""

    name = "zypper"
    folder = "/etc/zypp/repos.d"
    tools = ("gpg2",)

    def checks(self, place: Place) -> list[str]:  # noqa: ARG002 (libzypp takes signed metadata for its packages)
        return ["gpgcheck=1"]

    def extra_lines(self, place: Place) -> list[str]:  # noqa: ARG002
        return ["autorefresh=1", "type=rpm-md"]

    def refresh(self, place: Place | None = None) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "refresh", *([place.section] if place else [])),)

    def install(self, packages: Sequence[Package], *, downgrade: bool = False) -> Argv:
        extra = ["--oldpackage"] if downgrade else []
        return (*_ZYPPER, "install", "--auto-agree-with-licenses", *extra, *map(self.word, packages))

    def word(self, package: Package) -> str:
        pin = package.pin.removesuffix("-*")
        return f"{package.name}={pin}" if pin else package.name

    def remove(self, names: Sequence[str], *, with_parts: bool = False) -> Argv:  # noqa: ARG002 (it always does)
        return (*_ZYPPER, "remove", "--clean-deps", *names)

    def hold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "addlock", *names),)

    def unhold(self, names: Sequence[str]) -> tuple[Argv, ...]:
        return ((*_ZYPPER, "removelock", *names),)


MANAGER = Zypper()
