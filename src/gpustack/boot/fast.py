"""What happens at nearly every boot: the right set is active. Imports nothing but what the interpreter has loaded.

The folder ``/var/lib/gpustack/boot`` holds:

* ``table``: a line ``10de:2335 SET SET`` for each device, the preferred set first; the first line names the form.
* ``active``: the set that was found installed, and how the package database looked then.
* ``sets/SET``: ``set.json`` and the package files; see `gpustack.boot.sets`.
"""

from __future__ import annotations

import os

FOLDER = "/var/lib/gpustack/boot"
OVERRIDE = "/etc/gpustack/boot-set"
"""A file with the name of a set, which wins over the table, or with `NONE`."""

NONE = "none"
FORM = "gpustack-boot 1"
DATABASES = (
    "/var/lib/dpkg/status",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite-wal",
    "/usr/lib/sysimage/rpm/Packages.db",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/rpm/rpmdb.sqlite-wal",
    "/var/lib/rpm/Packages.db",
    "/var/lib/rpm/Packages",
)
_BUS = "/sys/bus/pci/devices"
_MODULE = "/sys/module/nvidia/version"


def told(root: str = "") -> str:
    """The sentence to print if nothing is to be done, "" if `gpustack.boot.select` has to look."""
    try:
        if not devices(root) and not text(root + OVERRIDE):
            return "no NVIDIA GPU on the PCI bus: nothing to select"
        name = wanted(root)
        active, driver, signature = [*text(f"{root}{FOLDER}/active").split("\n"), "", "", ""][:3]
        loaded = text(root + _MODULE)
        if name and name == active and signature == signature_of(root) and loaded in {"", driver}:
            return f"{name} is active: nothing to do"
    except (OSError, ValueError):
        pass
    return ""


def wanted(root: str) -> str:
    """The set that the override file or the table names, "" if neither does. Raises OSError, ValueError."""
    return text(root + OVERRIDE) or next(iter(choices(root, devices(root))), "")


def devices(root: str) -> list[str]:
    """The ids of NVIDIA's GPUs ("10de:2335") in the order of the bus."""
    found = []
    try:
        names = sorted(os.listdir(root + _BUS))  # noqa: PTH208 (pathlib costs a third of the time)
    except OSError:
        return []
    for name in names:
        # Vendor, device, subsystem and class, as in "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00".
        alias = text(f"{root}{_BUS}/{name}/modalias")
        _, _, kind = alias.partition("bc")
        if alias.startswith("pci:v000010DEd0000") and kind.startswith("03"):
            found.append(f"10de:{alias[18:22].lower()}")
    return found


def choices(root: str, ids: list[str]) -> list[str]:
    """The sets for all of these devices, the preferred first. Raises OSError, ValueError without a usable table."""
    first, *lines = text(f"{root}{FOLDER}/table").split("\n")
    if first != FORM:
        raise ValueError(first)
    rows = {line[:9]: line[10:].split(" ") for line in lines}
    found = [rows.get(one, []) for one in ids]
    return [name for name in found[0] if all(name in others for others in found)] if found else []


def signature_of(root: str) -> str:
    """How the package database looks: a change of it is a reason to look again."""
    parts = []
    for path in DATABASES:
        try:
            found = os.stat(root + path)  # noqa: PTH116 (pathlib is not imported here)
        except OSError:
            continue
        parts.append(f"{path}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}")
    return " ".join(parts)


def text(path: str) -> str:
    """The stripped text of a small file, "" if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(handle, 1 << 20):
            parts.append(part)
    except OSError:
        return ""
    finally:
        os.close(handle)
    return b"".join(parts).decode("utf-8", "replace").strip()
