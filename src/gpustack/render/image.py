"""The base image of a system, by its os-release."""

from __future__ import annotations

import re

from gpustack.errors import UnsupportedError
from gpustack.model.host import Host

_SPELLED = re.compile(r"([a-z][a-z-]*?)-?([0-9][0-9.]*)")
_IMAGES = {
    "almalinux": "almalinux:{version}",
    "amzn": "amazonlinux:{version}",
    "azurelinux": "mcr.microsoft.com/azurelinux/base/core:{version}",
    "centos": "quay.io/centos/centos:stream{version}",
    "debian": "debian:{version}",
    "fedora": "fedora:{version}",
    "mariner": "mcr.microsoft.com/cbl-mariner/base/core:{version}",
    "ol": "oraclelinux:{version}",
    "opensuse-leap": "opensuse/leap:{version}",
    "opensuse-tumbleweed": "opensuse/tumbleweed:latest",
    "rhel": "registry.access.redhat.com/ubi{major}/ubi:{tag}",
    "rocky": "rockylinux/rockylinux:{version}",
    "sles": "registry.suse.com/bci/bci-base:{version}",
    "ubuntu": "ubuntu:{version}",
}
"""The image that each system's own publisher keeps, by the system's ID. UBI is what RHEL may be given away as."""


def base_image(host: Host) -> str:
    """The image to start from: that of the host's system, or of the system that a derivative is based on.

    Raises UnsupportedError where we know of none.
    """
    for name, version in _candidates(host):
        image = _IMAGES.get(name)
        if image and ("{" not in image or re.fullmatch(r"[0-9][0-9.]{0,15}", version)):
            # UBI tags name minor releases; the newest of a major one is only called latest.
            tag = version if "." in version else "latest"
            full = f"{version}.0" if name == "sles" and "." not in version else version
            return image.format(version=full, major=version.partition(".")[0], tag=tag)
    msg = f"there is no container image of {host.os.name or host.os.spelled} that we know of"
    raise UnsupportedError(msg, hint="plan for a system that has one: --os ubuntu24.04, debian12, rhel9, ...")


def _candidates(host: Host) -> list[tuple[str, str]]:
    if host.environment == "jetson":
        return []
    found = [(host.os.id or "", host.os.version_id or "")]
    base = _SPELLED.fullmatch(host.os.base or "")
    return [*found, (base[1], base[2])] if base else found
