"""In which driver releases NVIDIA lists each GPU: the table in the README of the open kernel modules, and
supported-gpus.json out of the driver.

A device counts from the first release of a branch from which on every list of the branch that was read names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from update.form import json_of, keys, listing, mapping, numbers, text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "README.md of each tag of the open modules; supported-gpus.json of each driver, named by its release"
Lists = dict[str, set[str]]
"""The device ids of each release."""

WITHOUT_TABLE = "515.43.04"
"""The first release of the open modules: its README has no table yet."""

_OPEN = re.compile(r"https://raw\.githubusercontent\.com/NVIDIA/open-gpu-kernel-modules/(\d+(?:\.\d+)+)/README\.md")
_OWN = re.compile(r".*/supported-gpus-(\d+(?:\.\d+)+)\.json")
_ROW = re.compile(r"\|\s*.+?\s*\|\s*([0-9A-Fa-f]{4})(?:\s+[0-9A-Fa-f]{4}\s+[0-9A-Fa-f]{4})?\s*\|\s*")
_CHIP = ("devid", "features", "legacybranch", "name", "subdevid", "subvendorid", "gspfw", "kernelopen", "runtimepm")
_DEVICE = re.compile(r"0x[0-9A-Fa-f]{4}")


def rows(bodies: Sequence[Body]) -> Given:
    """Branches, and the devices with the first release of each branch."""
    lists: dict[str, Lists] = {"open": {}, "own": {}}
    for body in bodies:
        if known := _OPEN.fullmatch(body.address):
            lists["open"][known[1]] = _of_readme(body)
        elif known := _OWN.fullmatch(body.address):
            lists["own"].setdefault(known[1], set()).update(_of_driver(body))
        else:
            raise refuse(body.address, "is not the address of a list of GPUs")
    found = [Found("gpu-lists", "branches", row) for kind in lists for row in _branches(kind, lists[kind])]
    first = {kind: firsts(of) for kind, of in lists.items()}
    for device in sorted(set(first["open"]) | set(first["own"])):
        row: Row = {"device": f"0x{device}"}
        row |= {kind: in_order(first[kind][device].values()) for kind in lists if device in first[kind]}
        row["src"] = [src for kind in lists if device in first[kind] for src in _SOURCES[kind]]
        found.append(Found("gpu-lists", "devices", row))
    return Given(tuple(found), (("gpu-lists", "devices", {}), ("gpu-lists", "branches", {})) if bodies else ())


_SOURCES = {"open": ("openreadme",), "own": ("ubuntu", "suse")}


def _of_readme(body: Body) -> set[str]:
    found = {known[1].lower() for line in text_of(body).splitlines() if (known := _ROW.fullmatch(line))}
    if not found and f"/{WITHOUT_TABLE}/" not in body.address:
        raise refuse(body.address, "has no table of GPUs")
    return found


def _of_driver(body: Body) -> set[str]:
    document = json_of(body)
    keys(document, ("chips", "date", "driver_version", "legacybranches"), body.address, needed=("chips",))
    found = set()
    for chip in listing(document["chips"], body.address):
        about = mapping(chip, body.address)
        keys(about, _CHIP, body.address, needed=("devid",))
        if not _DEVICE.fullmatch(str(about["devid"])):
            raise refuse(body.address, f"has the device {about['devid']!r}")
        if "legacybranch" not in about:
            found.add(about["devid"].lower().removeprefix("0x"))
    return found


def _branches(kind: str, lists: Lists) -> list[Row]:
    found = []
    for branch in sorted({_branch(release) for release in lists}):
        of = in_order(release for release in lists if _branch(release) == branch)
        found.append({"list": kind, "branch": branch, "first": of[0], "last": of[-1], "src": list(_SOURCES[kind])})
    return found


def firsts(lists: Lists) -> dict[str, dict[str, str]]:
    """For each device the first release of each branch from which on every later list of the branch names it."""
    found: dict[str, dict[str, str]] = {}
    later: dict[str, set[str]] = {}
    for release in reversed(in_order(lists)):
        branch = _branch(release)
        named = lists[release] & later.get(branch, lists[release])
        later[branch] = named
        for device in named:
            found.setdefault(device, {})[branch] = release
    return found


def _branch(release: str) -> str:
    return release.partition(".")[0]


def in_order(releases: Iterable[str]) -> list[str]:
    """Releases, the lowest first."""
    return sorted(releases, key=numbers)
