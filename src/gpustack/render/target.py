"""The host that a plan was made for, as a rendered form recognizes it where it runs."""

from __future__ import annotations

from typing import NamedTuple

from gpustack.model.plan import Plan
from gpustack.visible import one_line

REFUSED = 4
"""The exit code of a form on another host."""

_JETSON = "/etc/nv_tegra_release"
_WITHOUT_OS_RELEASE = frozenset({"rhel6", "centos6"})


class Target(NamedTuple):
    """What a host must be; "" is anything.

    ``id`` and ``version`` are ID and the beginning of VERSION_ID in os-release, ``arch`` is the machine of ``uname``,
    ``file`` must exist, ``name`` is for people.
    """

    id: str
    version: str
    arch: str
    file: str
    name: str


def target_of(plan: Plan) -> Target:
    """The host of the plan."""
    host = plan.host
    system, version = host.os.id or "", host.os.release
    name = one_line(f"{host.os.called} on {host.arch or 'an unknown architecture'}")
    file = _JETSON if system == "l4t" else ""
    if file:
        # A Jetson's os-release is that of Ubuntu, with Ubuntu's version.
        system, version = "ubuntu", ""
    elif f"{system}{version}" in _WITHOUT_OS_RELEASE:
        system, version = "", ""
    return Target(system.removeprefix("wsl-"), version, host.arch or "", file, name)
